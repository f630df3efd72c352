"""Between what fastavro reads and plain values, where Avro has no type of its own for them.

A map whose keys are no strings is stored as a list of entries, an interval as a number. Most
formats have neither, and nothing is done to their values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any

from statemigrate.formats.schema import (
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    inner,
)
from statemigrate.formats.timestamps import aware_of

Lift = Callable[[Any], Any]
_UNITS = {"timestamp-millis": 1000, "timestamp-micros": 1}


def stored_as(node: Node, *, numbers: bool = False) -> Any:  # noqa: PLR0911  # one a kind
    """The Avro type that a node is stored as; with ``numbers``, timestamps as bare numbers."""
    match node:
        case Record():
            fields = (Field(f.name, stored_as(f.type, numbers=numbers)) for f in node.fields)
            return Record(node.name, tuple(fields))
        case Array():
            return Array(stored_as(node.items, numbers=numbers))
        case Map():
            values = stored_as(node.values, numbers=numbers)
            if node.has_text_keys:
                return Map(values)
            key = stored_as(node.keys, numbers=numbers)
            return Array(Record("entry", (Field("key", key), Field("value", values))))
        case Union():
            return Union(tuple(stored_as(branch, numbers=numbers) for branch in node.branches))
        case Primitive(logical="timestamp-millis" | "timestamp-micros") if numbers:
            return Primitive("long")
    return node


def lift_of(node: Node, *, numbers: bool = False) -> Lift | None:  # noqa: PLR0911  # one a kind
    """What makes a plain value of what is read as `stored_as`; None where that is one."""
    match node:
        case Record():
            return _record(node, numbers)
        case Array():
            items = lift_of(node.items, numbers=numbers)
            return items and (lambda found: [items(each) for each in found])
        case Map():
            return _map(node, numbers)
        case Union():
            return _nullable(node, numbers)
        case Primitive(logical="day-time-interval"):
            return lambda found: timedelta(microseconds=found)
        case Primitive(logical="timestamp-millis" | "timestamp-micros") if numbers:
            unit = _UNITS[str(node.logical)]
            return lambda found: aware_of(found * unit)
    return None


def _record(node: Record, numbers: bool) -> Lift | None:
    found = [(field.name, lift_of(field.type, numbers=numbers)) for field in node.fields]
    lifts = [(name, lift) for name, lift in found if lift is not None]
    if not lifts:
        return None

    def lift(value: dict[str, Any]) -> dict[str, Any]:
        for name, each in lifts:
            value[name] = each(value[name])
        return value

    return lift


def _map(node: Map, numbers: bool) -> Lift | None:
    values = lift_of(node.values, numbers=numbers)
    if node.has_text_keys:
        return values and (lambda found: {key: values(each) for key, each in found.items()})
    keys = lift_of(node.keys, numbers=numbers) or _same
    freeze, item = freezing(node.keys), values or _same
    return lambda found: {freeze(keys(each["key"])): item(each["value"]) for each in found}


def _nullable(node: Union, numbers: bool) -> Lift | None:
    others = [branch for branch in node.branches if branch != NULL]
    lifts = [lift_of(branch, numbers=numbers) for branch in others]
    if not any(lifts):
        return None
    if len(lifts) > 1:
        # A number might be any branch's; only timestamps beyond UTC's years get here.
        return _unknown
    (inner,) = lifts
    return inner and (lambda found: None if found is None else inner(found))


def freezing(node: Node) -> Callable[[Any], Hashable]:
    """What makes a map's key of a plain value: tuples in place of dictionaries and lists."""
    match node:
        case Record():
            inner = [(field.name, freezing(field.type)) for field in node.fields]
            return lambda value: tuple([freeze(value[name]) for name, freeze in inner])
        case Array():
            item = freezing(node.items)
            return lambda value: tuple([item(each) for each in value])
        case Union():
            others = [branch for branch in node.branches if branch != NULL]
            other = freezing(others[0])
            return lambda value: None if value is None else other(value)
    return _same


def thawing(node: Node) -> Callable[[Any], Any]:
    """The other way round. What is no such tuple is left as it is, for the check to refuse."""
    match node:
        case Record():
            names = [field.name for field in node.fields]
            inner = [thawing(field.type) for field in node.fields]
            return lambda key: _by_name(key, names, inner)
        case Array():
            item = thawing(node.items)
            return lambda key: [item(each) for each in key] if isinstance(key, tuple) else key
        case Union():
            others = [branch for branch in node.branches if branch != NULL]
            other = thawing(others[0])
            return lambda key: None if key is None else other(key)
    return _same


def _by_name(key: Any, names: list[str], inner: list[Callable[[Any], Any]]) -> Any:
    if not isinstance(key, tuple) or len(key) != len(names):
        return key
    return {name: thaw(each) for name, thaw, each in zip(names, inner, key, strict=True)}


def _same(value: Any) -> Any:
    return value


def _unknown(found: Any) -> Any:
    raise TypeError(f"no branch for {found!r}")


# Arrays whose items take no bytes: six bytes can state a billion of them.
#
# An array of nulls, of records without fields or of empty ``fixed`` has a number of items and
# nothing more. Every other number is bounded by the bytes that follow it.


MOST_ITEMS = 1_000_000
"""Items without bytes that one value may have."""

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def takes_no_bytes(node: Node) -> bool:
    """Whether every value of the type is written as nothing."""
    match node:
        case Primitive():
            return node.type == "null"
        case Fixed():
            return node.size == 0
        case Record():
            return all(takes_no_bytes(field.type) for field in node.fields)
    return False


def contains_arrays_without_bytes(node: Node) -> bool:
    """Whether an array of items without bytes is anywhere in the type."""
    if isinstance(node, Array) and takes_no_bytes(node.items):
        return True
    return any(map(contains_arrays_without_bytes, inner(node)))


def check_items(record: Record, data: bytes) -> None:
    """Raise ValueError where the bytes of a value state more such items than it may have."""
    _Walk(data).skip(record, 0)


class _Walk:
    """One pass over a value's bytes, making nothing of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._items = 0

    def skip(self, node: Node, at: int) -> int:
        """Where the value of ``node`` that begins ``at`` ends."""
        match node:
            case Record():
                for field in node.fields:
                    at = self.skip(field.type, at)
                return at
            case Array():
                return self._blocks(at, lambda start: self.skip(node.items, start), node)
            case Map():
                return self._blocks(
                    at, lambda start: self.skip(node.values, self._text(start)), node
                )
            case Union():
                branch, at = self._number(at)
                if not 0 <= branch < len(node.branches):
                    raise ValueError(f"branch {branch} of {len(node.branches)}")
                return self.skip(node.branches[branch], at)
        return self._leaf(node, at)

    def _leaf(self, node: Primitive | Fixed | Enum, at: int) -> int:
        if isinstance(node, Fixed):
            return self._within(at + node.size)
        if isinstance(node, Primitive):
            if node.type in _SIZES:
                return self._within(at + _SIZES[node.type])
            if node.type in ("bytes", "string"):
                return self._text(at)
        return self._number(at)[1]

    def _blocks(self, at: int, skip: Callable[[int], int], node: Array | Map) -> int:
        while True:
            number, at = self._number(at)
            if number == 0:
                return at
            if number < 0:
                number, (_, at) = -number, self._number(at)
            if isinstance(node, Array) and takes_no_bytes(node.items):
                self._items += number
                if self._items > MOST_ITEMS:
                    raise ValueError(f"more than {MOST_ITEMS:,} items that take no bytes")
                continue
            for _ in range(number):
                at = skip(at)

    def _text(self, at: int) -> int:
        size, at = self._number(at)
        if size < 0:
            raise ValueError(f"a text of {size} bytes")
        return self._within(at + size)

    def _number(self, at: int) -> tuple[int, int]:
        number = shift = 0
        while True:
            byte = self._data[self._within(at + 1) - 1]
            number |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return (number >> 1) ^ -(number & 1), at
            if shift > 63:
                raise ValueError("a number of more than ten bytes")

    def _within(self, end: int) -> int:
        if end > len(self._data):
            raise ValueError("bytes that end before the value does")
        return end
