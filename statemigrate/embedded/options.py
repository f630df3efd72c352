"""How an embedded query is tuned."""

from __future__ import annotations

from dataclasses import dataclass, field

from statemigrate.backfill import BackfillOptions


@dataclass(frozen=True)
class EngineOptions:
    """Tuning of the embedded engine.

    ``partitions`` is fixed with the first batch. A snapshot is stored every ``snapshot_every``
    batches; ``retain`` versions can be restored. ``working_directory`` holds the disposable copies
    (default: a directory of this user under the system's temporary directory).
    """

    partitions: int = 4
    snapshot_every: int = 10
    retain: int = 100
    backfill: BackfillOptions = field(default_factory=BackfillOptions)
    retire_drained: bool = True
    working_directory: str | None = None
