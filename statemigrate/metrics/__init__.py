"""What a query does as OpenTelemetry metrics: `EmbeddedMetrics`, `NativeMetrics`.

Only this package imports ``opentelemetry``. It needs the API alone (the extra ``metrics``).
Nothing leaves the process until an SDK with an exporter is configured.

Spark's own ``StreamingQueryProgress.observedMetrics`` does not carry these figures. It has what is
observed in the plan of the stream. On the embedded engine the state is changed within
``foreachBatch``, after that plan: of what is observed there nothing reaches Spark's progress, and
what is observed before has not seen the state. On Spark's own state ``observe`` sees the
processor's output, whose columns are the user's: a field beyond them is dropped before it could be
observed, and a key that only the backfill asked for has no output at all.
"""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.metrics.instruments import EmbeddedMetrics, StatusMetrics
    from statemigrate.metrics.listeners import NativeMetrics, SourceMetrics
else:
    make_face(
        __name__,
        {
            "instruments": "EmbeddedMetrics StatusMetrics",
            "listeners": "NativeMetrics SourceMetrics",
        },
    )
