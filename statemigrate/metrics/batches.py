"""Metrics of a query on the embedded engine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from statemigrate.errors import TransformError
from statemigrate.metrics.instruments import EmbeddedInstruments, meter_of
from statemigrate.metrics.recording import Recording

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from statemigrate.embedded.progress import BatchProgress


class EmbeddedMetrics:
    """Records each batch of one `EmbeddedQuery`.

    To be given as ``EmbeddedOptions(metrics=EmbeddedMetrics("sales"))``.

    ``query`` names the query in every data point; ``meter_provider`` is OpenTelemetry's global one
    unless given. A batch is recorded when it is committed and its sink has returned; one that Spark
    runs again after that, because the process ended before Spark noted it, is recorded again. What
    an exporter raises is logged and never ends the query.

    Raises `StatemigrateError` unless ``statemigrate[metrics]`` is installed.
    """

    def __init__(self, query: str, *, meter_provider: MeterProvider | None = None) -> None:
        self._query = {"query": query, "engine": "embedded"}
        self._instruments = EmbeddedInstruments(meter_of(meter_provider))
        self._recording = Recording(query)

    def committed(self, progress: BatchProgress) -> None:
        """See `statemigrate.embedded.observer.BatchObserver`."""
        self._recording.run(partial(self._record, progress))

    def failed(self, error: BaseException) -> None:
        """Count a value that ended its query."""
        if isinstance(error, TransformError):
            self._recording.run(partial(self._instruments.failed.add, 1, self._query))

    def _record(self, progress: BatchProgress) -> None:
        to, query = self._instruments, self._query
        to.migrated.add(progress.touched, {**query, "by": "touch"})
        to.migrated.add(progress.backfilled, {**query, "by": "backfill"})
        to.failed.add(progress.quarantined, query)
        to.rows.add(progress.rows, query)
        to.largest.set(progress.largest_rows, query)
        to.changelog.record(progress.changelog_bytes, query)
        to.clean_up_failures.add(int(progress.clean_up_failed), query)
        for family in progress.families:
            place = {**query, "store": family.store, "family": family.family}
            to.left.set(family.left, place)
            to.quarantined.set(family.quarantined, place)
        self._record_durations(progress)

    def _record_durations(self, progress: BatchProgress) -> None:
        to = self._instruments
        to.batch_duration.record(progress.batch_ms / 1000, self._query)
        to.restore_duration.record(progress.restore_ms / 1000, self._query)
        to.live_duration.record(progress.live_ms / 1000, self._query)
        to.backfill_duration.record(progress.backfill_ms / 1000, self._query)
        to.commit_duration.record(progress.commit_ms / 1000, self._query)
