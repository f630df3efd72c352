"""The family protocol on Spark's state variables: a family is a variable.

A variable knows only the value of the grouping key Spark is at, so a key here is a *visit*: eight
bytes that are new for each key the processor is called for, in map state followed by the user key.
Every call is a round trip to the JVM; a value is therefore written once, at the end of the visit,
however often it was put.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from statemigrate.deployment import StoredFamily
from statemigrate.families import Span
from statemigrate.formats import Value
from statemigrate.processor import TupleCodec, TupleKeyCodec

VISIT = 8
"""The bytes of a visit's number."""
_NOTHING: Any = object()


class NativeFamily:
    """What families of every kind share; ``state`` is Spark's variable."""

    def __init__(self, family: StoredFamily, state: Any, rows: TupleCodec) -> None:
        self.name = family.name
        self.revision = family.revision
        self.format = family.format
        self._state = state
        self._rows = rows
        self._written = TupleCodec(rows.schema, rows=False)

    def conform(self, value: Any) -> Any:
        """See `statemigrate.families.Family.conform`."""
        return self.format.conform(value)

    def is_drained(self) -> bool:
        """See `Family.is_drained`: Spark does not say, within a batch, what other keys have."""
        return False

    def flush(self) -> None:
        """Write what is still to be written for the current visit."""

    def _row(self, value: Value) -> tuple[Any, ...]:
        return self._written.to_tuple(self.format.conform(value))


class NativeValueFamily(NativeFamily):
    """Values of one revision in a ``ValueState``."""

    def __init__(self, family: StoredFamily, state: Any, rows: TupleCodec) -> None:
        super().__init__(family, state, rows)
        self._pending: Any = _NOTHING
        # The caller may go on changing what it handed over, but only containers can change.
        self._frozen = copy.deepcopy if _has_containers(rows) else _itself

    def get(self, key: bytes) -> Value | None:  # noqa: ARG002 - Spark is at the key
        """See `statemigrate.families.Family.get`."""
        if self._pending is not _NOTHING:
            return self._rows.to_value(self._frozen(self._pending))
        row = self._state.get()
        return None if row is None else self._rows.to_value(row)

    def contains(self, key: bytes) -> bool:  # noqa: ARG002
        """See `statemigrate.families.Family.contains`."""
        return self._pending is not _NOTHING or self._state.exists()

    def put(self, key: bytes, value: Value) -> None:  # noqa: ARG002
        """See `statemigrate.families.Family.put`; written with the end of the visit."""
        self._pending = self._frozen(self._row(value))

    def delete(self, key: bytes) -> None:  # noqa: ARG002
        """See `statemigrate.families.Family.delete`."""
        self._pending = _NOTHING
        self._state.clear()

    def scan(self, span: Span) -> Iterator[tuple[bytes, Value]]:
        """See `statemigrate.families.Family.scan`: the one value of the current visit."""
        yield from _of_the_visit(span, self.get)

    def flush(self) -> None:
        """See `NativeFamily.flush`."""
        if self._pending is not _NOTHING:
            row, self._pending = self._pending, _NOTHING
            self._state.update(row)


class NativeListFamily(NativeFamily):
    """Lists of one revision in a ``ListState``."""

    def get(self, key: bytes) -> list[Value] | None:  # noqa: ARG002
        """See `statemigrate.families.Family.get`."""
        return [self._rows.to_value(row) for row in self._state.get()] or None

    def contains(self, key: bytes) -> bool:  # noqa: ARG002
        """See `statemigrate.families.Family.contains`."""
        return bool(self._state.exists())

    def conform(self, values: list[Value]) -> list[Value]:
        """See `statemigrate.families.Family.conform`."""
        return [self.format.conform(value) for value in values]

    def put(self, key: bytes, values: list[Value]) -> None:
        """See `statemigrate.families.Family.put`; an empty list is no entry."""
        rows = [self._row(value) for value in values]
        if rows:
            self._state.put(rows)
        else:
            self.delete(key)

    def append(self, key: bytes, values: Iterable[Value]) -> None:  # noqa: ARG002
        """See `statemigrate.families.ListFamily.append`."""
        self._state.appendList([self._row(value) for value in values])

    def delete(self, key: bytes) -> None:  # noqa: ARG002
        """See `statemigrate.families.Family.delete`."""
        self._state.clear()

    def scan(self, span: Span) -> Iterator[tuple[bytes, list[Value]]]:
        """See `statemigrate.families.Family.scan`: the one list of the current visit."""
        yield from _of_the_visit(span, self.get)


class NativeMapFamily(NativeFamily):
    """Entries of one revision in a ``MapState``."""

    def __init__(
        self, family: StoredFamily, state: Any, rows: TupleCodec, user_keys: TupleKeyCodec
    ) -> None:
        super().__init__(family, state, rows)
        self._user_keys = user_keys
        self._key_rows = TupleCodec(user_keys.schema)
        self._keys_written = TupleCodec(user_keys.schema, rows=False)

    def get(self, key: bytes) -> Value | None:
        """See `statemigrate.families.Family.get`."""
        row = self._state.getValue(self._user_key(key))
        return None if row is None else self._rows.to_value(row)

    def contains(self, key: bytes) -> bool:
        """See `statemigrate.families.Family.contains`."""
        return bool(self._state.containsKey(self._user_key(key)))

    def put(self, key: bytes, value: Value) -> None:
        """See `statemigrate.families.Family.put`."""
        self._state.updateValue(self._user_key(key), self._row(value))

    def delete(self, key: bytes) -> None:
        """See `statemigrate.families.Family.delete`."""
        self._state.removeKey(self._user_key(key))

    def scan(self, span: Span) -> Iterator[tuple[bytes, Value]]:
        """See `statemigrate.families.Family.scan`: the map of the current visit, in key order."""
        visit = (span.lower or b"")[:VISIT]
        rows = [(visit + self._user_keys.encode(key), row) for key, row in self._state.iterator()]
        rows.sort(key=lambda entry: entry[0], reverse=span.reverse)
        return iter([(key, self._rows.to_value(row)) for key, row in rows])

    def _user_key(self, key: bytes) -> tuple[Any, ...]:
        columns = self._user_keys.decode(key[VISIT:])
        return self._keys_written.to_tuple(self._key_rows.to_value(columns))


def _of_the_visit(span: Span, get: Callable[[bytes], Any]) -> Iterator[tuple[bytes, Any]]:
    visit = span.lower or b""
    value = get(visit)
    if value is not None:
        yield visit, value


def _has_containers(rows: TupleCodec) -> bool:
    text = rows.schema.simpleString()
    return "array<" in text or "map<" in text


def _itself(row: Any) -> Any:
    return row
