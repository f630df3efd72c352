"""The variables of a batch processor: the state of many keys at once, as columns of one table.

Every value is read and written by dual access, so that older values migrate when their key has
rows, as they do key by key.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared
from statemigrate.errors import (
    ProcessorError,
    StartupError,
    UnsupportedError,
    ValueMismatchError,
    shown,
)
from statemigrate.families import EncodedBlockFamily, Span
from statemigrate.formats import (
    Format,
    Struct,
    has_floats,
    nullable_type,
    plain_array,
    plain_values,
)
from statemigrate.formats.avro import arrow_type
from statemigrate.processor.arrow_rows import returned_column, returned_table
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.processor.rows import TupleCodec
from statemigrate.processor.variables import blaming_the_processor

FEW = 100
"""So many values go as columns at least: fewer are sooner read and written one by one."""


class ColumnState:
    """What a batch processor's ``init`` gets for a variable, whose values come with each batch."""

    def __init__(self, store: str) -> None:
        self._store = store

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(
            "SM-PROCESSOR-001",
            f"state {self._store} of a batch processor has no {name}()",
            expected=f"the column {self._store} of the table `state` that handleBatch gets",
            found=f"a call of {name}() on the variable",
            next_action="take values from the table, and return a table with the new ones",
            store=self._store,
        )


def check_names(declared: Sequence[Declared], columns: Sequence[str]) -> None:
    """Raise `StartupError` for a variable with the name of a grouping column.

    Both are columns of the table that a batch processor gets as its state.
    """
    for each in declared:
        if each.store in columns:
            raise StartupError(
                "SM-PROCESSOR-002",
                f"state {each.store} has the name of a grouping column",
                expected=f"other names than {', '.join(columns)}, which the table of a batch "
                "processor's state has already",
                found=each.store,
                next_action="on a new checkpoint, rename that column of the stream; on one that is "
                "there, whose grouping columns keep their names, write handleInputRows",
                store=each.store,
            )


class StateColumns:
    """A processor's variables for a block of keys: read as a table, and written from one."""

    def __init__(self, key: Any) -> None:
        self._key_names = list(key.fieldNames())
        self._codec = TupleKeyCodec(key)
        self._columns: dict[str, StateColumn] = {}

    def add(self, declared: Declared, access: DualAccess[Any]) -> ColumnState:
        """Take in a variable that ``init`` declares."""
        self._columns[declared.store] = _column(declared, access)
        return ColumnState(declared.store)

    def read(self, keys: pa.Table) -> StateOfKeys:
        """The state of some keys, each of which is there once."""
        encoded = self._encoded(keys)
        ascending = sorted(encoded)
        arrays, size = [], 0
        for column in self._columns.values():
            array = column.read(ascending)
            size += array.nbytes
            arrays.append(array if ascending == encoded else _moved(array, ascending, encoded))
        names = [*self._key_names, *self._columns]
        table = pa.Table.from_arrays([*keys.columns, *arrays], names=names)
        return StateOfKeys(self, table, encoded, ascending, size)

    def write(self, state: StateOfKeys, returned: Any) -> None:
        """Write what a processor has returned of some keys' state.

        Raises `ProcessorError` for a table of other keys or columns, and `ValueMismatchError` for
        values that a variable does not have. Nothing is written then.
        """
        table = self._table(returned)
        order = self._order(state, table)
        changed = {}
        for name in table.column_names:
            if name in self._columns:
                array = returned_column("state", table, name, self._columns[name].type)
                changed[name] = array if order is None else array.take(order)
        if state.ascending != state.encoded:
            changed = {
                name: _moved(each, state.encoded, state.ascending) for name, each in changed.items()
            }
        writes = [
            self._columns[name].writing(state.ascending, each) for name, each in changed.items()
        ]
        for write in writes:
            write()

    def _table(self, returned: Any) -> pa.Table:
        table = returned_table("state", returned)
        allowed = [*self._key_names, *self._columns]
        names = table.column_names
        lacking = [each for each in self._key_names if each not in names]
        if lacking or set(names) - set(allowed) or len(set(names)) < len(names):
            raise ProcessorError(
                "SM-PROCESSOR-004",
                "a batch processor returned state with other columns",
                expected=f"{', '.join(self._key_names)}, and those of {', '.join(self._columns)} "
                "that change, each once",
                found=", ".join(names) or "no column",
                next_action="return the grouping columns, and a column of structs by the name of "
                "each variable that changes",
                columns=names,
            )
        return table

    def _order(self, state: StateOfKeys, table: pa.Table) -> pa.Array | None:
        """Where each key's row is in a table; None where it is in its place."""
        given = [state.table.column(name) for name in self._key_names]
        found = [
            returned_column("state", table, name, column.type)
            for name, column in zip(self._key_names, given, strict=True)
        ]
        if table.num_rows == state.table.num_rows and all(
            pa.chunked_array([one]).equals(other) for one, other in zip(found, given, strict=True)
        ):
            return None
        keys = self._encoded(pa.Table.from_arrays(found, names=self._key_names))
        places = {key: place for place, key in enumerate(keys)}
        absent = [key for key in state.encoded if key not in places]
        others = places.keys() - set(state.encoded)
        if absent or others or len(places) < len(keys):
            some = absent or sorted(others) or [key for key in keys if keys.count(key) > 1]
            what = "lacks" if absent else "is not of this batch" if others else "is there twice"
            key = shown(self._codec.decode(some[0]))
            raise ProcessorError(
                "SM-PROCESSOR-005",
                "a batch processor returned state of other keys",
                expected=f"each of the {len(state.encoded)} keys that it got once, in any order",
                found=f"{len(keys)} rows; {'without' if absent else 'with'} the key {key}"
                + ("" if absent else f", which {what}"),
                next_action="return a row for every key of `keys`; null in a variable's column "
                "removes its value, and a variable whose column is left out does not change",
                absent=len(absent),
                others=len(others),
            )
        return pa.array([places[key] for key in state.encoded], pa.int64())

    def _encoded(self, keys: pa.Table) -> list[bytes]:
        columns = [column.to_pylist() for column in keys.columns]
        return self._codec.encode_many(list(zip(*columns, strict=True)))


class StateOfKeys:
    """The state of a block's keys: a table, and how large the state is.

    ``encoded`` are the bytes of the keys in the table's order, ``ascending`` in their own.
    """

    def __init__(
        self,
        columns: StateColumns,
        table: pa.Table,
        encoded: Sequence[bytes],
        ascending: Sequence[bytes],
        size: int,
    ) -> None:
        self._columns = columns
        self.table = table
        self.encoded, self.ascending = encoded, ascending
        self.size = size

    def write(self, returned: Any) -> None:
        """See `StateColumns.write`; None changes nothing."""
        if returned is not None:
            self._columns.write(self, returned)


class StateColumn(ABC):
    """One variable's values of many keys, whose bytes ascend; ``type`` is Arrow's of a value."""

    type: pa.DataType

    @abstractmethod
    def read(self, keys: Sequence[bytes]) -> pa.Array:
        """The value of each key, null where it has none."""

    @abstractmethod
    def writing(self, keys: Sequence[bytes], values: pa.Array) -> Callable[[], None]:
        """What writes new values of the keys that were read last; null removes one.

        Raises `ValueMismatchError` for values that the variable's format does not have.
        """


def _column(declared: Declared, access: DualAccess[Any]) -> StateColumn:
    if declared.user_key is not None:
        return MapColumn(declared, access)
    column = ValueColumn if declared.variable_kind.has_one_value else ListColumn
    return column(access, expires=bool(declared.ttl))


class ValueColumn(StateColumn):
    """Values as structs, by blocks of bytes in the target's format.

    One that ``expires`` is written also where it is as it was: its time begins again.
    """

    def __init__(self, access: DualAccess[Any], *, expires: bool) -> None:
        assert isinstance(access.target, EncodedBlockFamily), "an engine with bytes"  # noqa: S101
        self._access = access
        self._expires = expires
        self._format: Format = access.target.format
        self._before: Sequence[bytes | None] = ()
        self.type = nullable_type(arrow_type(self._format.schema))

    def read(self, keys: Sequence[bytes]) -> pa.Array:
        """See `StateColumn.read`."""
        self._before = self._access.get_many_encoded(keys)
        present = [each for each in self._before if each is not None]
        if not present:
            return pa.nulls(len(keys), self.type)
        values = None if len(present) < FEW else self._format.decode_columns(present)
        if values is None:
            values = plain_array(self._format.decode_many(present), self.type)
        if len(present) == len(keys):
            return values
        has = np.fromiter((each is not None for each in self._before), np.bool_, len(keys))
        places = np.cumsum(has) - 1
        return values.take(pa.array(places, mask=~has))

    def writing(self, keys: Sequence[bytes], values: pa.Array) -> Callable[[], None]:
        """See `StateColumn.writing`."""
        made = self._encoded(values)
        rows = list(zip(keys, self._before, made, strict=True))
        puts = [
            (key, data)
            for key, before, data in rows
            if data is not None and (self._expires or data != before)
        ]
        gone = [key for key, before, data in rows if data is None and before is not None]

        def write() -> None:
            if puts:
                changed, written = zip(*puts, strict=True)
                self._access.put_many_encoded(changed, written)
            for key in gone:
                self._access.delete(key)

        return write

    def _encoded(self, values: pa.Array) -> list[bytes | None]:
        if not values.null_count:
            return list(self._all_encoded(values))
        has = values.is_valid()
        made = iter(self._all_encoded(values.filter(has)))
        return [next(made) if each else None for each in has.to_pylist()]

    def _all_encoded(self, values: pa.Array) -> Sequence[bytes]:
        if not len(values):
            return []
        made = None if len(values) < FEW else self._format.encode_columns(values)
        if made is not None:
            return made
        with blaming_the_processor(self._access.store):
            return self._format.encode_many(_plain(values))


class ListColumn(StateColumn):
    """Lists of structs, key by key.

    Where elements expire, those that a list begins with as before keep the time that they have.
    """

    def __init__(self, access: DualAccess[Any], *, expires: bool) -> None:
        self._access = access
        self._expires = expires
        element = arrow_type(access.target.format.schema)  # type: ignore[attr-defined]
        self.type = nullable_type(pa.list_(pa.field("element", element)))
        self._are_same = _comparison(access.target.format, element)  # type: ignore[attr-defined]
        self._before: Sequence[Any] = ()

    def read(self, keys: Sequence[bytes]) -> pa.Array:
        """See `StateColumn.read`."""
        self._before = [self._access.get(key) for key in keys]
        return plain_array(self._before, self.type)

    def writing(self, keys: Sequence[bytes], values: pa.Array) -> Callable[[], None]:
        """See `StateColumn.writing`; an empty list removes one too."""
        with blaming_the_processor(self._access.store):
            after = [
                list(map(self._access.target.format.conform, each))  # type: ignore[attr-defined]
                for each in (found or [] for found in _plain(values))
            ]
        rows = list(zip(keys, self._before, after, strict=True))

        def write() -> None:
            for key, before, now in rows:
                if not now and before:
                    self._access.delete(key)
                elif self._expires and before and self._are_same(now[: len(before)], before):
                    self._access.append(key, now[len(before) :])  # type: ignore[attr-defined]
                elif now and not self._are_same(now, before or []):
                    self._access.put(key, now)

        return write


class MapColumn(StateColumn):
    """Maps as lists of structs with a ``key`` and a ``value``, key by key."""

    def __init__(self, declared: Declared, access: DualAccess[Any]) -> None:
        assert declared.user_key is not None, "a map"  # noqa: S101
        self._access = access
        self._codec = TupleKeyCodec(declared.user_key)
        self._rows = TupleCodec(declared.user_key)
        value = arrow_type(access.target.format.schema)  # type: ignore[attr-defined]
        fields = [
            pa.field("key", arrow_type(Struct(declared.user_key).schema)),
            pa.field("value", value),
        ]
        self.type = nullable_type(pa.list_(pa.field("element", pa.struct(fields))))
        self._are_same = _comparison(access.target.format, value)  # type: ignore[attr-defined]
        self._before: Sequence[dict[bytes, Any]] = ()

    def read(self, keys: Sequence[bytes]) -> pa.Array:
        """See `StateColumn.read`."""
        self._before = [dict(self._access.scan(Span.prefix(key))) for key in keys]
        found = [
            [self._entry(full[len(key) :], value) for full, value in map_.items()] or None
            for key, map_ in zip(keys, self._before, strict=True)
        ]
        return plain_array(found, self.type)

    def writing(self, keys: Sequence[bytes], values: pa.Array) -> Callable[[], None]:
        """See `StateColumn.writing`; an empty list removes a map too."""
        with blaming_the_processor(self._access.store):
            after = [
                self._map(key, entries or [])
                for key, entries in zip(keys, _plain(values), strict=True)
            ]
        rows = list(zip(self._before, after, strict=True))

        def write() -> None:
            for before, now in rows:
                for full in before.keys() - now.keys():
                    self._access.delete(full)
                for full, value in now.items():
                    if full not in before or not self._are_same([value], [before[full]]):
                        self._access.put(full, value)

        return write

    def _map(self, key: bytes, entries: Sequence[Mapping[str, Any]]) -> dict[bytes, Any]:
        conform = self._access.target.conform
        made = {key + self._own_key(each): conform(each["value"]) for each in entries}
        if len(made) < len(entries):
            raise _twice()
        return made

    def _own_key(self, entry: Mapping[str, Any]) -> bytes:
        return self._codec.encode(self._rows.to_tuple(entry["key"]))

    def _entry(self, data: bytes, value: Any) -> dict[str, Any]:
        return {"key": self._rows.to_value(self._codec.decode(data)), "value": value}


def _comparison(fmt: Format, kind: pa.DataType) -> Callable[[list[Any], list[Any]], bool]:
    """Whether values of a format are the same, the signs of zeros included."""
    if not has_floats(kind):
        return operator.eq
    return lambda some, others: some == others and fmt.encode_many(some) == fmt.encode_many(others)


def _plain(values: pa.Array) -> list[Any]:
    """`plain_values`; raises `ValueMismatchError` for a map that has a key twice."""
    try:
        return plain_values(values)
    except (KeyError, ValueError) as error:
        # Within a struct pyarrow takes one for a name that the struct has twice.
        if "duplicate" not in str(error):
            raise
        raise _twice() from error


def _twice() -> ValueMismatchError:
    return ValueMismatchError(
        "SM-PROCESSOR-007",
        "a map has one of its keys twice",
        expected="each key of a map once",
        found="two entries with one key",
        next_action="return one entry for each key of a map",
        field="",
    )


def _moved(array: pa.Array, before: Sequence[bytes], after: Sequence[bytes]) -> pa.Array:
    """The values of keys in another order of these."""
    places = {key: place for place, key in enumerate(before)}
    return array.take(pa.array([places[key] for key in after], pa.int64()))
