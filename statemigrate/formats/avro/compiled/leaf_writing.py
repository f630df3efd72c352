"""The expressions that write a single value of each type, as bytes.

They write what is regular. Anything else raises, and is left to the writer that says why.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from statemigrate.formats.avro.leaf_writing import leaf_writer, write_long
from statemigrate.formats.avro.leaves import leaf_of
from statemigrate.formats.generated import Source
from statemigrate.formats.schema.nodes import INTEGER_RANGES, Enum, Fixed, Primitive

_SHORT = 1 << 13
"""Numbers of at most two bytes are looked up: those from minus this to below it."""


def _any_long(value: int) -> bytes:
    out = bytearray()
    write_long(value, out)
    return bytes(out)


def long_bytes(value: int) -> bytes:
    """A number of three bytes or more, up to 64 bits."""
    number = (value << 1) ^ (value >> 63)
    if number < 1 << 21:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
    if number < 1 << 28:
        low, high = number & 127 | 128, number >> 7 & 127 | 128
        return bytes((low, high, number >> 14 & 127 | 128, number >> 21))
    return _any_long(value)


# The negative ones stand where Python looks for negative indexes.
_LONGS = [_any_long(number) for number in (*range(_SHORT), *range(-_SHORT, 0))]
KNOWN: dict[str, Any] = {"longs": _LONGS, "long_bytes": long_bytes}
"""Names that the expressions use."""


def length(size: str) -> str:
    """The expression of how many there are: ``size`` is an expression, never below zero."""
    return f"(longs[{size}] if {size} < {_SHORT} else long_bytes({size}))"


def leaf_pieces(source: Source, node: Primitive | Fixed | Enum, value: str) -> list[str]:
    """Expressions that, joined, are the bytes of ``value``; its check is written before them."""
    if node == Primitive("string"):
        return text_pieces(source, value)
    if isinstance(node, Primitive) and node.logical is None and node.decimals is None:
        if node.type in ("int", "long"):
            return [_integer(source, *INTEGER_RANGES[node.narrow or node.type], value)]
        if node.type == "double":
            _require(source, f"type({value}) is float")
            return [f"{source.constant(struct.Struct('<d').pack)}({value})"]
    return [f"{source.constant(_checked(node))}({value})"]


def text_pieces(source: Source, value: str) -> list[str]:
    """A string."""
    data, size = source.name("d"), source.name("n")
    _require(source, f"type({value}) is str")
    source.line(f"{data} = {value}.encode(); {size} = len({data})")
    return [length(size), data]


def _integer(source: Source, low: int, high: int, value: str) -> str:
    _require(source, f"type({value}) is int")
    if low >= -_SHORT and high < _SHORT:
        _require(source, f"{low} <= {value} <= {high}")
        return f"longs[{value}]"
    number = source.name("n")
    with source.block(f"if {-_SHORT} <= {value} < {_SHORT}:"):
        source.line(f"{number} = longs[{value}]")
    with source.block("else:"):
        _require(source, f"{low} <= {value} <= {high}")
        source.line(f"{number} = long_bytes({value})")
    return number


def _require(source: Source, condition: str) -> None:
    source.line(f"if not ({condition}): raise ValueError")


def _checked(node: Primitive | Fixed | Enum) -> Callable[[Any], bytes]:
    accepts, append = leaf_of(node).accepts, leaf_writer(node)

    def write(value: Any) -> bytes:
        if not accepts(value):
            raise ValueError
        out = bytearray()
        append(value, out)
        return bytes(out)

    return write
