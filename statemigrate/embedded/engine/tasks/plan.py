"""What the driver tells the tasks of one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.deployment import StorePlan
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.versions.manifest import PartitionState


@dataclass(frozen=True)
class BatchPlan:
    """Everything a task needs to turn version ``version - 1`` into ``version``."""

    version: int
    layout: Layout
    working: str
    partitions: tuple[PartitionState, ...]
    stores: dict[str, StorePlan]
    retired: frozenset[str]
    write_on_read: bool
    backfill: BackfillOptions
    tuner: Tuner
    snapshot_every: int
    first_of_run: bool
    processing_time: int
    """Milliseconds since the epoch: when Spark began the batch for the first time."""
    batch_ms: float = 0.0
    """A partition's part of what the last batch with rows took without backfill; 0 before one."""
    after_rows: bool = False
    """Whether the batch before had live rows, so that those of this one are probably elsewhere."""
    proving: frozenset[int] = frozenset()
    """Partitions whose newest snapshot is being read back: they store no other one meanwhile."""
    doubtful: frozenset[int] = frozenset()
    """Partitions whose newest snapshot is not what it should be: they prove one in this batch."""
    lost: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By partition, the names of durable files that were found missing or altered."""

    def beside(self, rows: int, live_ms: float) -> float:
        """Milliseconds of a batch that a backfill is a share of; 0 where there are no live rows.

        A few rows take a partition next to nothing, while their batch takes Spark a second; and a
        partition without a row is part of a batch with some.
        """
        return max(live_ms, self.batch_ms) if rows or self.after_rows else 0.0


@dataclass(frozen=True)
class BatchSchema:
    """The columns of a batch: the input's, which of them are the key, and the output's."""

    rows: Any
    key: Any
    key_columns: tuple[int, ...]
    output: Any
