"""What one Spark task does with one partition of a micro-batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, NoReturn

import pyarrow as pa

from statemigrate.access import DualAccess
from statemigrate.blocks import BYTES_IN_BLOCK, arrow_blocks, in_blocks
from statemigrate.deployment import Declared
from statemigrate.embedded.batch_output import LittleOutput
from statemigrate.embedded.task_plan import (
    REPORT,
    BatchPlan,
    BatchSchema,
    PartitionReport,
    PartitionStores,
    nullable_columns,
    opened_for,
    retire_families,
)
from statemigrate.errors import StatemigrateError, UnsupportedError
from statemigrate.processor import (
    BatchProcessor,
    BetweenKeys,
    DualAccessHandle,
    GroupingKey,
    KeyBlocks,
    PlainColumns,
    StateColumns,
    TupleKeyCodec,
    direct_variable,
    few_collections,
    identities_of,
    keep_what_is_loaded,
    never_dropped,
    processed_blocks,
    returned_output,
    row_class,
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
    little = LittleOutput(plan.output_with_report)
    try:
        for batch in processed(batches, plan, schema, processor, report, output):
            yield from little.added(batch)
    except StatemigrateError as error:
        report.error = error.to_json()
    keep_what_is_loaded("partition")
    yield little.reported(output.report(report), failed=report.error is not None)


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
        stores = PartitionStores(partition, plan, lambda: TupleKeyCodec(schema.key))
        report.restore_ms = watch.lap()
        work = _by_block if isinstance(processor, BatchProcessor) else _by_key
        yield from work(batches, plan, schema, processor, stores, report, output)
        processor.close()
        report.live_ms = watch.lap()
        live = partition.written
        stores.migrate_share(report)
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


def _by_key(
    batches: Iterator[Any],
    plan: BatchPlan,
    schema: BatchSchema,
    processor: Any,
    stores: PartitionStores,
    report: PartitionReport,
    output: OutputRows,
) -> Iterator[Any]:
    """The output of every key's rows, in whole batches alone."""
    handle = EmbeddedHandle.over(stores.open)
    processor.init(handle)
    arrivals = Arrivals(batches, schema, stores.read_ahead)
    kept = BetweenKeys(processor)
    times = _times(plan)
    # Looked up once: each of them would be, for every key.
    current, process, add = handle.key, processor.handleInputRows, output.add
    waiting, keys = output.rows, 0
    for key, data, rows in kept.watched(arrivals.groups()):
        current.data = data
        keys += 1
        add(process(key, rows, times))
        if len(waiting) >= output.enough:
            yield from output.flush_if_full()
    report.rows, report.keys = arrivals.rows, keys
    kept.check()
    yield from output.flush()


def _by_block(
    batches: Iterator[Any],
    plan: BatchPlan,
    schema: BatchSchema,
    processor: BatchProcessor,
    stores: PartitionStores,
    report: PartitionReport,
    output: OutputRows,
) -> Iterator[Any]:
    """The output of blocks of keys, whose rows and state are tables."""
    state = StateColumns(schema.key)
    processor.init(EmbeddedHandle(lambda declared: state.add(declared, stores.open(declared))))
    blocks = KeyBlocks(batches, schema.key_columns, schema.rows.fieldNames())
    kept = BetweenKeys(processor)
    outputs = processed_blocks(processor, blocks, state, _times(plan))
    for _, made in kept.watched(outputs):
        yield from output.of_table(made)
    report.rows, report.keys = blocks.rows, blocks.keys
    kept.check()


def _times(plan: BatchPlan) -> Any:
    from pyspark.sql.streaming.stateful_processor import TimerValues

    return TimerValues(plan.processing_time, -1)


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        elapsed, self._last = (now - self._last) * 1000, now
        return elapsed


# A task's input and output: arriving rows grouped by key, and the rows that it returns.
# A partition's input: rows grouped by key, each key's bytes made and its state read ahead.
# Doing one thing for a thousand keys is several times cheaper than doing everything for one key
# after the other, so keys are encoded and values fetched a slice of rows at a time.


_ROWS_A_SLICE = 1_024
ReadAhead = Callable[[list[bytes]], None]
Arrival = tuple[tuple[Any, ...], bytes, Iterator[Any]]
Slice = tuple[Sequence[tuple[Any, ...]], Sequence[bytes], Sequence[Sequence[Any]]]
"""Keys in their order, their bytes, and the rows of each."""


class Arrivals:
    """The rows of a partition, sorted by key, as PySpark's Rows."""

    def __init__(self, batches: Iterator[Any], schema: BatchSchema, read_ahead: ReadAhead) -> None:
        self.rows = 0
        self._batches = batches
        self._row = row_class(schema.rows.fieldNames())
        self._columns = schema.key_columns
        self._encode_many = TupleKeyCodec(schema.key).encode_many
        self._read_ahead = read_ahead

    def groups(self) -> Iterator[Arrival]:
        """For each key once: its values, its bytes, and its rows, up to the next key."""
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Iterable[Arrival]]:
        """A slice's keys at once, but for its last one, which may go on in the slices after it."""
        slices = self._slices()
        following = next(slices, None)
        while following is not None:
            keys, encoded, rows = following
            yield zip(keys[:-1], encoded[:-1], map(iter, rows[:-1]), strict=True)
            last = _Last(encoded[-1], rows[-1], slices)
            yield ((keys[-1], encoded[-1], last.rows),)
            following = last.following()

    def _slices(self) -> Iterator[Slice]:
        for batch in self._batches:
            yield from map(self._slice, arrow_blocks(batch, _ROWS_A_SLICE))

    def _slice(self, batch: Any) -> Slice:
        """Rows as transformWithState makes them: nested values are Arrow's plain Python ones."""
        self.rows += batch.num_rows
        columns = [column.to_pylist() for column in batch.columns]
        of_keys = [columns[at] for at in self._columns]
        keys = list(zip(*of_keys, strict=True))
        identities = identities_of([batch.column(at) for at in self._columns], of_keys)
        distinct = dict(zip(identities, keys, strict=True))
        encoded = self._encode_many(list(distinct.values()))
        self._read_ahead(encoded)
        rows = map(tuple.__new__, repeat(self._row), zip(*columns, strict=True))
        if len(distinct) == len(keys):
            return keys, encoded, list(zip(rows, strict=True))
        # Equal only if the bytes are, whatever Python says of the values.
        same = groupby(zip(identities, rows, strict=True), key=itemgetter(0))
        second = itemgetter(1)
        return list(distinct.values()), encoded, [list(map(second, each)) for _, each in same]


class _Last:
    """The rows of a slice's last key, those in the slices that go on with it included."""

    def __init__(self, data: bytes, rows: Sequence[Any], slices: Iterator[Slice]) -> None:
        self.rows = self._through(data, rows, slices)
        self._following: Slice | None = None

    def following(self) -> Slice | None:
        """What comes after the last of the rows; those that nobody has read are passed by."""
        deque(self.rows, maxlen=0)
        return self._following

    def _through(self, data: bytes, rows: Sequence[Any], slices: Iterator[Slice]) -> Iterator[Any]:
        yield from rows
        for each in slices:
            keys, encoded, groups = each
            if encoded[0] != data:
                self._following = each
                return
            yield from groups[0]
            if len(keys) > 1:
                self._following = keys[1:], encoded[1:], groups[1:]
                return


# From the rows a processor yields to Arrow batches with a column for the report.


class OutputRows:
    """Collects a processor's output rows and turns them into Arrow batches.

    ``add`` takes the rows of a key, and ``rows`` has all those since the last `flush`: both are
    called and asked for every key. Once there are ``enough``, `flush_if_full` looks how large they
    are.
    """

    ROWS_A_BATCH = 10_000
    ROWS_A_LOOK = 250

    def __init__(self, schema: Any) -> None:
        from pyspark.sql.conversion import LocalDataToArrowConversion

        self._schema = schema
        self.rows: list[Any] = []
        self.enough = self.ROWS_A_LOOK
        self._looked = self._bytes = 0
        self.add: Callable[[Iterable[Any]], None] = self.rows.extend
        # Through the same conversion as the output, so that all batches have one Arrow schema.
        nullable = nullable_columns(schema)
        nothing = (None,) * len(nullable.fields)
        self._nothing = LocalDataToArrowConversion.convert([nothing], nullable, False)
        self._plain = PlainColumns(schema)

    def flush_if_full(self) -> Iterator[Any]:
        """`flush`, if there are a batch's rows or bytes."""
        self._bytes += self._plain.size_of(self.rows[self._looked :])
        self._looked = len(self.rows)
        if self._looked >= self.ROWS_A_BATCH or self._bytes >= BYTES_IN_BLOCK:
            yield from self.flush()
        else:
            self.enough = self._looked + self.ROWS_A_LOOK

    def flush(self) -> Iterator[Any]:
        """Yield what was collected since."""
        rows = self.rows.copy()
        self.rows.clear()
        self.enough, self._looked, self._bytes = self.ROWS_A_LOOK, 0, 0
        # A key alone may have more of them than a batch has room for.
        for block in in_blocks(iter(rows), len(rows) or 1):
            yield from self._batches(block)

    def _batches(self, rows: list[Any]) -> Iterator[Any]:
        from pyspark.sql.conversion import LocalDataToArrowConversion

        columns = self._plain.of(rows)
        if columns is None:
            table = LocalDataToArrowConversion.convert(rows, self._schema, False)
        else:
            table = type(self._nothing).from_arrays(columns, schema=self._nothing.schema)
        for batch in table.to_batches():
            yield _with_report(batch, None)

    def of_table(self, given: Any) -> Iterator[Any]:
        """The batches of a table that a batch processor has returned; None has no rows.

        Raises as `returned_output`.
        """
        if given is None:
            return
        table = returned_output(given, self._nothing.schema, self._schema)
        for batch in table.to_batches(self.ROWS_A_BATCH):
            for block in arrow_blocks(batch):
                yield _with_report(block, None)

    def report(self, report: PartitionReport) -> Any:
        """The one-row batch that carries a partition's report."""
        return _with_report(self._nothing.to_batches()[0], report.to_json())


def _with_report(batch: Any, report: str | None) -> Any:
    column = pa.array([report] * batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, REPORT])
