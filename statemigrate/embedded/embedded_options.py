"""How an embedded query is tuned."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from statemigrate.budget import BackfillOptions
from statemigrate.embedded.progress import BatchObserver
from statemigrate.errors import StartupError


@dataclass(frozen=True)
class EmbeddedOptions:
    """Options of the embedded engine.

    The first batch fixes ``partitions``. A snapshot is stored every ``snapshot_every`` batches;
    ``retain`` versions can be restored. ``working_directory`` has the disposable copies (default: a
    directory of this user under the system's temporary directory). ``metrics`` is called after
    every batch: an `EmbeddedMetrics`, or None. ``shared_path`` declares that all machines of the
    cluster have the checkpoint, or for a remote one ``working_directory``, under the same path on
    one shared disk. Without it, only a local master is accepted.
    """

    partitions: int = 4
    snapshot_every: int = 10
    retain: int = 100
    backfill: BackfillOptions = field(default_factory=BackfillOptions)
    retire_drained: bool = True
    working_directory: str | Path | None = None
    metrics: BatchObserver | None = None
    shared_path: bool = False

    def __post_init__(self) -> None:
        _at_least("partitions", self.partitions, 1)
        _at_least("snapshot_every", self.snapshot_every, 1)
        # A batch that is run again needs the version before it.
        _at_least("retain", self.retain, 2)


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise StartupError(
            "SM-EMBEDDED-011",
            f"EmbeddedOptions({name}={value}) cannot work",
            expected=f"{least} or more",
            found=str(value),
            next_action=f"leave {name} out, or raise it",
        )
