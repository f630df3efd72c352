"""The forms in which RocksDB has keys: whole, divided for a scan, or with a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Rows, joined
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged
from statemigrate.checkpoint.rows.wrapped.ordered import OrderedColumns, event_times, event_times_of
from statemigrate.checkpoint.rows.wrapped.parts import Part
from statemigrate.checkpoint.rows.wrapped.splitting import Spans, length_of
from statemigrate.errors import ValueMismatchError

_TIME = 8
_KEY = "a key"


class KeyForm(Protocol):
    """Columns of keys to bytes and back, without the column family."""

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys."""
        ...

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns, in the order in which the form has them."""
        ...


@dataclass(frozen=True)
class WholeKeys:
    """One row."""

    whole: Part

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys."""
        return self.whole.encode(keys)

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns."""
        return columns_of(self.whole.decode(keys))


@dataclass(frozen=True)
class DividedKeys:
    """The length of a first row, that row, and a row of the ``others``.

    ``first`` and ``others`` are the columns of each; ``ordered`` is how those of the first sort.
    """

    columns: tuple[int, ...]
    first: Part
    rest: tuple[int, ...]
    others: Part
    ordered: OrderedColumns | None = None

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys."""
        first = chosen(keys, self.columns)
        begins = self.first.encode(self.ordered.as_binaries(first) if self.ordered else first)
        return joined(length_of(begins), begins, self.others.encode(chosen(keys, self.rest)))

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns, the first row's before the others."""
        begins, rest = keys.split(_KEY)
        first = self.first.decode(begins)
        if self.ordered:
            first = self.ordered.from_binaries(first)
        # Spark before 4.0 writes no second row where every column is in the first.
        if not self.rest and not rest.lengths.any():
            return columns_of(first)
        return [*columns_of(first), *columns_of(self.others.decode(rest))]


@dataclass(frozen=True)
class TimedKeys:
    """A row of all columns but the last, a time, which comes before it or behind it."""

    rest: tuple[int, ...]
    others: Part
    time_first: bool

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys. Raises `ValueMismatchError` for a time that is null."""
        times = keys.field(len(self.rest))
        if times.null_count:
            raise ValueMismatchError(
                "SM-VALUE-004",
                f"{times.null_count} keys have no time",
                expected="a time in every key",
                found="null",
                next_action="give every key a time",
            )
        parts = event_times(times), self.others.encode(chosen(keys, self.rest))
        return joined(*(parts if self.time_first else parts[::-1]))

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns. Raises `CorruptFileError`."""
        if keys.lengths.size and int(keys.lengths.min()) < _TIME:
            raise damaged(_KEY, f"at least {_TIME} bytes", f"{int(keys.lengths.min())} bytes")
        size = np.int64(_TIME)
        ends = keys.starts if self.time_first else keys.starts + keys.lengths - size
        times = Spans(keys.data, ends, np.full(keys.starts.size, size))
        begins = keys.starts + size if self.time_first else keys.starts
        others = self.others.decode(Spans(keys.data, begins, keys.lengths - size))
        return [*columns_of(others), event_times_of(times.matrix(_TIME, _KEY))]


def columns_of(structs: pa.StructArray) -> list[pa.Array]:
    """The columns of structs of which none is null."""
    return [structs.field(index) for index in range(structs.type.num_fields)]


def chosen(structs: pa.StructArray, indices: Sequence[int]) -> pa.StructArray:
    """Structs of some of the fields."""
    columns = [structs.field(index) for index in indices]
    fields = [structs.type.field(index) for index in indices]
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), len(structs), [None], children=[])
    return pa.StructArray.from_arrays(columns, fields=fields)
