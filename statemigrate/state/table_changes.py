"""What differs in a store between two batches, and the life of one key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

import pyarrow as pa

from statemigrate.checkpoint import PartitionChange
from statemigrate.errors import StartupError
from statemigrate.formats import plain_array, plain_rows
from statemigrate.state.equal_rows import ChangedRows, RowStream, unequal_rows
from statemigrate.state.table_columns import BATCH, EXPIRY, INDEX, TableColumns
from statemigrate.state.table_stores import StorePart, StoreRows
from statemigrate.state.user_rows import UserRows

CHANGE, BEFORE = "_change", "_before"
_ADDED, _REMOVED, _CHANGED, _FIRST = "added", "removed", "changed", "first"
Row = dict[str, Any]
Rows = dict[str, Row]
"""Rows of a table by their keys as text."""


@dataclass(frozen=True)
class StoreAt:
    """A store of the checkpoint at a ``place``, at a batch: its rows, and how they are columns."""

    place: str
    name: str
    rows: StoreRows
    columns: TableColumns


def changes_between(before: StoreAt, after: StoreAt) -> Iterator[pa.Table]:
    """What differs between two batches, a table for some partitions; see `StateTable.changes`.

    At least one table is given. Raises `StartupError` where the columns are not the same at both
    batches.
    """
    _check_alike(before, after)
    if before.place != after.place:
        yield from _between_checkpoints(before, after)
        return
    columns = after.columns
    for partition in range(max(before.rows.partitions, after.rows.partitions)):
        old: Rows = {}
        new: Rows = {}
        for is_new, part, batch in _differing(before, after, partition):
            rows, layout = (new, columns) if is_new else (old, before.columns)
            rows.update(_by_key(layout, plain_rows(layout.batch(part, batch))))
        yield _table(columns, _compared(columns, old, new))


def rows_changed(before: StoreAt, after: StoreAt, most: int) -> ChangedRows | None:
    """The rows that are not the same at two batches of one checkpoint.

    None where all rows would be read for it: if files do not say which keys have been written, or
    if these are more than ``most``. None as well where columns or families have changed.
    """
    pairs = _families_of_both(before, after)
    if pairs is None or before.columns.schema != after.columns.schema:
        return None
    written = []
    for old, new in pairs:
        for partition in range(new.rows.partitions):
            change = PartitionChange(old.rows.stored, new.rows.stored, partition)
            keys = change.keys if change.is_indexed else None
            if keys is None or len(keys) > most:
                return None
            most -= len(keys)
            written.append((old, new, change))
    found: tuple[list[pa.RecordBatch], ...] = ([], [])
    for old, new, change in written:
        sides = zip(found, (before, after), (old, new), change.rows(), strict=True)
        for rows, side, each, raw in sides:
            if len(raw[0]):
                decoded = each.rows.decoded(change.partition, *raw)
                rows.append(side.columns.batch(each.part, decoded))
    old_rows, new_rows = (
        pa.Table.from_batches(rows, each.columns.schema)
        for rows, each in zip(found, (before, after), strict=True)
    )
    return ChangedRows(old_rows, new_rows)


@dataclass(frozen=True)
class _SparkPart:
    """A part of a store whose rows are Spark's own."""

    part: StorePart
    rows: UserRows


def _families_of_both(
    before: StoreAt, after: StoreAt
) -> list[tuple[_SparkPart, _SparkPart]] | None:
    """The parts of a store at two batches; None where one is at one of them alone."""
    sides: list[dict[str, _SparkPart]] = []
    for each in (before, after):
        parts = [
            _SparkPart(part, part.rows) for part in each.rows.parts
            if isinstance(part.rows, UserRows)
        ]  # fmt: skip
        if len(parts) < len(each.rows.parts):
            return None
        sides.append({_family_of(each.part): each for each in parts})
    old, new = sides
    if old.keys() != new.keys():
        return None
    pairs = [(old[name], new[name]) for name in new]
    same = all(first.rows.partitions == second.rows.partitions for first, second in pairs)
    return pairs if same else None


def _between_checkpoints(before: StoreAt, after: StoreAt) -> Iterator[pa.Table]:
    """The same of two checkpoints, where a key may be in another partition.

    A key's partition is its hash modulo their number, so partitions whose numbers are alike modulo
    the common divisor are read together. Whatever the partitions are, a key without a counterpart
    waits for it, so that only keys that differ are in memory where both have the same partitions.
    Rows that are the same are left out by columns.
    """
    columns = after.columns
    old: Rows = {}
    new: Rows = {}
    alike = gcd(before.rows.partitions, after.rows.partitions) or 1
    for number in range(alike):
        sides = [
            RowStream(each.columns.schema, _rows_alike(each, number, alike))
            for each in (before, after)
        ]
        found = unequal_rows(sides[0], sides[1], _compared_names(columns))
        old.update(_by_key(before.columns, plain_rows(found.old)))
        new.update(_by_key(columns, plain_rows(found.new)))
        met = [key for key in new if key in old]
        first, second = ({key: rows.pop(key) for key in met} for rows in (old, new))
        yield _table(columns, _compared(columns, first, second))
    yield _table(columns, _compared(columns, old, new))


def _rows_alike(side: StoreAt, number: int, alike: int) -> Iterator[pa.RecordBatch]:
    """The rows of the partitions that are ``number`` modulo ``alike``."""
    for part in side.rows.parts:
        for partition in range(number, part.rows.partitions, alike):
            for batch in part.rows.batches(partition):
                yield side.columns.batch(part, batch)


def _compared_names(columns: TableColumns) -> list[str]:
    """The columns in which two rows are the same, or differ."""
    index = [INDEX] if columns.has_several else []
    return [*columns.key_names, *index, *columns.content_names, EXPIRY]


def rows_between(before: StoreAt, after: StoreAt, old: list[Row], new: list[Row]) -> pa.Table:
    """What differs between some rows of a store at two batches. Raises as `changes_between`."""
    _check_alike(before, after)
    columns = after.columns
    return _table(columns, _compared(columns, _by_key(columns, old), _by_key(columns, new)))


def life_of(columns: TableColumns, found: Iterable[tuple[int, list[Row]]]) -> pa.Table:
    """What became of the rows of one key over batches, the oldest first; see `StateTable.history`.

    ``found`` has each batch with the key's rows then.
    """
    changed: list[Row] = []
    before: Rows | None = None
    for batch, each in found:
        rows = _by_key(columns, each)
        for change in _compared(columns, before or {}, rows):
            what = _FIRST if before is None else change[CHANGE]
            changed.append({**change, CHANGE: what, BATCH: batch})
        before = rows
    return _table(columns, changed)


def _by_key(columns: TableColumns, rows: list[Row]) -> Rows:
    # As text: a NaN equals nothing.
    return {repr([row[name] for name in columns.key_names] + [row.get(INDEX)]): row for row in rows}


def _differing(
    before: StoreAt, after: StoreAt, partition: int
) -> Iterator[tuple[bool, StorePart, pa.RecordBatch]]:
    """Rows that may differ, and whether they are the new ones; unchanged files are not read."""
    others = {_family_of(part): part for part in before.rows.parts}
    for part in after.rows.parts:
        other = others.pop(_family_of(part), None)
        new, old = part.rows, other.rows if other is not None else None
        if isinstance(new, UserRows) and isinstance(old, UserRows) and other is not None:
            first, second = PartitionChange(old.stored, new.stored, partition).rows()
            for is_new, each, rows, raw in ((False, other, old, first), (True, part, new, second)):
                if len(raw[0]):
                    yield is_new, each, rows.decoded(partition, *raw)
            continue
        yield from ((True, part, batch) for batch in _batches(part, partition))
        if other is not None:
            yield from ((False, other, batch) for batch in _batches(other, partition))
    for part in others.values():
        yield from ((False, part, batch) for batch in _batches(part, partition))


def _batches(part: StorePart, partition: int) -> Iterator[pa.RecordBatch]:
    return part.rows.batches(partition) if partition < part.rows.partitions else iter(())


def _family_of(part: StorePart) -> str:
    rows = part.rows
    if isinstance(rows, UserRows):
        return f"{rows.stored.store.name}/{rows.stored.family.name}"
    return part.revision


def _compared(columns: TableColumns, old: Rows, new: Rows) -> list[Row]:
    """The rows that are not the same."""
    found: list[Row] = []
    for key, row in new.items():
        before = old.get(key)
        if before is None:
            found.append({**row, CHANGE: _ADDED, BEFORE: None})
        elif _content(columns, before) != _content(columns, row):
            found.append({**row, CHANGE: _CHANGED, BEFORE: _values(columns, before)})
    for key, row in old.items():
        if key not in new:
            empty = dict.fromkeys(columns.content_names)
            found.append({**row, **empty, CHANGE: _REMOVED, BEFORE: _values(columns, row)})
    return found


def _content(columns: TableColumns, row: Row) -> str:
    # As text: a NaN equals nothing.
    return repr((_values(columns, row), row[EXPIRY]))


def _values(columns: TableColumns, row: Row) -> Row:
    return {name: row[name] for name in columns.content_names}


def _table(columns: TableColumns, rows: list[Row]) -> pa.Table:
    values = pa.struct([columns.schema.field(name) for name in columns.content_names])
    schema = columns.schema.insert(0, pa.field(CHANGE, pa.string()))
    schema = schema.append(pa.field(BEFORE, values))
    arrays = [plain_array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _check_alike(before: StoreAt, after: StoreAt) -> None:
    old, new = before.columns, after.columns
    if old.schema != new.schema:
        raise StartupError(
            "SM-STATE-035",
            f"the columns of {after.name} are not the same at batches {old.batch_id} and "
            f"{new.batch_id}",
            expected=", ".join(f"{each.name} {each.type}" for each in new.schema),
            found=", ".join(f"{each.name} {each.type}" for each in old.schema),
            next_action="compare batches on one side of the change",
            store=after.name,
        )
