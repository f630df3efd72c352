"""Rows that two sides have alike, left out by columns, so that only the others are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.rows import RowCodec, schema_json
from statemigrate.errors import UnsupportedError, ValueMismatchError

_FEWEST = 65_536
_BYTES = pa.large_binary()


@dataclass(frozen=True)
class RowStream:
    """Rows of a ``schema``, some thousands at a time. They can be read once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]

    @classmethod
    def of(cls, table: pa.Table) -> RowStream:
        """The rows of a table."""
        return cls(table.schema, table.to_batches())


@dataclass(frozen=True)
class UnequalRows:
    """The rows of the ``old`` and the ``new`` side without those that both have alike.

    ``count`` is how many the new side has in all.
    """

    old: pa.Table
    new: pa.Table
    count: int


@dataclass(frozen=True)
class ChangedRows:
    """The rows of one side that a batch has changed: as they were ``before`` and are ``after`` it.

    A row that the batch has added is in the second one alone, one that it has removed in the first.
    """

    before: pa.Table
    after: pa.Table


def unequal_rows(
    old: RowStream, new: RowStream, columns: Sequence[str], *, fewest: int = _FEWEST
) -> UnequalRows:
    """The rows without a counterpart that is the same, bit for bit, in all of the ``columns``.

    Of rows that come several times, all stay unless both sides have them equally often. Both sides
    are read side by side, and what has met is forgotten: where both have the same order, as state
    has, only rows that differ are in memory. Where the columns have other types on the two sides,
    or one whose rows Spark cannot keep, all rows stay, and so do those among which a value is null
    that cannot be. ``fewest`` rows are read before they are looked at.
    """
    types = [[side.schema.field(name).type for name in columns] for side in (old, new)]
    codec = _codec(new.schema, columns) if types[0] == types[1] and columns else None
    sides: Sides = ([], [])
    count = waiting = 0
    limit = fewest
    for pair in zip_longest(old.batches, new.batches):
        for side, batch in zip(sides, pair, strict=True):
            if batch is not None and batch.num_rows:
                side.append(batch)
                waiting += batch.num_rows
        count += 0 if pair[1] is None else pair[1].num_rows
        if codec is not None and waiting >= limit:
            sides = _unmet(codec, sides, columns)
            waiting = sum(each.num_rows for side in sides for each in side)
            # Rows that wait for long are not looked at with each batch.
            limit = max(fewest, 2 * waiting)
    if codec is not None:
        sides = _unmet(codec, sides, columns)
    tables = [
        pa.Table.from_batches(side, each.schema)
        for side, each in zip(sides, (old, new), strict=True)
    ]
    return UnequalRows(tables[0], tables[1], count)


def unequal_after(
    found: UnequalRows, old: ChangedRows, new: ChangedRows, key: Sequence[str], names: Sequence[str]
) -> UnequalRows | None:
    """The unequal rows after a batch, from those ``found`` before it and from what it has changed.

    It is what `unequal_rows` finds in the columns ``names``, without a look at any other row. No
    two rows of a side have the same ``key``. What one side alone has changed is on the other side
    what it was on both before the batch, unless it was among the unequal rows. None where the sides
    have columns of other names or types, or keys whose bytes cannot be compared.
    """
    types = [
        dict(zip(each.schema.names, each.schema.types, strict=True))
        for each in (found.old, found.new)
    ]
    codec = _codec(found.old.schema, key) if types[0] == types[1] and key else None
    if codec is None:
        return None
    try:
        first = _ChangedSide.of(codec, key, found.old, old)
        second = _ChangedSide.of(codec, key, found.new, new)
    except ValueMismatchError:
        return None
    both = pa.concat_arrays([first.changed, second.changed])
    met = unequal_rows(
        RowStream.of(first.rows_after(second)), RowStream.of(second.rows_after(first)), names
    )
    return UnequalRows(
        pa.concat_tables([first.unequal.without(both).rows, met.old]),
        pa.concat_tables([second.unequal.without(both).rows, met.new]),
        found.count + new.after.num_rows - new.before.num_rows,
    )


@dataclass(frozen=True)
class _ChangedSide:
    """The rows of a side that were ``unequal`` before a batch, and those that it has changed."""

    unequal: _Keys
    before: _Keys
    after: _Keys

    @classmethod
    def of(
        cls, codec: RowCodec, key: Sequence[str], unequal: pa.Table, rows: ChangedRows
    ) -> _ChangedSide:
        """Raises as `_Keys.of`."""
        return cls(*(_Keys.of(codec, each, key) for each in (unequal, rows.before, rows.after)))

    @property
    def changed(self) -> pa.Array:
        """The keys of what the batch has changed."""
        return pa.concat_arrays([self.before.keys, self.after.keys])

    def rows_after(self, other: _ChangedSide) -> pa.Table:
        """The rows of this side after the batch, of the keys that either side has changed.

        What the other side alone has changed was here too, unless the two were unequal there.
        """
        own = self.unequal.among(other.changed).without(self.changed)
        same = other.before.without(self.changed).without(other.unequal.keys)
        schema = self.unequal.rows.schema
        rows = [self.after.rows, own.rows, same.rows.select(schema.names)]
        # The types are the same already, and a cast would spoil columns without a type in others.
        return pa.concat_tables(
            [pa.Table.from_arrays(each.columns, schema=schema) for each in rows]
        )


@dataclass(frozen=True)
class _Keys:
    """Rows, and the bytes of the key of each."""

    rows: pa.Table
    keys: pa.Array

    @classmethod
    def of(cls, codec: RowCodec, rows: pa.Table, key: Sequence[str]) -> _Keys:
        """Raises `ValueMismatchError` for a key that is null where it cannot be."""
        whole = rows.select(key).combine_chunks()
        parts = [_encoded(codec, each, key).cast(_BYTES) for each in whole.to_batches()]
        return cls(rows, pa.concat_arrays(parts) if parts else pa.array([], _BYTES))

    def among(self, keys: pa.Array) -> _Keys:
        """Those whose key is among some."""
        return self._chosen(pc.is_in(self.keys, value_set=keys))

    def without(self, keys: pa.Array) -> _Keys:
        """Those whose key is not among some."""
        return self._chosen(pc.invert(pc.is_in(self.keys, value_set=keys)))

    def _chosen(self, mask: pa.Array) -> _Keys:
        return _Keys(self.rows.filter(mask), self.keys.filter(mask))


def _codec(schema: pa.Schema, columns: Sequence[str]) -> RowCodec | None:
    chosen = pa.schema([schema.field(name) for name in columns])
    try:
        return RowCodec(schema_json(chosen))
    except UnsupportedError:
        return None


Sides = tuple[list[pa.RecordBatch], list[pa.RecordBatch]]


def _unmet(codec: RowCodec, sides: Sides, columns: Sequence[str]) -> Sides:
    """The rows whose bytes one side has more often than the other."""
    if not all(sides):
        return sides
    try:
        rows = [[_encoded(codec, batch, columns) for batch in side] for side in sides]
    except ValueMismatchError:
        # State may have a null where its schema has none. It is compared value by value.
        return sides
    codes = pa.chunked_array([each for side in rows for each in side]).dictionary_encode()
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in codes.chunks])
    split = sum(each.num_rows for each in sides[0])
    parts = (numbers[:split], numbers[split:])
    times = [np.bincount(part, minlength=int(numbers.max()) + 1) for part in parts]
    differs = times[0] != times[1]
    old, new = (list(_chosen(side, differs[part])) for side, part in zip(sides, parts, strict=True))
    return old, new


def _chosen(side: Sequence[pa.RecordBatch], stay: np.ndarray[Any, Any]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in side:
        found = batch.filter(pa.array(stay[start : start + batch.num_rows]))
        start += batch.num_rows
        if found.num_rows:
            yield found


def _encoded(codec: RowCodec, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    own = codec.arrow_schema
    # Arrow spoils columns without a type within others where it has nothing to cast.
    cast = [
        each if each.type == kind else each.cast(kind)
        for each, kind in zip(batch.select(columns).columns, own.types, strict=True)
    ]
    return codec.encode(pa.RecordBatch.from_arrays(cast, schema=own)).to_arrow()
