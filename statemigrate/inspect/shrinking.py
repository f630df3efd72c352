"""Making a value that shows a fault smaller, as long as it still shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from statemigrate.formats import Value
from statemigrate.formats.schema.nodes import (
    Array,
    Map,
    Node,
    Record,
    accepts_none,
    without_none,
)

_ATTEMPTS = 400
"""So many smaller values are tried of one."""
_LONG = 40


def shrunk(value: Value, record: Record, shows: Callable[[Value], bool]) -> Value:
    """The value with everything emptied that is not needed for ``shows``, which it fulfils."""
    return _Shrinking(shows).value(value, record)


def needed(value: Value, record: Record, shows: Callable[[Value], bool]) -> Value:
    """The fields of a `shrunk` value that are more than the least that they can be.

    ``shows`` tells which values there can be at all.
    """
    least = shrunk(value, record, shows)
    return {name: each for name, each in value.items() if each != least[name]}


class _Shrinking:
    def __init__(self, shows: Callable[[Value], bool]) -> None:
        self._shows = shows
        self._left = _ATTEMPTS

    def value(self, value: Value, record: Record) -> Value:
        found: Value = self._record(value, record, self._tried)
        return found

    def _tried(self, value: Any) -> bool:
        self._left -= 1
        return self._left >= 0 and self._shows(value)

    def _shrink(self, value: Any, node: Node, shows: Callable[[Any], bool]) -> Any:
        if value is None or (accepts_none(node) and shows(None)):
            return None
        match without_none(node):
            case Record() as record:
                return self._record(value, record, shows)
            case Array(items=items):
                return self._list(value, items, shows)
            case Map(values=values):
                return self._map(value, values, shows)
        return self._leaf(value, shows)

    def _record(self, value: Value, record: Record, shows: Callable[[Any], bool]) -> Value:
        for field in record.fields:
            shown = _with(value, field.name, shows)
            value = {**value, field.name: self._shrink(value[field.name], field.type, shown)}
        return value

    def _list(self, value: list[Any], items: Node, shows: Callable[[Any], bool]) -> list[Any]:
        place = 0
        while place < len(value):
            shorter = [*value[:place], *value[place + 1 :]]
            if shows(shorter):
                value = shorter
            else:
                place += 1
        for place, each in enumerate(value):
            before, after = value[:place], value[place + 1 :]
            smaller = self._shrink(each, items, _between(before, after, shows))
            value = [*before, smaller, *after]
        return value

    def _map(self, value: Value, values: Node, shows: Callable[[Any], bool]) -> Value:
        for key in list(value):
            fewer = {name: each for name, each in value.items() if name != key}
            if shows(fewer):
                value = fewer
            else:
                smaller = self._shrink(value[key], values, _with(value, key, shows))
                value = {**value, key: smaller}
        return value

    def _leaf(self, value: Any, shows: Callable[[Any], bool]) -> Any:
        while True:
            smaller = next((each for each in _smaller(value) if shows(each)), None)
            if smaller is None:
                return value
            value = smaller


def _with(value: Value, name: Any, shows: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda each: shows({**value, name: each})


def _between(
    before: list[Any], after: list[Any], shows: Callable[[Any], bool]
) -> Callable[[Any], bool]:
    return lambda each: shows([*before, each, *after])


def _smaller(value: Any) -> Iterator[Any]:  # one a kind of value
    """Values of the same kind that say less, the least first."""
    match value:
        case bool():
            return iter([False] if value else [])
        case int():
            return iter(_numbers(value))
        case float():
            found = (0.0, float(int(value)) if abs(value) < 2**53 else 0.0)
            return (each for each in found if abs(each) < abs(value))
        case Decimal() if value.is_finite() and value:
            signs = value.as_tuple()
            exponent = int(signs.exponent)
            return (
                Decimal(_with_digits(signs.sign, number, exponent))
                for number in _numbers(int("".join(map(str, signs.digits))))
            )
        case str() | bytes():
            return _shorter(value)
    return iter(())


def _with_digits(sign: int, number: int, exponent: int) -> tuple[int, tuple[int, ...], int]:
    return sign if number else 0, tuple(map(int, str(number))), exponent


def _numbers(value: int) -> list[int]:
    if not value:
        return []
    sign = 1 if value > 0 else -1
    found = [0, sign, sign * (abs(value) // 2), value - sign]
    return [each for each in dict.fromkeys(found) if abs(each) < abs(value)]


def _shorter(value: Any) -> Iterator[Any]:
    half = len(value) // 2
    found = [value[:0], value[:half], value[half:]]
    if len(value) <= _LONG:
        found += [value[:place] + value[place + 1 :] for place in range(len(value))]
    return (each for each in dict.fromkeys(found) if len(each) < len(value))
