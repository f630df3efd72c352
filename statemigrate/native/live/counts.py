"""Counting what is migrated, as far as Spark lets one count.

The workers' counts come back through Spark's accumulators, once a task. A task that is run twice
counts twice: for watching a migration, never for deciding that one is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemigrate.files.hadoop.jvm import has_jvm
from statemigrate.native.live.work import Work, tell, total_of


@dataclass(frozen=True)
class MigrationCounts:
    """Entries migrated by touch, by the backfill, and left in quarantine, in this driver's life."""

    touched_total: Any
    backfilled_total: Any
    quarantined_total: Any
    work_total: Any = None

    @classmethod
    def of_session(cls) -> MigrationCounts | None:
        """Counters of the active session; None where there is none, or none that has them."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None or not has_jvm(session):
            return None
        context = session.sparkContext
        touched, backfilled, quarantined = (context.accumulator(0) for _ in range(3))
        return cls(touched, backfilled, quarantined, total_of(context))

    @property
    def touched(self) -> int:
        """Entries migrated because the stream read or wrote them."""
        return int(self.touched_total.value)

    @property
    def backfilled(self) -> int:
        """Entries migrated by control rows."""
        return int(self.backfilled_total.value)

    @property
    def quarantined(self) -> int:
        """Entries a control row asked for whose transform failed; they stay where they are."""
        return int(self.quarantined_total.value)

    def add(self, touched: int, backfilled: int, quarantined: int, work: Work | None) -> None:
        """Add a task's counts, and how long it was busy."""
        self.touched_total.add(touched)
        self.backfilled_total.add(backfilled)
        self.quarantined_total.add(quarantined)
        if self.work_total is not None and work is not None:
            tell(self.work_total, work)
