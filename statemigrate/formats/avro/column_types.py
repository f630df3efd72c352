"""The Arrow types of values, and which formats are read into columns and written from them.

pyarrow is loaded where it is used: what only looks at state is to begin at once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from statemigrate.formats.schema import (
    COLLATED,
    NULL,
    Array,
    Decimals,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    accepts_none,
    type_name,
    without_none,
)

LONG_DIGITS = 18
"""Digits of any decimal that is a number of 64 bits."""
_WIDEST = 16
"""Bytes of a decimal that Arrow has in 128 bits."""
_WIDEST_DECIMAL = 38
"""Digits of a decimal that Arrow has in 128 bits."""
_DEPTH = 16


def has_columns(  # noqa: PLR0911  # one a kind
    node: Node, depth: int = 0, *, lists: bool = True
) -> bool:
    """Whether values of a type are read into columns and written from them.

    Unions with a choice and maps whose keys are no texts are not, and without ``lists`` neither
    are lists, maps, enums and bare ``fixed``.
    """
    match node:
        case Record():
            return (
                len(node.fields) > 0
                and depth < _DEPTH
                and all(has_columns(each.type, depth + 1, lists=lists) for each in node.fields)
            )
        case Union(branches=(one, other)):
            present = other if one == NULL else one
            return (one == NULL) != (other == NULL) and has_columns(present, depth, lists=lists)
        case Fixed(decimals=Decimals() as decimals):
            return 0 < node.size <= _WIDEST and decimals.precision <= _precision_of(node.size)
        case Primitive(type="bytes", decimals=Decimals() as decimals):
            return decimals.precision <= LONG_DIGITS
        case Primitive():
            return node.type != "null"
        case Array() if lists and depth < _DEPTH:
            return has_columns(node.items, depth + 1)
        case Map() if lists and depth < _DEPTH:
            return node.has_text_keys and has_columns(node.values, depth + 1)
        case Enum():
            return lists
        case Fixed():
            return lists and node.size > 0
    return False


def _precision_of(size: int) -> int:
    """The digits that any decimal of so many bytes may have."""
    return len(str(1 << (8 * size - 1))) - 1


def present_branch(union: Union) -> tuple[int, Node]:
    """Of a type with null and one other: the other one, and its place."""
    place = 1 if union.branches[0] == NULL else 0
    return place, union.branches[place]


def longest_text(node: Primitive) -> int | None:
    """The characters that a text of CHAR or VARCHAR may have at the most."""
    if node.type != "string" or node.narrow is None or node.narrow.startswith(COLLATED):
        return None
    return int(node.narrow.partition("(")[2].rstrip(")"))


def primitive_type(node: Primitive) -> Any:
    """The Arrow type of a single value that is no decimal."""
    narrow = _arrow_types()["narrow"].get(node.narrow or "")
    if narrow is not None:
        return narrow
    return _arrow_types()["logical"][node.logical] if node.logical else _plain(node.type)


def _plain(name: str) -> Any:
    return _arrow_types()["plain"][name]


@cache
def _arrow_types() -> dict[str, dict[str, Any]]:
    import pyarrow as pa

    return {
        "narrow": {"tinyint": pa.int8(), "smallint": pa.int16()},
        "logical": {
            "date": pa.date32(),
            "time-micros": pa.time64("us"),
            "timestamp-millis": pa.timestamp("us", "UTC"),
            "timestamp-micros": pa.timestamp("us", "UTC"),
            "local-timestamp-millis": pa.timestamp("us"),
            "local-timestamp-micros": pa.timestamp("us"),
            "day-time-interval": pa.duration("us"),
            "year-month-interval": pa.int32(),
        },
        "plain": {
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "long": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "bytes": pa.binary(),
            "string": pa.string(),
            "null": pa.null(),
        },
    }


def arrow_type(node: Node) -> Any:  # noqa: PLR0911  # one a kind
    """The Arrow type of values of a type, as they are in state tables and in rewrites."""
    import pyarrow as pa

    node = without_none(node)
    match node:
        case Union():
            # A processor's columns have no other choice than that of two sizes of a number.
            return {"int long": pa.int64(), "double float": pa.float64()}[
                " ".join(sorted(map(type_name, node.branches)))
            ]
        case Record():
            return pa.struct(
                [pa.field(f.name, arrow_type(f.type), accepts_none(f.type)) for f in node.fields]
            )
        case Array():
            return pa.list_(pa.field("element", arrow_type(node.items), accepts_none(node.items)))
        case Map():
            value = pa.field("value", arrow_type(node.values), accepts_none(node.values))
            return pa.map_(arrow_type(node.keys), value)
        case Primitive(decimals=Decimals() as digits) | Fixed(decimals=Decimals() as digits):
            wide = digits.precision > _WIDEST_DECIMAL
            return (pa.decimal256 if wide else pa.decimal128)(digits.precision, digits.scale)
        case Enum():
            return pa.string()
        case Fixed():
            return pa.binary()
        case Primitive():
            return primitive_type(node)
    raise AssertionError(node)
