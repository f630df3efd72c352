"""A partition's input: rows grouped by key, each key's bytes made and its state read ahead.

Doing one thing for a thousand keys is several times cheaper than doing everything for one key after
the other, so keys are encoded and values fetched a slice of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from statemigrate.embedded.engine.tasks.plan import BatchSchema
from statemigrate.processor.keys.codec import KeyCodec
from statemigrate.processor.rows.classes import row_class

_ROWS_A_SLICE = 1_024
ReadAhead = Callable[[list[bytes]], None]
Arrival = tuple[tuple[Any, ...], bytes, Iterator[Any]]
Keyed = tuple[tuple[tuple[Any, ...], bytes], Any]
"""A key with its bytes, and a row."""


class Arrivals:
    """The rows of a partition, sorted by key, as PySpark's Rows."""

    def __init__(self, batches: Iterator[Any], schema: BatchSchema, read_ahead: ReadAhead) -> None:
        self.rows = 0
        self._batches = batches
        self._row = row_class(schema.rows.fieldNames())
        self._columns = schema.key_columns
        self._encode_many = KeyCodec(schema.key).encode_many
        self._read_ahead = read_ahead

    def groups(self) -> Iterator[Arrival]:
        """For each key once: its values, its bytes, and its rows."""
        second = itemgetter(1)
        # Equal only if the bytes are, whatever Python says of the values.
        for (key, data), rows in groupby(self._keyed(), key=itemgetter(0)):
            yield key, data, map(second, rows)

    def _keyed(self) -> Iterator[Keyed]:
        for batch in self._batches:
            for start in range(0, batch.num_rows, _ROWS_A_SLICE):
                yield from self._slice(batch.slice(start, _ROWS_A_SLICE))

    def _slice(self, batch: Any) -> Iterator[Keyed]:
        """Rows as transformWithState makes them: nested values are Arrow's plain Python ones."""
        self.rows += batch.num_rows
        columns = [column.to_pylist() for column in batch.columns]
        keys = list(zip(*(columns[position] for position in self._columns), strict=True))
        exact = [_exact(batch.column(at), columns[at]) for at in self._columns]
        identities = exact[0] if len(exact) == 1 else list(zip(*exact, strict=True))
        distinct = dict(zip(identities, keys, strict=True))
        encoded = self._encode_many(list(distinct.values()))
        self._read_ahead(encoded)
        known = zip(distinct.values(), encoded, strict=True)
        rows = map(tuple.__new__, repeat(self._row), zip(*columns, strict=True))
        if len(distinct) == len(keys):
            return zip(known, rows, strict=True)
        found = dict(zip(distinct, known, strict=True))
        return zip(map(found.__getitem__, identities), rows, strict=True)


def _exact(column: Any, values: list[Any]) -> list[Any]:
    """A key column's values, equal only where their bytes are.

    Python takes the two times of an hour that clocks run through twice for equal.
    """
    import pyarrow as pa

    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else values
