"""What one Spark task does with one partition of a micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from statemigrate.access import DualAccess
from statemigrate.budget import Budget, Chunk, run_chunk
from statemigrate.deployment import Declared, Kind, StoredFamily, StorePlan, dual_access
from statemigrate.embedded.chains import older_chains
from statemigrate.embedded.families import RocksFamily
from statemigrate.embedded.partition import Partition, PartitionPaths, opened
from statemigrate.embedded.task_io import Arrivals, OutputRows
from statemigrate.embedded.task_plan import BatchPlan, BatchSchema, PartitionReport
from statemigrate.errors import CheckpointError, StatemigrateError, UnsupportedError
from statemigrate.families import Source
from statemigrate.processor.garbage import few_collections, keep_what_is_loaded
from statemigrate.processor.handle import DualAccessHandle, never_dropped
from statemigrate.processor.key_isolation import BetweenKeys
from statemigrate.processor.keys import KeyCodec, shown_key
from statemigrate.processor.variables import GroupingKey, direct_variable

# The stores of one open partition, each behind its dual access.


class OpenStores:
    """The dual access of every store of a plan, over one open partition.

    ``keys`` makes the codec of its keys, once an error is to name one.
    """

    def __init__(self, partition: Partition, plan: BatchPlan, keys: Callable[[], KeyCodec]) -> None:
        self._partition = partition
        self._plan = plan
        self._keys = keys
        self._values: list[RocksFamily] = []
        self._open = {name: self._make(store) for name, store in plan.stores.items()}

    @property
    def accesses(self) -> tuple[DualAccess[Any], ...]:
        """The dual access of each store."""
        return tuple(self._open.values())

    def open(self, declared: Declared) -> DualAccess[Any]:
        """The dual access of a declared variable."""
        return self._open[declared.store]

    def read_ahead(self, keys: list[bytes]) -> None:
        """Fetch what the processor will probably ask of value state, for many keys at once."""
        for family in self._values:
            family.read_ahead(keys)

    def backfill(self, report: PartitionReport) -> None:
        """Migrate a chunk of what is left, within the budget."""
        if self._plan.backfill.enabled:
            beside = self._plan.beside(report.rows, report.live_ms)
            self.migrate(report, self._plan.tuner.budget(beside))

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

    def _make(self, store: StorePlan) -> DualAccess[Any]:
        kind = store.declared.kind
        target = self._partition.target(store.target, kind)
        if kind == "value":
            self._values.append(target)
        sources = [self._source(family, kind) for family in store.sources]
        show = partial(_shown, self._keys, store)
        return dual_access(
            store, target, sources, write_on_read=self._plan.write_on_read, show_key=show
        )

    def _source(self, family: StoredFamily, kind: Kind) -> RocksFamily:
        if self._plan.first_of_run:
            self._partition.retry_quarantined(family.name)
        return self._partition.source(family, kind)


def _shown(keys: Callable[[], KeyCodec], store: StorePlan, data: bytes) -> tuple[Any, ...]:
    user_key = store.declared.user_key
    return shown_key(keys(), None if user_key is None else KeyCodec(user_key), data)


def _add(report: PartitionReport, chunk: Chunk) -> None:
    report.backfilled += chunk.migrated
    report.quarantined += chunk.quarantined
    report.chunk = asdict(chunk if report.chunk is None else _together(report.chunk, chunk))


def _together(first: dict[str, Any], second: Chunk) -> Chunk:
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
    """Drop what the plan retires. Raises `CheckpointError` for a family that holds anything."""
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


# The embedded engine's handle: what it has no place for is refused, never ignored.


class EmbeddedHandle(DualAccessHandle):
    """PySpark's handle over the embedded engine.

    ``make`` gives the state variable of a declared one. Timers and time to live are refused:
    silently ignoring either would change what the processor computes.
    """

    def __init__(self, make: Callable[[Declared], Any]) -> None:
        super().__init__()
        self._make = make

    @classmethod
    def over(cls, open_access: Callable[[Declared], DualAccess[Any]]) -> EmbeddedHandle:
        """The handle that opens each variable through its store's dual access."""
        key = GroupingKey()
        handle = cls(lambda declared: direct_variable(declared, open_access(declared), key))
        handle.key = key
        return handle

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        if declared.ttl is not None:
            raise _unsupported(f"time to live (state {declared.store})")
        return self._make(declared)

    def registerTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def deleteTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def listTimers(self) -> Iterator[int]:
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def deleteIfExists(self, stateName: str) -> NoReturn:
        """Refused: it would drop values that were never migrated, without a word."""
        raise never_dropped(stateName, "the embedded engine", "the checkpoint")


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-EMBEDDED-009",
        f"the embedded engine has no {what}",
        expected="state without timers and without time to live",
        found=what,
        next_action="run this processor with transformWithState on Spark's own state store, or "
        "keep the time in the value and compare it in handleInputRows",
    )


def run_partition(
    batches: Iterator[Any], *, plan: BatchPlan, schema: BatchSchema, processor: Any
) -> Iterator[Any]:
    """Run the processor over a partition's rows, backfill, commit; yields output and a report.

    An error of this package travels in the report, so that the driver raises it as it is; any other
    error fails the task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # noqa: S101 - always there inside a task
    number = context.partitionId()
    report = PartitionReport(number)
    output = OutputRows(schema.output)
    try:
        yield from processed(batches, plan, schema, processor, report, output)
    except StatemigrateError as error:
        report.error = error.to_json()
    keep_what_is_loaded("partition")
    yield output.report(report)


def processed(
    batches: Iterator[Any],
    plan: BatchPlan,
    schema: BatchSchema,
    processor: Any,
    report: PartitionReport,
    output: OutputRows,
) -> Iterator[Any]:
    """What `run_partition` does of the report's partition, in whichever process."""
    number = report.partition
    watch = _Stopwatch()
    with few_collections(), opened_for(plan, number) as partition:
        stores = OpenStores(partition, plan, lambda: KeyCodec(schema.key))
        report.restore_ms = watch.lap()
        handle = EmbeddedHandle.over(stores.open)
        processor.init(handle)
        arrivals = Arrivals(batches, schema, stores.read_ahead)
        kept = BetweenKeys(processor)
        groups = kept.watched(arrivals.groups())
        yield from _live(groups, processor, handle, plan, report, output)
        report.rows = arrivals.rows
        kept.check()
        processor.close()
        yield from output.flush()
        report.live_ms = watch.lap()
        live = partition.written
        stores.backfill(report)
        report.backfill_ms = watch.lap()
        of_backfill = 1 - live / partition.written if partition.written else 0.0
        report.touched = sum(access.counts.touched for access in stores.accesses)
        retire_families(partition, plan, number)
        committed = partition.commit(
            snapshot=_snapshot_due(plan, number), prove=number in plan.doubtful
        )
        report.state = committed.to_json()
        report.changelog_bytes = partition.changelog_bytes
        report.damages = [asdict(each) for each in partition.damages]
        report.commit_ms = watch.lap()
        report.charge(report.commit_ms * of_backfill)


def _snapshot_due(plan: BatchPlan, number: int) -> bool:
    if number in plan.proving:
        return False
    # Spread over the batches, so that not all partitions store a snapshot in the same one.
    return (plan.version + 1 + number) % plan.snapshot_every == 0


def _live(
    groups: Iterator[tuple[Any, bytes, Any]],
    processor: Any,
    handle: EmbeddedHandle,
    plan: BatchPlan,
    report: PartitionReport,
    output: OutputRows,
) -> Iterator[Any]:
    """The output of every key's rows, in whole batches alone."""
    from pyspark.sql.streaming.stateful_processor import TimerValues

    times = TimerValues(plan.processing_time, -1)
    # Looked up once: each of them would be, for every key.
    current, process, add = handle.key, processor.handleInputRows, output.add
    waiting, keys = output.rows, 0
    for key, data, rows in groups:
        current.data = data
        keys += 1
        add(process(key, rows, times))
        if len(waiting) >= output.enough:
            yield from output.flush_if_full()
    report.keys = keys


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        elapsed, self._last = (now - self._last) * 1000, now
        return elapsed
