"""What kind of Python value a type holds, and whether another type has a place for all of them."""

from __future__ import annotations

import re
from math import inf

from statemigrate.formats.schema.fingerprint import layout
from statemigrate.formats.schema.nodes import (
    INTEGER_RANGES,
    Decimals,
    Enum,
    Fixed,
    Node,
    Primitive,
    Union,
)

_NUMBER = re.compile(r"\((\d+)\)")
_MANTISSAS = {"float": 24, "double": 53}
_KINDS = {
    "int": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "string": "text",
    "bytes": "bytes",
    "boolean": "boolean",
    "date": "date",
    "time-micros": "time",
    "timestamp-millis": "instant",
    "timestamp-micros": "instant",
    "local-timestamp-millis": "local",
    "local-timestamp-micros": "local",
}


_AS_TEXT = ("integer", "float", "decimal", "boolean", "date", "time", "instant", "local")
CONVERTIBLE = frozenset(
    {
        *(("integer", kind) for kind in ("float", "decimal", "boolean")),
        *(("float", kind) for kind in ("integer", "decimal", "boolean")),
        *(("decimal", kind) for kind in ("integer", "float")),
        *(("boolean", kind) for kind in ("integer", "float")),
        *(("text", kind) for kind in ("integer", "float", "decimal", "date", "time")),
        *(("text", kind) for kind in ("instant", "local", "bytes")),
        ("bytes", "text"),
        *(("date", kind) for kind in ("local", "instant")),
        *(("instant", kind) for kind in ("date", "local")),
        *(("local", kind) for kind in ("date", "instant")),
        *((kind, "text") for kind in _AS_TEXT),
    }
)
"""The pairs of different kinds between which there is an obvious way."""


def is_convertible(old: Node, new: Node) -> bool:
    """Whether there is an obvious way between two types without None, neither a container."""
    if layout(old) == layout(new):
        return True
    if isinstance(old, Union) or isinstance(new, Union):
        return any(each in _layouts(new) for each in _layouts(old))
    kinds = kind_of(old), kind_of(new)
    if kinds[0] == kinds[1] != "":
        return not (isinstance(old, Fixed) and isinstance(new, Fixed) and kinds[0] == "bytes")
    return kinds in CONVERTIBLE


def _layouts(node: Node) -> list[object]:
    return [layout(each) for each in (node.branches if isinstance(node, Union) else (node,))]


def kind_of(node: Node) -> str:
    """Return the kind of Python value that a single type holds."""
    match node:
        case Primitive(decimals=Decimals()) | Fixed(decimals=Decimals()):
            return "decimal"
        case Enum():
            return "text"
        case Fixed():
            return "bytes"
        case Primitive():
            return _KINDS.get(node.logical or node.type, "")
    return ""


def holds_all(new: Node, old: Node) -> bool:
    """Say whether ``new`` holds every value of ``old``, both of one kind."""
    match old, new:
        case Enum(), Enum():
            return set(old.symbols) <= set(new.symbols)
        case Primitive(), Enum():
            return False
        case Fixed(decimals=None), Fixed(decimals=None):
            return old.size == new.size
        case Primitive(), Fixed(decimals=None):
            return False
    kind = kind_of(old)
    if kind == "decimal":
        return _digits(new)[0] >= _digits(old)[0] and _digits(new)[1] >= _digits(old)[1]
    return _size(new, kind) >= _size(old, kind)


def holds_integers(new: Node, old: Node) -> bool:
    """Say whether a float or decimal type holds every number of an integer type exactly."""
    assert isinstance(old, Primitive)  # noqa: S101  # the only integer types
    highest: int = INTEGER_RANGES[old.narrow or old.type][1]
    if isinstance(new, Primitive) and new.type in _MANTISSAS:
        return highest.bit_length() <= _MANTISSAS[new.type]
    return len(str(highest)) <= _digits(new)[0]


def _digits(node: Node) -> tuple[int, int]:
    decimals = node.decimals if isinstance(node, Primitive | Fixed) else None
    assert decimals is not None  # noqa: S101  # asked for decimals only
    return decimals.precision - decimals.scale, decimals.scale


def _size(node: Node, kind: str) -> float:
    if isinstance(node, Enum):
        return max(map(len, node.symbols))
    if not isinstance(node, Primitive):
        return 0
    if kind == "integer":
        return INTEGER_RANGES[node.narrow or node.type][1]
    if kind in ("instant", "local"):
        return (node.logical or "").endswith("micros")
    if kind == "float":
        return _MANTISSAS[node.type]
    found = _NUMBER.search(node.narrow or "")
    return int(found[1]) if found else inf
