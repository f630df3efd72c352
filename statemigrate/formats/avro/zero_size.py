"""Arrays whose items take no bytes: six bytes can state a billion of them.

An array of nulls, of records without fields or of empty ``fixed`` has a number of items and nothing
more. Every other number is bounded by the bytes that follow it.
"""

from __future__ import annotations

from collections.abc import Callable

from statemigrate.formats.schema.bounds import inner
from statemigrate.formats.schema.nodes import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)

MOST_ITEMS = 1_000_000
"""Items without bytes that one value may have."""

Skip = Callable[[bytes, int], int]
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


def holds_such_arrays(node: Node) -> bool:
    """Whether an array of items without bytes is anywhere in the type."""
    if isinstance(node, Array) and takes_no_bytes(node.items):
        return True
    return any(map(holds_such_arrays, inner(node)))


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
