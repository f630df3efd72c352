"""What one Spark task does with one partition of a micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, NoReturn

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared
from statemigrate.embedded.open_stores import (
    OpenStores,
    opened_for,
    retire_families,
)
from statemigrate.embedded.task_io import Arrivals, OutputRows
from statemigrate.embedded.task_plan import BatchPlan, BatchSchema, PartitionReport
from statemigrate.errors import StatemigrateError, UnsupportedError
from statemigrate.processor.garbage import few_collections, keep_what_is_loaded
from statemigrate.processor.handle import DualAccessHandle, never_dropped
from statemigrate.processor.key_isolation import BetweenKeys
from statemigrate.processor.keys import KeyCodec
from statemigrate.processor.variables import GroupingKey, direct_variable

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
