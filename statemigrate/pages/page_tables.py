"""A page's rows and state as tables, for a batch processor: all keys of a visit at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statemigrate.deployment import Declared
from statemigrate.formats import plain_values
from statemigrate.pages.deployed_pages import PagedDeployment
from statemigrate.pages.packed_rows import arrow_schema, rows_of, unpacked
from statemigrate.pages.page_families import PageStores
from statemigrate.processor import (
    BatchProcessor,
    ColumnState,
    KeyBlock,
    KeyBlocks,
    StateColumns,
    TupleKeyCodec,
    column_of,
    identities_of,
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
