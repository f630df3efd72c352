"""What the driver tells the tasks of one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemigrate.backfill import BackfillOptions, Tuner
from statemigrate.deployment import StorePlan
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState


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
    """Milliseconds since the epoch, taken once for the whole batch."""


@dataclass(frozen=True)
class BatchSchema:
    """The columns of a batch: the input's, which of them are the key, and the output's."""

    rows: Any
    key: Any
    key_columns: tuple[int, ...]
    output: Any
