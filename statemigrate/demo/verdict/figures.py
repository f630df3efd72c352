"""What a demonstration found out, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.stage.crash import Crash
from statemigrate.demo.stage.options import DemoOptions
from statemigrate.demo.verdict.comparison import Comparison


@dataclass(frozen=True)
class BatchTimes:
    """Median milliseconds of a deployment's batches with rows, its first one left out.

    ``without_backfill`` leaves out the slowest partition's share of the backfill.
    """

    batches: int
    rows: int
    with_backfill: float
    without_backfill: float | None

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> BatchTimes:
        """Sum up a deployment; its first batch also starts the workers and proves nothing."""
        timed = [each for each in batches[1:] if each.rows] or list(batches)
        live = [each.without_backfill for each in timed if each.without_backfill is not None]
        return cls(
            len(batches),
            sum(each.rows for each in batches),
            _median([each.milliseconds for each in timed]),
            _median(live) if live else None,
        )


@dataclass(frozen=True)
class MigrationFigures:
    """How the old family was emptied: its values at the start, and who migrated them."""

    old_values: int
    touched: int
    backfilled: int
    left: int
    retired: tuple[str, ...]

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> MigrationFigures:
        """Sum up what came after the first deployment, from its first batch on."""
        first, last = batches[0], batches[-1]
        return cls(
            first.left + first.touched + first.backfilled,
            sum(each.touched for each in batches),
            sum(each.backfilled for each in batches),
            last.left,
            tuple(name for each in batches for name in each.retired),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every old value was migrated exactly once and the family is gone."""
        once = self.touched + self.backfilled == self.old_values
        return once and self.left == 0 and bool(self.retired)


@dataclass(frozen=True)
class Figures:
    """The whole result. ``rerun_batch`` is the first batch of the second deployment."""

    options: DemoOptions
    crash: Crash
    rerun_batch: int
    before: BatchTimes
    after: BatchTimes
    migration: MigrationFigures
    state: Comparison
    output: Comparison
    seconds: dict[str, float]

    @property
    def is_good(self) -> bool:
        """Whether the run shows what it is meant to show, without any difference."""
        return (
            self.crash.batch == self.rerun_batch
            and self.migration.is_complete
            and self.state.is_equal
            and self.output.is_equal
        )

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        return {
            "equal": self.is_good,
            **asdict(self.options),
            "killed": asdict(self.crash),
            "rerun_batch": self.rerun_batch,
            "batch_milliseconds": {"before": asdict(self.before), "after": asdict(self.after)},
            "migration": {**asdict(self.migration), "complete": self.migration.is_complete},
            "state": self.state.to_json(),
            "output": self.output.to_json(),
            "seconds": self.seconds,
        }


def _median(values: Sequence[float]) -> float:
    return round(median(values), 1) if values else 0.0
