"""A batch as the demonstration shows it, whichever engine ran it."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.embedded.progress import BatchProgress


@dataclass(frozen=True)
class Batch:
    """What one batch did. Times are milliseconds.

    ``left`` counts the values still in the old family. ``without_backfill`` leaves out the slowest
    partition's share of the backfill; it is None on Spark's own state, which does not tell.
    """

    number: int
    rows: int
    left: int
    touched: int
    backfilled: int
    milliseconds: float
    without_backfill: float | None = None
    retired: tuple[str, ...] = ()

    @classmethod
    def of(cls, progress: BatchProgress) -> Batch:
        """From the figures of the embedded engine."""
        return cls(
            progress.batch,
            progress.rows,
            progress.left,
            progress.touched,
            progress.backfilled,
            progress.batch_ms,
            progress.batch_ms - progress.backfill_ms,
            progress.retired,
        )
