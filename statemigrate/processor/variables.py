"""PySpark's state variables over dual access.

The classes are PySpark's own, so a processor written for ``transformWithState`` meets the methods
and the return values it knows: tuples in, tuples out, None for what is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState

from statemigrate.access import DualAccess, DualList
from statemigrate.deployment import Declared
from statemigrate.errors import UnsupportedError, ValueMismatchError
from statemigrate.families import EncodedFamily, Span
from statemigrate.formats import Value
from statemigrate.formats.avro import DirectConversion, Read, Write
from statemigrate.processor.intake import row_taker
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.processor.rows import TupleCodec
from statemigrate.quoting import argument


class GroupingKey:
    """The key the processor is called for: its columns' values, and its bytes."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = b""


def dual_variable(declared: Declared, access: DualAccess[Any], key: GroupingKey) -> Any:
    """The state variable of a declared store over its dual access, for the key in ``key``."""
    rows = TupleCodec(declared.schema)
    if declared.user_key is not None:
        return DualMapState(access, rows, TupleKeyCodec(declared.user_key), key)
    if isinstance(access, DualList):
        return DualListState(access, rows, key)
    return DualValueState(access, rows, key)


class DualValueState(ValueState):
    """See ``pyspark.sql.streaming.stateful_processor.ValueState``."""

    def __init__(self, access: DualAccess[Value], rows: TupleCodec, key: GroupingKey) -> None:
        self._access = access
        self._rows = rows
        self._key = key

    def exists(self) -> bool:
        """Whether the key has a value."""
        return self._access.exists(self._key.data)

    def get(self) -> tuple[Any, ...] | None:
        """The key's value; migrates it when it is still in an older family."""
        value = self._access.get(self._key.data)
        return None if value is None else self._rows.to_tuple(value)

    def update(self, newValue: tuple[Any, ...]) -> None:
        """Write the key's value."""
        put_row(self._access, self._rows, self._key.data, newValue)

    def clear(self) -> None:
        """Remove the key's value."""
        self._access.delete(self._key.data)


class DualListState(ListState):
    """See ``pyspark.sql.streaming.stateful_processor.ListState``."""

    def __init__(self, access: DualList, rows: TupleCodec, key: GroupingKey) -> None:
        self._access = access
        self._rows = rows
        self._key = key

    def exists(self) -> bool:
        """Whether the key has a list."""
        return self._access.exists(self._key.data)

    def get(self) -> Iterator[tuple[Any, ...]]:
        """The key's elements in order."""
        values = self._access.get(self._key.data) or []
        return map(self._rows.to_tuple, values)

    def put(self, newState: list[tuple[Any, ...]]) -> None:
        """Replace the key's list."""
        if not newState:
            raise UnsupportedError(
                "SM-VALUE-011",
                "a list state cannot be set to an empty list",
                expected="at least one element",
                found="[]",
                next_action="call clear() to remove the list",
            )
        self._write(self._access.put, newState)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        """Write one element behind the others."""
        self._write(self._access.append, [newState])

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        """Write several elements behind the others."""
        self._write(self._access.append, newState)

    def clear(self) -> None:
        """Remove the key's list."""
        self._access.delete(self._key.data)

    def _write(self, write: Callable[[bytes, list[Value]], None], rows: list[Any]) -> None:
        store = self._access.store
        _put_rows(store, partial(write, self._key.data), self._rows, list(rows))


class DualMapState(MapState):
    """See ``pyspark.sql.streaming.stateful_processor.MapState``."""

    def __init__(
        self,
        access: DualAccess[Value],
        rows: TupleCodec,
        user_keys: TupleKeyCodec,
        key: GroupingKey,
    ) -> None:
        self._access = access
        self._rows = rows
        self._user_keys = user_keys
        self._take_key = row_taker(user_keys.schema)
        self._key = key
        self._make_row = Row(*rows.names)

    def exists(self) -> bool:
        """Whether the map has any entry."""
        return next(self._entries(), None) is not None

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The value under a user key; migrates it when it is still in an older family.

        A Row, as PySpark gives it here alone.
        """
        value = self._access.get(self._composite(key))
        return None if value is None else self._make_row(*self._rows.to_tuple(value))

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        """Whether the map has the user key."""
        return self._access.exists(self._composite(key))

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        """Write the value under a user key."""
        put_row(self._access, self._rows, self._composite(key), value)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Every user key with its value, in key order."""
        size = len(self._key.data)
        for key, value in self._entries():
            yield self._user_keys.decode(key[size:]), self._rows.to_tuple(value)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        """Every user key, in order."""
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Every value, in the order of the keys."""
        return (value for _, value in self.iterator())

    def removeKey(self, key: tuple[Any, ...]) -> None:
        """Remove a user key."""
        self._access.delete(self._composite(key))

    def clear(self) -> None:
        """Remove the whole map."""
        self._access.clear(Span.prefix(self._key.data))

    def _composite(self, key: tuple[Any, ...]) -> bytes:
        try:
            data = self._user_keys.encode(key)
        except ValueMismatchError:
            with blaming_the_processor(self._access.store):
                data = self._user_keys.encode(self._take_key(key))
        return self._key.data + data

    def _entries(self) -> Iterator[tuple[bytes, Value]]:
        return self._access.scan(Span.prefix(self._key.data))


def put_row(access: DualAccess[Value], rows: TupleCodec, key: Any, row: Any) -> None:
    """Write a row; what PySpark would make fit is looked at only where the row does not.

    Raises `ValueMismatchError`, which says that the processor put it, before anything is written.
    """
    try:
        access.put(key, rows.to_value(row))
    except ValueMismatchError:
        with blaming_the_processor(access.store):
            access.put(key, rows.to_value(rows.take(row)))


def _put_rows(
    store: str, write: Callable[[list[Value]], None], rows: TupleCodec, many: list[Any]
) -> None:
    try:
        write([rows.to_value(row) for row in many])
    except ValueMismatchError:
        with blaming_the_processor(store):
            write([rows.to_value(rows.take(row)) for row in many])


@contextmanager
def blaming_the_processor(store: str) -> Iterator[None]:
    """Say that a value which does not fit was put there by the processor."""
    try:
        yield
    except ValueMismatchError as error:
        raise error.but(
            summary=f"The processor put into state {store} what it cannot hold: {error.summary}",
            next_action="put a value of that type, or change the state's format with a migration: "
            f"`statemigrate new {argument(store)} -m MESSAGE`",
            store=store,
        ) from error


# Value state whose tuples are made of the bytes that are stored, without plain values between.
#
# A key takes two thirds of the time so. What is irregular goes by plain values.


def direct_variable(declared: Declared, access: DualAccess[Any], key: GroupingKey) -> Any:
    """`dual_variable` over an open access, straight where its target and the columns allow it."""
    if declared.variable_kind.has_one_value and isinstance(access.target, EncodedFamily):
        rows = TupleCodec(declared.schema)
        ways = rows.direct_conversion(access.target.format)
        if ways is not None:
            return DirectValueState(access, rows, key, ways)
    return dual_variable(declared, access, key)


class DirectValueState(DualValueState):
    """Value state over a target that is an `EncodedFamily`."""

    def __init__(
        self, access: DualAccess[Value], rows: TupleCodec, key: GroupingKey, ways: DirectConversion
    ) -> None:
        super().__init__(access, rows, key)
        self._make_write, self._make_read = ways
        # What the target has is what `DualAccess.get` finds.
        self._get_encoded, self._put_encoded = access.target.get_encoded, access.put_encoded  # type: ignore[attr-defined]

    # Made once they are needed: most partitions of a small batch have no row.
    @cached_property
    def _write(self) -> Write:
        return self._make_write()

    @cached_property
    def _read(self) -> Read:
        return self._make_read()

    def get(self) -> tuple[Any, ...] | None:
        """See `DualValueState.get`."""
        data = self._get_encoded(self._key.data)
        if data is None:
            return super().get()
        try:
            return self._read(data)
        except Exception:
            # Reading it in full reports what is wrong, if anything.
            return super().get()

    def update(self, newValue: tuple[Any, ...]) -> None:
        """See `DualValueState.update`."""
        try:
            data = self._write(newValue)
        except Exception:
            # The conversion by plain values makes it fit, or reports what does not.
            super().update(newValue)
        else:
            self._put_encoded(self._key.data, data)
