"""The processor that Spark runs: called for a page, it calls the user's for each key of it.

A batch processor gets all keys of a visit at once: the page's rows and state as tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor

from statemigrate.blocks import BYTES_IN_BLOCK, in_blocks
from statemigrate.deployment import Declared
from statemigrate.formats import plain_values
from statemigrate.native import Arrived, Stopwatch
from statemigrate.pages.columns import PageId
from statemigrate.pages.deployed_pages import PagedDeployment, PagedHandle, PageTimers, declare
from statemigrate.pages.packed_rows import (
    Arriving,
    Giving,
    Packing,
    Unpacking,
    arrow_schema,
    rows_of,
    unpacked,
)
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import FINGERPRINT, PageStores
from statemigrate.pages.page_leaves import SPLITTING, Splitting
from statemigrate.pages.value import large_values, page_value
from statemigrate.processor import (
    BatchProcessor,
    BetweenKeys,
    ColumnState,
    GroupingKey,
    KeyBlock,
    KeyBlocks,
    PlainColumns,
    StateColumns,
    TupleKeyCodec,
    column_of,
    dual_variable,
    few_collections,
    identities_of,
    keep_what_is_loaded,
    no_timers_by_table,
    processed_blocks,
    returned_output,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class PageTables:
    """Calls a batch processor for the keys of a page that have rows.

    ``rows`` is the type of the stream's rows. In event time they come one by one, else packed by
    `statemigrate.pages.packed_rows.pack`.
    """

    def __init__(
        self,
        processor: BatchProcessor,
        deployment: PagedDeployment,
        stores: PageStores,
        rows: StructType,
    ) -> None:
        self._processor = processor
        self._stores = stores
        self._key_columns = deployment.key_columns
        self._keys = TupleKeyCodec(deployment.key)
        self._state = StateColumns(deployment.key)
        self._output = deployment.output
        self._output_schema = arrow_schema(deployment.output)
        self._schema = arrow_schema(rows)
        self._arrived = _unpacked if deployment.time_mode != "eventtime" else _converted

    def variable(self, declared: Declared) -> ColumnState:
        """The variable that ``init`` gets."""
        return self._state.add(declared, self._stores.open(declared))

    def outputs(self, arrived: Iterable[Any], times: Any) -> Iterator[tuple[KeyBlock, list[Any]]]:
        """Call the processor for blocks of a page's keys; each block with its output's Rows."""
        batches = _by_key(self._arrived(arrived, self._schema), self._key_columns, self._keys)
        blocks = KeyBlocks(batches, self._key_columns, self._schema.names)
        for block, made in processed_blocks(self._processor, blocks, self._state, times):
            yield block, [] if made is None else self._rows_of(made)

    def _rows_of(self, given: Any) -> list[Any]:
        table = returned_output(given, self._output_schema, self._output)
        columns = [plain_values(column_of(table, name)) for name in table.column_names]
        return list(rows_of(columns, table.column_names))


def _unpacked(packed: Iterable[Any], schema: pa.Schema) -> list[pa.RecordBatch]:
    """The batches of rows that `pack` has written."""
    return [unpacked(layout, data, schema) for _, layout, data, *_ in packed]


def _converted(rows: Iterable[Any], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Rows that came one by one, without the page's number in their last column."""
    columns = list(zip(*(tuple(row)[:-1] for row in rows), strict=True))
    if not columns:
        return []
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, names=schema.names)]


def _by_key(
    batches: list[pa.RecordBatch], columns: tuple[int, ...], keys: TupleKeyCodec
) -> list[pa.RecordBatch]:
    """The rows with those of each key together, in the order of the keys' bytes."""
    if not batches:
        return []
    table = pa.Table.from_batches(batches).combine_chunks()
    arrays = [column_of(table, at) for at in columns]
    values = [each.to_pylist() for each in arrays]
    identities = identities_of(arrays, values)
    of_each = dict(zip(identities, zip(*values, strict=True), strict=True))
    encoded = keys.encode_many(list(of_each.values()))
    ascending = sorted(zip(encoded, of_each, strict=True), key=itemgetter(0))
    places = {identity: place for place, (_, identity) in enumerate(ascending)}
    order = np.argsort(np.array([places[each] for each in identities]), kind="stable")
    made: list[pa.RecordBatch] = table.take(pa.array(order)).combine_chunks().to_batches()
    return made


_ROWS_A_PACKAGE = 10_000
_ROWS_A_LOOK = 64
"""Rows of output after which their size is looked at."""


class PagedProcessor(StatefulProcessor):
    """Serves all of a page's touched keys in one visit: the page is read and written once.

    ``rows`` is the type of the stream's rows, whose names the user's processor sees. The initial
    state has columns with ``initial_names``, and the key in ``initial_columns``. With
    ``gives_rows`` Spark gets the rows that the user's processor makes one by one. ``splitting`` is
    that of pages.
    """

    def __init__(
        self,
        processor: Any,
        deployment: PagedDeployment,
        rows: StructType,
        *,
        initial_columns: tuple[int, ...] = (),
        initial_names: tuple[str, ...] = (),
        gives_rows: bool = False,
        splitting: Splitting = SPLITTING,
    ) -> None:
        self._processor = processor
        self._deployment = deployment
        self._rows = rows
        self._initial_columns = initial_columns
        self._initial_names = initial_names
        self._gives_rows = gives_rows
        self._splitting = splitting

    def init(self, handle: Any) -> None:
        """Make the user's variables, over whichever page is visited."""
        deployment = self._deployment
        deployment.observed.compare_in_task()
        self._task = ExitStack()
        self._task.enter_context(few_collections())
        self._spark = handle
        self._value = page_value(handle, deployment.operator)
        self._large = large_values(handle, deployment.operator)
        declare(handle, deployment.operator)
        self._keys = keys = TupleKeyCodec(deployment.key)
        self._fingerprint = key_fingerprint(deployment.key)
        self._stores = PageStores(
            deployment.plans, deployment.settings, keys, deployment.observed.deployment
        )
        incoming = Arriving if deployment.time_mode == "eventtime" else Unpacking
        self._incoming = incoming(deployment.key_columns, keys, self._rows.names)
        self._initial = Unpacking(self._initial_columns, keys, self._initial_names)
        self._outgoing = Giving() if self._gives_rows else Packing(deployment.output)
        self._plain = PlainColumns(deployment.output)
        self._timers = PageTimers()
        self._stopwatch = Stopwatch()
        self._tables: PageTables | None = None
        if isinstance(self._processor, BatchProcessor):
            self._tables = PageTables(self._processor, deployment, self._stores, self._rows)
        self._init_users(GroupingKey())

    def _init_users(self, key: GroupingKey) -> None:
        def variable(declared: Declared) -> Any:
            return dual_variable(declared, self._stores.open(declared), key)

        mode, tables = self._deployment.time_mode, self._tables
        timers = None if mode == "none" else self._timers
        own_handle = (
            PagedHandle(variable, mode, timers)
            if tables is None
            else PagedHandle(tables.variable, mode, by_table=True)
        )
        own_handle.key = self._key = key
        self._processor.init(own_handle)
        self._kept = BetweenKeys(self._processor)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Call the user's method for each key that has rows; a control row asks to migrate."""
        arrived = Arrived(rows)
        return self._visit(key[0], timerValues, self._inputs(arrived.rows, timerValues), arrived)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Call the user's method for each row of the initial state."""
        calls = self._beginnings([initialState], timerValues)
        for _ in self._visit(key[0], timerValues, calls):
            raise AssertionError("an initial state makes no rows")

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Call the user's method for each timer in the page that has expired."""
        firing = expiredTimerInfo.getExpiryTimeInMs()
        calls = self._expirations(timerValues)
        return self._visit(key[0], timerValues, calls, firing=firing)

    def close(self) -> None:
        """Call the user's method, and tell what was migrated."""
        self._task.close()
        self._kept.check()
        self._processor.close()
        keep_what_is_loaded("visit")
        if self._deployment.counts is not None:
            stores, work = self._stores, self._stopwatch.work
            self._deployment.counts.add(stores.accesses, stores.quarantined, work)

    def _visit(
        self,
        number: int,
        times: Any,
        calls: Iterator[Iterable[Any]],
        arrived: Arrived | None = None,
        *,
        firing: int | None = None,
    ) -> Iterator[Row]:
        """Read a page, make the user's calls, migrate, and write the page if it changed."""
        self._stopwatch.begin()
        page_id = PageId(self._deployment.pages, number, self._fingerprint)
        page = Page(page_id, self._value.get(), self._large, self._splitting)
        self._stores.turn(page, times.getCurrentProcessingTimeInMs())
        self._timers.turn(page)
        before = self._timers.earliest()
        if before is not None and self._tables is not None:
            raise no_timers_by_table("timers of keys, which an earlier release has registered")
        output: list[Any] = []
        size = looked = 0
        for rows in calls:
            output += rows
            if len(output) - looked < _ROWS_A_LOOK:
                continue
            size += self._plain.size_of(output[looked:])
            looked = len(output)
            if looked >= _ROWS_A_PACKAGE or size >= BYTES_IN_BLOCK:
                yield from self._given(output, size)
                output, size, looked = [], 0, 0
        self._stores.migrate(asked=arrived is not None and arrived.asks_for_migration())
        self._stores.drop_expired()
        self._stores.forget_marks()
        self._write(page)
        if firing is not None or self._timers.earliest() != before:
            self._set_timer(firing)
        yield from self._given(output, size + self._plain.size_of(output[looked:]))
        self._stopwatch.end(asked=arrived is not None and not arrived.is_for_user)

    def _given(self, rows: list[Any], size: int) -> Iterator[Any]:
        if size <= BYTES_IN_BLOCK:
            blocks = iter([rows] if rows else [])
        else:
            # A key alone may have more of them than a package has room for.
            blocks = in_blocks(iter(rows), len(rows))
        for block in blocks:
            yield from self._outgoing.given(block)

    def _inputs(self, arrived: Iterator[Any], times: Any) -> Iterator[Iterable[Any]]:
        if self._tables is None:
            return self._by_key(arrived, times)
        outputs = self._kept.watched(self._tables.outputs(arrived, times))
        return (rows for _, rows in outputs)

    def _by_key(self, arrived: Iterator[Any], times: Any) -> Iterator[Iterable[Any]]:
        columns = self._deployment.key_columns
        for data, rows in self._kept.watched(self._incoming.by_key(arrived)):
            self._key.data = data
            values = tuple(rows[0])
            key = tuple([values[at] for at in columns])
            yield self._processor.handleInputRows(key, iter(rows), times)

    def _beginnings(self, packed: Iterable[Any], times: Any) -> Iterator[Iterable[Any]]:
        for data, rows in self._initial.by_key(packed):
            self._key.data = data
            key = tuple([rows[0][at] for at in self._initial_columns])
            for row in rows:
                self._processor.handleInitialState(key, row, times)
            yield ()

    def _expirations(self, times: Any) -> Iterator[Iterable[Any]]:
        for timestamp, data in self._timers.expired(self._now(times)):
            # One that fired before may have deleted it.
            if timestamp in self._timers.of(data):
                self._key.data = data
                yield self._processor.handleExpiredTimer(
                    key=self._keys.decode(data),
                    timerValues=times,
                    expiredTimerInfo=ExpiredTimerInfo(timestamp),
                )
                self._timers.delete(data, timestamp)

    def _now(self, times: Any) -> int:
        """The time that timers are held against."""
        if self._deployment.time_mode == "eventtime":
            return int(times.getCurrentWatermarkInMs())
        return int(times.getCurrentProcessingTimeInMs())

    def _set_timer(self, firing: int | None) -> None:
        """Have Spark's one timer of the page where the earliest of its keys' timers is."""
        wanted = self._timers.earliest()
        if wanted is not None and firing is not None:
            # Spark deletes the one that fires when the visit is over.
            wanted = max(wanted, firing + 1)
        known = set(self._spark.listTimers())
        for timestamp in known - {wanted, firing}:
            self._spark.deleteTimer(timestamp)
        if wanted is not None and wanted not in known:
            self._spark.registerTimer(wanted)

    def _write(self, page: Page) -> None:
        if page.is_changed:
            page.write_outside()
            self._value.put(page.written())


def key_fingerprint(key: StructType) -> bytes:
    """What a page keeps of the key's columns: names and types, whatever may be null."""
    columns = [[field.name, field.dataType.jsonValue()] for field in key.fields]
    document = json.dumps(columns, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).digest()[:FINGERPRINT]
