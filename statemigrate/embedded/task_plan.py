"""What the driver and the tasks of one micro-batch tell each other.

What the driver tells the tasks of one micro-batch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.deployment import StorePlan
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState
from statemigrate.errors import without_credentials


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

    def shared_batch_ms(self, rows: int, live_ms: float) -> float:
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


# What a task tells the driver: the partition's figures and new state, or the error it met.
#
# Reports travel in a column next to the output, in rows of their own.


_log = logging.getLogger("statemigrate.embedded")
REPORT = "__statemigrate_report"
"""The column that carries a partition's report, null in the rows of the output."""


@dataclass
class PartitionReport:
    """What one partition did in one batch. Times are in milliseconds."""

    partition: int
    state: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    keys: int = 0
    touched: int = 0
    backfilled: int = 0
    quarantined: int = 0
    changelog_bytes: int = 0
    restore_ms: float = 0.0
    live_ms: float = 0.0
    backfill_ms: float = 0.0
    commit_ms: float = 0.0
    chunk: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    damages: list[dict[str, Any]] = field(default_factory=list)

    def charge(self, milliseconds: float) -> None:
        """Count this much of the commit as the backfill's, by what each of the two has written."""
        self.commit_ms -= milliseconds
        self.backfill_ms += milliseconds
        if self.chunk is not None:
            self.chunk["milliseconds"] += milliseconds

    def to_json(self) -> str:
        """The form the report column carries."""
        return json.dumps(asdict(self), default=str)


def report_damages(
    damages: Iterable[Mapping[str, Any]],
    location_in_checkpoint: Callable[[str], str] = lambda path: path,
) -> None:
    """Warn of durable files that were missing or altered, and say what stood in for each.

    ``location_in_checkpoint`` says where in the checkpoint a file is that a task has named.
    """
    for each in damages:
        _log.warning(
            "%s is %s; %s, and a snapshot that needs it no more is stored with the batch",
            without_credentials(location_in_checkpoint(each["path"])),
            each["found"],
            each["instead"],
        )
