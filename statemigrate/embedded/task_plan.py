"""What the driver and the tasks of one micro-batch tell each other.

What the driver tells the tasks of one micro-batch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.access import DualAccess
from statemigrate.budget import BackfillOptions, Budget, Chunk, Tuner, run_chunk
from statemigrate.deployment import Declared, StoredFamily, StorePlan
from statemigrate.embedded.chains import older_chains
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths, opened
from statemigrate.embedded.rocksdb_families import RocksFamily
from statemigrate.errors import CheckpointError, without_credentials
from statemigrate.families import Source
from statemigrate.processor import OpenStores, Role, TupleKeyCodec, shown_key

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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
    output_with_report: int = 0
    """Bytes of output that a partition may send with its report; 0 where all goes to Spark."""

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


def nullable_columns(output: StructType) -> StructType:
    """The columns of an output as Spark gets them: each may be null."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, each.dataType, True) for each in output.fields])


_log = logging.getLogger("statemigrate.embedded")
REPORT = "__statemigrate_report"
"""The column that carries a partition's report, null in the rows of the output."""
OUTPUT = "__statemigrate_output"
"""The column with the whole output of a report's partition, as an Arrow IPC stream.

Null where rows of their own have the output.
"""


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


# A partition opened for a plan, and its stores, each behind its dual access; without Spark.


# The stores of one open partition, each behind its dual access.


class PartitionStores(OpenStores):
    """The stores of a plan over one open partition.

    ``keys`` makes the codec of its keys, once an error is to name one.
    """

    def __init__(
        self, partition: Partition, plan: BatchPlan, keys: Callable[[], TupleKeyCodec]
    ) -> None:
        super().__init__(write_on_read=plan.write_on_read)
        self._partition = partition
        self._plan = plan
        self._keys = keys
        self._values: list[RocksFamily] = []
        for store in plan.stores.values():
            self.add(store)

    def family(self, plan: StorePlan, family: StoredFamily, role: Role) -> RocksFamily:
        """See `OpenStores`."""
        kind = plan.declared.kind
        if role == "complement":
            return self._partition.target(family, "value")
        if role == "source":
            if self._plan.first_of_run:
                self._partition.retry_quarantined(family.name)
            return self._partition.source(family, kind)
        opened = self._partition.target(family, kind)
        if plan.declared.variable_kind.has_one_value:
            self._values.append(opened)
        return opened

    def shown(self, declared: Declared, key: bytes) -> tuple[Any, ...]:
        """See `OpenStores`."""
        user_key = declared.user_key
        return shown_key(self._keys(), None if user_key is None else TupleKeyCodec(user_key), key)

    def read_ahead(self, keys: list[bytes]) -> None:
        """Fetch what the processor will probably ask of value state, for many keys at once."""
        for family in self._values:
            family.read_ahead(keys)

    def migrate_share(self, report: PartitionReport) -> None:
        """Migrate a chunk of what is left, within the budget."""
        if self._plan.backfill.enabled:
            shared_ms = self._plan.shared_batch_ms(report.rows, report.live_ms)
            self.migrate(report, self._plan.tuner.budget(shared_ms))

    def migrate(self, report: PartitionReport, budget: Budget) -> bool:
        """Migrate as much as the budget allows; whether nothing is left but what cannot migrate."""
        for access in self.accesses:
            for source in access.sources:
                chunk = self._chunk(access, source, budget)
                _add(report, chunk)
                budget = _rest(budget, chunk)
                if not chunk.finished:
                    return False
        return True

    def _chunk(self, access: DualAccess[Any], source: Source[Any], budget: Budget) -> Chunk:
        on_error = self._plan.backfill.on_error
        return run_chunk(access, source, self._partition, budget, on_error=on_error)


def _add(report: PartitionReport, chunk: Chunk) -> None:
    report.backfilled += chunk.migrated
    report.quarantined += chunk.quarantined
    report.chunk = asdict(chunk if report.chunk is None else _sum_of_chunks(report.chunk, chunk))


def _sum_of_chunks(first: dict[str, Any], second: Chunk) -> Chunk:
    one = Chunk(**first)
    return Chunk(
        one.migrated + second.migrated,
        one.quarantined + second.quarantined,
        one.milliseconds + second.milliseconds,
        one.finished and second.finished,
    )


def _rest(budget: Budget, chunk: Chunk) -> Budget:
    rows = budget.rows - chunk.migrated - chunk.quarantined
    return Budget(rows, budget.milliseconds - chunk.milliseconds)


# The partition that a plan is for: where it is opened, and what is dropped from it.
#
# Used on a stopped query too, so nothing here needs Spark: little state is done in no time.


@contextmanager
def opened_for(plan: BatchPlan, number: int) -> Iterator[Partition]:
    """The partition of a number, as `opened` has it, from the state that ``plan`` starts from."""
    place = PartitionPaths(
        number, plan.layout.partition(number), working_copy(plan.working, number)
    )
    state = plan.partitions[number]
    older = partial(older_chains, plan.layout, number, state)
    lost = plan.lost.get(number, frozenset())
    with opened(place, state, plan.version, older=older, lost=lost) as partition:
        yield partition


def working_copy(working: str, number: int) -> Path:
    """Where the working copy of a partition is."""
    return Path(working) / f"partition-{number}"


def retire_families(partition: Partition, plan: BatchPlan, number: int) -> None:
    """Drop what the plan retires, and complements that code gives up.

    Raises `CheckpointError` for another family that holds anything.
    """
    for store in plan.stores.values():
        if store.dropped is not None:
            partition.drop(store.dropped.name, only_if_empty=False)
    for name in sorted(plan.retired):
        if not partition.drop(name):
            raise CheckpointError(
                "SM-EMBEDDED-010",
                f"family {name} was to be retired, but partition {number} still has values in it",
                expected="a family that is empty in every partition",
                found="at least one value",
                next_action="restart the query: nothing of this batch was written, and the family "
                "is read again; please report this",
                family=name,
            )
