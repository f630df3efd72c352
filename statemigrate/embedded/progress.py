"""What a batch did, as the running query reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.read_back import Restorable


@dataclass(frozen=True)
class FamilyProgress:
    """A family other than the target: how much of it is left, exactly, and has failed."""

    store: str
    family: str
    left: int
    quarantined: int


@dataclass(frozen=True)
class BatchProgress:
    """One committed batch. Times are milliseconds; those of partitions are the slowest one's.

    ``quarantined`` counts the values whose transform failed in this batch. ``largest_rows`` is the
    number of input rows of the largest partition, ``changelog_bytes`` the size of all changelogs.
    ``clean_up_failed`` means that old versions could not be removed after it. ``damages`` are
    durable files that were missing or altered when the batch began, each with its replacement.
    ``versions`` has the results of reading files back so far.
    """

    batch: int
    rows: int
    keys: int
    touched: int
    backfilled: int
    quarantined: int
    largest_rows: int
    changelog_bytes: int
    families: tuple[FamilyProgress, ...]
    retired: tuple[str, ...]
    batch_ms: float
    restore_ms: float
    live_ms: float
    backfill_ms: float
    commit_ms: float
    clean_up_failed: bool = False
    damages: tuple[str, ...] = ()
    versions: Restorable = field(default_factory=lambda: Restorable(0, 0, 0))

    @property
    def left(self) -> int:
        """Entries still in families other than the targets."""
        return sum(family.left for family in self.families)


def batch_progress(
    manifest: Manifest,
    reports: Sequence[Mapping[str, Any]],
    sources: Mapping[str, Sequence[str]],
    retired: Sequence[str],
    batch_ms: float,
) -> BatchProgress:
    """Sum up the partitions' reports of one batch; ``sources`` names each store's families."""
    families = tuple(
        FamilyProgress(store, name, manifest.left(name) or 0, _quarantined(manifest, name))
        for store, names in sources.items()
        for name in names
    )
    counted: dict[str, Any] = {
        name: sum(report[name] for report in reports)
        for name in ("rows", "keys", "touched", "backfilled", "quarantined", "changelog_bytes")
    }
    damages = [each for report in reports for each in report["damages"]]
    slowest: dict[str, float] = {
        name: max((report[name] for report in reports), default=0.0)
        for name in ("restore_ms", "live_ms", "backfill_ms", "commit_ms")
    }
    return BatchProgress(
        batch=manifest.version,
        families=families,
        retired=tuple(retired),
        largest_rows=max((report["rows"] for report in reports), default=0),
        batch_ms=batch_ms,
        restore_ms=slowest["restore_ms"],
        live_ms=slowest["live_ms"],
        backfill_ms=slowest["backfill_ms"],
        commit_ms=slowest["commit_ms"],
        clean_up_failed=False,
        damages=tuple(f"{each['path']} is {each['found']}; {each['instead']}" for each in damages),
        **counted,
    )


def _quarantined(manifest: Manifest, family: str) -> int:
    return sum(state.quarantined.get(family, 0) for state in manifest.partitions)


# Listeners that the driver calls after every batch.


class BatchObserver(Protocol):
    """Gets the outcome of each batch, and must not raise: that would end the query."""

    def committed(self, progress: BatchProgress) -> None:
        """A batch is committed, and its sink has returned."""

    def failed(self, error: BaseException) -> None:
        """A batch ended with an error, and with it the query; of its state nothing may be there."""
