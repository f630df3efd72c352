"""What one Spark task does with one partition of a micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from statemigrate.embedded.handle import EmbeddedHandle
from statemigrate.embedded.keys import KeyCodec
from statemigrate.embedded.output import OutputRows
from statemigrate.embedded.partition import PartitionPlace, opened
from statemigrate.embedded.plan import BatchPlan, BatchSchema
from statemigrate.embedded.report import PartitionReport, describe
from statemigrate.embedded.stores import OpenStores
from statemigrate.errors import StatemigrateError


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
        yield from _run(batches, plan, schema, processor, report, output)
    except StatemigrateError as error:
        report.error = describe(error)
    yield output.report(report)


def _run(
    batches: Iterator[Any],
    plan: BatchPlan,
    schema: BatchSchema,
    processor: Any,
    report: PartitionReport,
    output: OutputRows,
) -> Iterator[Any]:
    number = report.partition
    place = PartitionPlace(
        number, plan.layout.partition(number), _working_copy(plan.working, number)
    )
    watch = _Stopwatch()
    with opened(place, plan.partitions[number], plan.version) as partition:
        stores = OpenStores(partition, plan, KeyCodec(schema.key))
        report.restore_ms = watch.lap()
        handle = EmbeddedHandle(stores.open)
        processor.init(handle)
        for rows in _processed(batches, schema, processor, handle, plan, report):
            yield from output.add(rows)
        processor.close()
        yield from output.flush()
        report.live_ms = watch.lap()
        stores.backfill(report)
        report.backfill_ms = watch.lap()
        report.touched = sum(access.counts.touched for access in stores.accesses)
        report.retired = [name for name in sorted(plan.retired) if partition.drop(name)]
        report.state = asdict(partition.commit(snapshot=_snapshot_due(plan, number)))
        report.commit_ms = watch.lap()


def _working_copy(working: str, number: int) -> Path:
    return Path(working) / f"partition-{number}"


def _snapshot_due(plan: BatchPlan, number: int) -> bool:
    # Spread over the batches, so that not all partitions store a snapshot in the same one.
    return (plan.version + 1 + number) % plan.snapshot_every == 0


def _processed(
    batches: Iterator[Any],
    schema: BatchSchema,
    processor: Any,
    handle: EmbeddedHandle,
    plan: BatchPlan,
    report: PartitionReport,
) -> Iterator[Iterator[Any]]:
    from pyspark.sql.streaming.stateful_processor import TimerValues

    encode = KeyCodec(schema.key).encode
    times = TimerValues(plan.processing_time, -1)
    pick = _key_picker(schema.key_columns)
    for key, rows in groupby(_rows(batches, schema, report), key=pick):
        handle.key.data = encode(key)
        report.keys += 1
        yield processor.handleInputRows(key, rows, times)


def _key_picker(columns: tuple[int, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(columns) == 1:
        (only,) = columns
        return lambda row: (row[only],)
    return lambda row: tuple(row[column] for column in columns)


def _rows(batches: Iterator[Any], schema: BatchSchema, report: PartitionReport) -> Iterator[Any]:
    """Rows as transformWithState makes them: nested values are Arrow's plain Python ones."""
    from pyspark.sql import Row

    make = Row(*schema.rows.fieldNames())
    for batch in batches:
        report.rows += batch.num_rows
        yield from map(make, *(column.to_pylist() for column in batch.columns))


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        elapsed, self._last = (now - self._last) * 1000, now
        return elapsed
