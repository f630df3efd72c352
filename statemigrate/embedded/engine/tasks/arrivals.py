"""A partition's input: rows grouped by key, each key's bytes made and its state read ahead.

Doing one thing for a thousand keys is several times cheaper than doing everything for one key after
the other, so keys are encoded and values fetched a slice of rows at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any

from statemigrate.blocks import arrow_blocks
from statemigrate.embedded.engine.tasks.plan import BatchSchema
from statemigrate.processor.keys.codec import KeyCodec
from statemigrate.processor.keys.identity import exact_values
from statemigrate.processor.rows.classes import row_class

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
        self._encode_many = KeyCodec(schema.key).encode_many
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
        keys = list(zip(*(columns[position] for position in self._columns), strict=True))
        exact = [exact_values(batch.column(at), columns[at]) for at in self._columns]
        identities = exact[0] if len(exact) == 1 else list(zip(*exact, strict=True))
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
