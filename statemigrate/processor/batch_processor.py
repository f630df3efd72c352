"""A processor that gets the rows and the state of many keys at once, as Arrow tables.

A partition's rows come in blocks that have all rows of their keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate.blocks import BYTES_IN_BLOCK
from statemigrate.errors import ProcessorError
from statemigrate.processor.arrow_rows import column_of
from statemigrate.processor.startup import called_by_key
from statemigrate.processor.state_columns import StateColumns

FIRST = 1_024
"""Keys of the first block, which show how large the others may be."""
MOST = 16_384
"""Keys of a block at most."""
_GROWTH = 4

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyBlock:
    """Rows that have all rows of their keys; ``keys`` has each key once, in the rows' order."""

    keys: pa.Table
    rows: pa.Table


class KeyBlocks:
    """The blocks of batches of Arrow that are sorted by their key columns.

    ``columns`` are the places of these among ``names``. Keys are told apart as their types tell
    values apart: types for which that is not enough are no grouping keys.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], columns: Sequence[int], names: Sequence[str]
    ) -> None:
        self.rows = 0
        self.keys = 0
        self.keys_a_block = FIRST
        self._batches = batches
        self._columns = columns
        self._names = list(names)

    def __iter__(self) -> Iterator[KeyBlock]:
        waiting: list[pa.RecordBatch] = []
        starts, size = np.empty(0, np.int64), 0
        last: list[pa.Array] | None = None
        for batch in self._batches:
            if not batch.num_rows:
                continue
            self.rows += batch.num_rows
            keys = [batch.column(at) for at in self._columns]
            starts = np.concatenate([starts, _begins(keys, last) + size])
            last = [each.slice(batch.num_rows - 1) for each in keys]
            waiting.append(batch)
            size += batch.num_rows
            # The last key may go on in the next batch.
            if len(starts) > self.keys_a_block:
                rows = self._table(waiting)
                while len(starts) > self.keys_a_block:
                    end = int(starts[self.keys_a_block])
                    yield self._block(rows.slice(0, end), starts[: self.keys_a_block])
                    starts, rows = starts[starts >= end] - end, rows.slice(end)
                waiting, size = rows.to_batches(), rows.num_rows
        if len(starts):
            yield self._block(self._table(waiting), starts)

    def fit_to(self, number: int, size: int) -> None:
        """Let blocks have as many keys as have room, going by a number of them and their bytes."""
        room = number * BYTES_IN_BLOCK // max(size, 1)
        self.keys_a_block = max(1, min(MOST, room, self.keys_a_block * _GROWTH))

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        columns = [
            pa.chunked_array([batch.column(at) for batch in batches])
            for at in range(len(self._names))
        ]
        return pa.Table.from_arrays(columns, names=self._names)

    def _block(self, rows: pa.Table, starts: Places) -> KeyBlock:
        self.keys += len(starts)
        whole = rows.combine_chunks()
        names = [self._names[at] for at in self._columns]
        places = pa.array(starts)
        keys = [whole.column(at).take(places).combine_chunks() for at in self._columns]
        return KeyBlock(pa.Table.from_arrays(keys, names=names), whole)


def aggregated(keys: pa.Table, rows: pa.Table, aggregations: Sequence[Any]) -> pa.Table:
    """Aggregations of pyarrow over each key's rows, next to the columns of ``keys``, in its order.

    Rows of one key stand together, in the order of ``keys``.
    """
    columns = [column_of(rows, name) for name in keys.column_names]
    starts = _begins(columns, None) if rows.num_rows else np.empty(0, np.int64)
    if len(starts) != keys.num_rows:
        raise ValueError(f"the rows are of {len(starts)} keys, and not of {keys.num_rows}")
    number = np.repeat(np.arange(len(starts)), np.diff([*starts, rows.num_rows]))
    name = "_".join(["number", *rows.column_names])
    grouped = rows.append_column(name, pa.array(number)).group_by(name, use_threads=False)
    # What pyarrow groups by text has another order than its rows had.
    found = grouped.aggregate(list(aggregations)).sort_by(name).drop_columns([name])
    names = [*keys.column_names, *found.column_names]
    return pa.Table.from_arrays([*keys.columns, *found.columns], names=names).combine_chunks()


def _begins(keys: Sequence[pa.Array], before: Sequence[pa.Array] | None) -> Places:
    """The places of rows whose key is another than that of the row before."""
    differs = np.zeros(len(keys[0]), np.bool_)
    for place, column in enumerate(keys):
        differs[1:] |= _differ(column.slice(1), column.slice(0, len(column) - 1))
        if before is None:
            differs[0] = True
        else:
            differs[:1] |= _differ(column.slice(0, 1), before[place])
    return np.flatnonzero(differs)


def _differ(some: pa.Array, others: pa.Array) -> npt.NDArray[np.bool_]:
    different = pc.fill_null(pc.not_equal(some, others), False)
    one_is_null = pc.xor(pc.is_null(some), pc.is_null(others))
    found: Any = pc.or_(different, one_is_null)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


class BatchProcessor(StatefulProcessor):
    """A processor that takes many keys at once, as tables of pyarrow: embedded, or in pages.

    Write ``init`` as for any ``StatefulProcessor``, and `handleBatch` in place of
    ``handleInputRows``. Variables, migrations and stored bytes are the same: a query may go from
    one kind of processor to the other at any restart, and back.
    """

    @abstractmethod
    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> tuple[Any, Any]:
        """Return the new state of some keys, and the output, each a table or None.

        ``keys`` has the grouping columns, and each key once. ``rows`` has all rows of these keys
        with all columns of the stream; rows of one key stand together, in the order of ``keys``.

        ``state`` has the grouping columns and a column for each variable: structs for value state,
        lists of structs for list state, and for map state lists of structs with ``key`` and
        ``value``. A variable is null for a key that has no value.

        The returned state has the grouping columns, with a row for each key in any order, and the
        columns of those variables that change. Null, or an empty list, removes a value. None
        changes nothing. The output has the columns of ``outputStructType``.

        ``timerValues`` has the time of the batch, as in ``handleInputRows``. Tables may also be of
        Polars, or of pandas. A call has some thousands of keys, in pages those of one page, and
        fewer where rows or values are large. Each key is in one call of a micro-batch.

        Where values expire, the time of one begins again if its variable is returned. Elements
        with which a list begins as before, and entries of a map that do not change, keep theirs.
        """

    @staticmethod
    def aggregate(keys: Any, rows: Any, aggregations: Sequence[Any]) -> Any:
        """Aggregate the rows of each key, one row a key in the order of ``keys`` and ``state``.

        ``aggregations`` are those of ``pyarrow.TableGroupBy.aggregate``, such as
        ``[("price", "sum"), ([], "count_all")]``, whose columns ``price_sum`` and ``count_all``
        follow the grouping columns. pyarrow's own ``group_by`` changes the order of the keys, and
        Polars' does without ``maintain_order=True``.
        """
        return aggregated(keys, rows, aggregations)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> NoReturn:  # noqa: ARG002
        """Never called: an engine takes tables, or refuses a batch processor."""
        raise called_by_key(self)

    def close(self) -> None:
        """Do nothing; a processor may release what its ``init`` has opened."""


def processed_blocks(
    processor: BatchProcessor, blocks: KeyBlocks, state: StateColumns, times: Any
) -> Iterator[tuple[KeyBlock, Any]]:
    """Call a processor for each block, and write the state that it returns; gives the outputs.

    Raises `ProcessorError` and `ValueMismatchError` for what it must not return.
    """
    for block in blocks:
        found = state.read(block.keys)
        returned = processor.handleBatch(block.keys, block.rows, found.table, times)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ProcessorError(
                "SM-PROCESSOR-003",
                "a batch processor did not return a pair",
                expected="(state, output), each None or a table",
                found=type(returned).__name__,
                next_action="return both from handleBatch, None for what does not change",
            )
        new_state, output = returned
        found.write(new_state)
        blocks.fit_to(block.keys.num_rows, block.rows.nbytes + found.size)
        yield block, output
