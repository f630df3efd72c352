"""What differs between the rows of two runs: by key, by field, with a few whole examples."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from statemigrate.errors import CorruptFileError
from statemigrate.formats import plain_rows
from statemigrate.native import is_missing
from statemigrate.state import (
    FAILURE_COLUMNS,
    RowStream,
    StateTable,
    StateTables,
    StoreAt,
    UnequalRows,
    rows_changed,
    unequal_after,
    unequal_rows,
)

EXAMPLES = 3
"""Whole examples that are kept of each kind of difference in a store at a batch."""
OUTPUT = "output"
"""What the rows are called that code gives out."""
ROWS = "_rows"
"""The name under which rows that only one side has are expected, or noise."""
_SHARE = 1 / 200
"""Where a batch has written more of the rows, to read all of them takes less time."""
_REMEMBERED = 1 << 26
"""Bytes of rows that are remembered for another comparison."""
_EXPIRES, _INDEX = "_expires_at", "_index"
_OWN = (*FAILURE_COLUMNS, _EXPIRES)
"""Columns of a table's own, which most rows have nothing in."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Same:
    """Whether the old and the new value of a field, by its name, count as the same.

    ``asks_of_equal`` says that it is asked of equal values too: they may count as different.
    """

    compare: Callable[[str, Any, Any], bool]
    asks_of_equal: bool = False

    def __call__(self, field: str, old: Any, new: Any) -> bool:
        """Whether the two count as the same."""
        return self.compare(field, old, new)


@dataclass(frozen=True)
class Example:
    """A row that differs: its ``key``, and what it is ``before`` and ``after``, None for neither.

    ``before`` is what the old code, or the query itself, has made; ``after`` what the new code has.
    """

    change: str
    key: Row
    before: Row | None
    after: Row | None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "change": self.change,
            "key": dict(self.key),
            "before": None if self.before is None else dict(self.before),
            "after": None if self.after is None else dict(self.after),
        }


@dataclass(frozen=True)
class Difference:
    """What differs in a store, or in the output: rows, and changed rows by their ``fields``.

    ``only_old`` and ``only_new`` are the fields that one side has alone. ``rows`` are those that
    were compared. ``keys`` is false where the two have other keys, so that no rows were compared.
    ``own_names`` has, by column, other names that its field has by itself.
    """

    store: str
    rows: int = 0
    added: int = 0
    missing: int = 0
    changed: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    keys: bool = True
    own_names: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_same(self) -> bool:
        """Whether every row is there on both sides, with the same values in the common fields."""
        return self.keys and not (self.added or self.missing or self.changed)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "store": self.store,
            "rows": self.rows,
            "added": self.added,
            "missing": self.missing,
            "changed": self.changed,
            "fields": dict(self.fields),
            "only_old": list(self.only_old),
            "only_new": list(self.only_new),
            "keys": self.keys,
            "examples": [each.to_json() for each in self.examples],
        }


def _equal(field: str, old: Any, new: Any) -> bool:  # noqa: ARG001 - one of several such functions
    return bool(old == new) or repr(old) == repr(new)


equal = Same(_equal)
"""Two values are the same if they are equal; a NaN is the same as another one."""


class RowsReadOnce:
    """Reads the rows of tables, and remembers them for the next comparison of the same state.

    No more than ``most`` bytes are remembered. Those that were read longest ago are forgotten
    first, and a table that has more is read each time.
    """

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str, int], list[pa.RecordBatch]] = OrderedDict()

    def stream(self, table: StateTable) -> RowStream:
        """All rows of a table."""
        return RowStream(table.schema, self._batches(table))

    def _batches(self, table: StateTable) -> Iterator[pa.RecordBatch]:
        state = (table.side.place, table.name, table.batch)
        known = self._known.get(state)
        if known is not None:
            self._known.move_to_end(state)
            yield from known
            return
        found: list[pa.RecordBatch] = []
        size = 0
        for batch in table.batches():
            yield batch
            size += batch.nbytes
            if size <= self._most:
                found.append(batch)
            else:
                found.clear()
        if size <= self._most:
            self._known[state] = found
            while sum(map(_size, self._known.values())) > self._most:
                self._known.popitem(last=False)


def _size(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(each.nbytes for each in batches)


class StateComparison:
    """Compares the states of two runs, batch after batch.

    At the first one all rows are read. After that only those are which either run has changed, if
    its files say which these are and they are no more than a ``share`` of all. With ``rows``, they
    are read once for several such comparisons.
    """

    def __init__(self, share: float = _SHARE, rows: RowsReadOnce | None = None) -> None:
        self._share = share
        self._rows = RowsReadOnce(0) if rows is None else rows
        self._before: dict[str, _Compared] = {}

    def differences(
        self, old: StateTables, new: StateTables, same: Callable[[str], Same]
    ) -> tuple[Difference, ...]:
        """What differs at a batch, by store. ``same`` has how the fields of one compare."""
        names = dict.fromkeys([*old.stores, *new.stores])
        return tuple(self._of_store(name, old, new, same(name)) for name in names)

    def _of_store(self, name: str, old: StateTables, new: StateTables, same: Same) -> Difference:
        before = self._before.pop(name, None)
        if name not in old or name not in new:
            there: StateTable = (new if name in new else old)[name]
            count = there.count()
            fields = there.layout.value_names
            if name in new:
                return Difference(name, count, added=count, only_new=fields)
            return Difference(name, count, missing=count, only_old=fields)
        tables = (old[name], new[name])
        keys = [tuple(each.key_columns) for each in tables]
        if keys[0] != keys[1]:
            count = tables[1].count()
            return Difference(name, count, only_old=keys[0], only_new=keys[1], keys=False)
        key = (*keys[0], _INDEX) if _INDEX in tables[1].columns else keys[0]
        old_fields, new_fields = ((*each.layout.content_names, _EXPIRES) for each in tables)
        names = [*key, *(each for each in old_fields if each in new_fields)]
        sides = (tables[0].side, tables[1].side)
        found = None
        if before is not None and not same.asks_of_equal:
            most = int(before.found.count * self._share)
            found = before.after(sides, key, names, most)
        if found is None:
            rows = [self._rows.stream(each) for each in tables]
            found = _unequal(rows[0], rows[1], names, same)
        if not same.asks_of_equal and _types(tables[0]) == _types(tables[1]):
            self._before[name] = _Compared(sides, found)
        made = _difference(name, key, found, old_fields, new_fields, same)
        return replace(made, own_names=_own_names(*(each.layout.own_names for each in tables)))


def _own_names(*sides: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """By column the names that its field has on one of the sides."""
    columns = {column for each in sides for column in each}
    return {
        column: frozenset(each[column] for each in sides if column in each) for column in columns
    }


@dataclass(frozen=True)
class _Compared:
    """The two sides of a store at a batch, and the rows that were ``found`` unequal there."""

    sides: tuple[StoreAt, StoreAt]
    found: UnequalRows

    def after(
        self, sides: tuple[StoreAt, StoreAt], key: Sequence[str], names: Sequence[str], most: int
    ) -> UnequalRows | None:
        """The unequal rows at another batch; None where all rows are to be read for them.

        Each side may have changed ``most`` rows.
        """
        if [each.place for each in sides] != [each.place for each in self.sides]:
            return None
        changed = []
        for pair in zip(self.sides, sides, strict=True):
            try:
                rows = rows_changed(*pair, most)
            except (FileNotFoundError, CorruptFileError) as error:
                # The running query has removed the batch before.
                if not is_missing(error):
                    raise
                return None
            if rows is None:
                return None
            changed.append(rows)
        return unequal_after(self.found, changed[0], changed[1], key, names)


def _types(table: StateTable) -> dict[str, pa.DataType]:
    return {each.name: each.type for each in table.schema}


def compare_states(
    old: StateTables, new: StateTables, same: Callable[[str], Same]
) -> tuple[Difference, ...]:
    """What differs between two states, by store. ``same`` has how the fields of one compare."""
    return StateComparison().differences(old, new, same)


def compare_rows(
    name: str,
    key: Sequence[str],
    old: RowStream,
    new: RowStream,
    old_fields: Sequence[str],
    new_fields: Sequence[str],
    same: Same = equal,
) -> Difference:
    """Compare rows by their ``key``, in the fields that both sides have."""
    common = [each for each in old_fields if each in new_fields]
    found = _unequal(old, new, [*key, *common], same)
    return _difference(name, key, found, old_fields, new_fields, same)


def _difference(
    name: str,
    key: Sequence[str],
    found: UnequalRows,
    old_fields: Sequence[str],
    new_fields: Sequence[str],
    same: Same,
) -> Difference:
    common = [each for each in old_fields if each in new_fields]
    rows = [_by_key(plain_rows(each), key) for each in (found.old, found.new)]
    counted: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    examples: list[Example] = []

    def note(change: str, before: Row | None, after: Row | None) -> None:
        counted[change] += 1
        if sum(each.change == change for each in examples) < EXAMPLES:
            some = before if after is None else after
            assert some is not None, "one of both is there"  # noqa: S101
            sides = [each for each in (before, after) if each is not None]
            unset = {name for name in _OWN if not any(each.get(name) for each in sides)}
            example = Example(
                change,
                {each: some[each] for each in key},
                None
                if before is None
                else {each: before[each] for each in old_fields if each not in unset},
                None
                if after is None
                else {each: after[each] for each in new_fields if each not in unset},
            )
            examples.append(example)

    for text, after in rows[1].items():
        before = rows[0].get(text)
        if before is None:
            note("added", None, after)
            continue
        differing = [each for each in common if not same(each, before[each], after[each])]
        if differing:
            fields.update(differing)
            note("changed", before, after)
    for text, before in rows[0].items():
        if text not in rows[1]:
            note("missing", before, None)
    return Difference(
        name,
        found.count,
        counted["added"],
        counted["missing"],
        counted["changed"],
        {name: fields[name] for name in common if name in fields},
        tuple(each for each in old_fields if each not in new_fields),
        tuple(each for each in new_fields if each not in old_fields),
        tuple(examples),
    )


def _unequal(old: RowStream, new: RowStream, columns: Sequence[str], same: Same) -> UnequalRows:
    """The rows that `same` has to be asked of."""
    if not same.asks_of_equal:
        return unequal_rows(old, new, columns)
    tables = [pa.Table.from_batches(each.batches, each.schema) for each in (old, new)]
    return UnequalRows(tables[0], tables[1], tables[1].num_rows)


def _by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[str, Row]:
    """Rows by their keys as text; one that comes again is numbered."""
    found: dict[str, Row] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        text = repr([row[each] for each in key])
        seen[text] += 1
        found[f"{text} {seen[text]}"] = row
    return found


def compare_output(
    old: pa.Table,
    new: pa.Table,
    keys: Iterable[str],
    same: Same,
    own_names: Sequence[Mapping[str, str]] = (),
) -> Difference:
    """What differs between what two runs of a batch gave out.

    Rows belong together by the columns that are among ``keys``, those of the query's state; without
    any of them, by all common columns. ``own_names`` are those of the runs, as `Replayed` has them.
    """
    columns = [tuple(each.schema.names) for each in (old, new)]
    common = [each for each in columns[0] if each in columns[1]]
    wanted = set(keys)
    key = [each for each in common if each in wanted] or common
    fields = [[each for each in names if each not in key] for names in columns]
    rest = _unequal(RowStream.of(old), RowStream.of(new), common, same)
    rest = replace(rest, old=_in_order(rest.old, common), new=_in_order(rest.new, common))
    made = _difference(OUTPUT, key, rest, fields[0], fields[1], same)
    return replace(made, own_names=_own_names(*own_names))


def _in_order(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows in an order of their values, so that rows with one key meet in it."""
    texts = [repr([row[each] for each in columns]) for row in plain_rows(rows)]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    return rows.take(pa.array(order, pa.int64()))
