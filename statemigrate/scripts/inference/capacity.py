"""Whether a type holds every value of another type of the same kind of Python value."""

from __future__ import annotations

import re
from math import inf

from statemigrate.formats.schema import INTEGER_RANGES, Decimals, Enum, Fixed, Node, Primitive

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
