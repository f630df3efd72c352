"""What one Spark task does with one partition of a micro-batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from statemigrate.embedded.engine.tasks.arrivals import Arrivals
from statemigrate.embedded.engine.tasks.handle import EmbeddedHandle
from statemigrate.embedded.engine.tasks.opening import opened_for, retire_families
from statemigrate.embedded.engine.tasks.output import OutputRows
from statemigrate.embedded.engine.tasks.plan import BatchPlan, BatchSchema
from statemigrate.embedded.engine.tasks.report import PartitionReport
from statemigrate.embedded.engine.tasks.stores import OpenStores
from statemigrate.errors import StatemigrateError
from statemigrate.processor.between_keys import BetweenKeys
from statemigrate.processor.garbage import few_collections, keep_what_is_loaded
from statemigrate.processor.keys.codec import KeyCodec


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
