"""Values made up from a schema: ordinary ones, and those at the edges of each type.

Always the same for the same schema, the ordinary one first.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from statemigrate.errors import ValueMismatchError
from statemigrate.formats.schema import (
    INTEGER_RANGES,
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
    without_none,
)

if TYPE_CHECKING:
    from statemigrate.formats.format import Format, Value


MOST = 200
"""No more values than this are made up of one schema."""
_INSIDE = 12
_DIGITS = re.compile(r"\d+")
_TEXTS = ("text", "", "größer 値 \U0001f600", "0", "-1.5", " 'quoted\" \n", "x" * 300)
_INFINITY = float("inf")
_LEAVES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "float": (1.5, 0.0, -(2.0**127), 2.0**-126, _INFINITY, -_INFINITY, float("nan")),
    "double": (1.5, 0.0, -1.7e308, 5e-324, _INFINITY, -_INFINITY, float("nan")),
    "bytes": (b"bytes", b"", b"\xff\x00"),
    "date": (date(2024, 2, 29), date(1970, 1, 1), date.min, date.max),
    "year-month-interval": (14, 0, -1, *INTEGER_RANGES["int"]),
    "day-time-interval": (
        *(timedelta(days=1, microseconds=1), timedelta(0)),
        *(edge * timedelta(microseconds=1) for edge in INTEGER_RANGES["long"]),
    ),
}


def made_up_values(fmt: Format, most: int = MOST) -> list[Value]:
    """Return up to ``most`` different values that a format holds.

    After an ordinary value: the same with one field at a time at each of its edges, fields at
    their edges together, and all that may be None being so.
    """
    found: dict[bytes, Value] = {}
    for value in samples(fmt.schema, most):
        try:
            found.setdefault(*fmt.encode_conformed(value))
        except ValueMismatchError:
            # A type may hold less than its kind: what it does not hold is no value to try.
            continue
    return list(found.values())


def samples(node: Node, most: int = MOST) -> list[Any]:
    """Return about ``most`` values of a type, None last where it may be."""
    inner = without_none(node)
    found = _of_one_type(inner, max(1, most - 1)) if inner != Primitive("null") else []
    return [*found, None] if accepts_none(node) and (most > 1 or not found) else found


def _of_one_type(node: Node, most: int) -> list[Any]:
    match node:
        case Record():
            return _spread(_records(node, _fewer(most)), most)
        case Array():
            return _spread(_arrays(samples(node.items, _fewer(most))), most)
        case Map():
            return _spread(_maps(node, _fewer(most)), most)
        case Union(branches=branches):
            columns = [samples(branch, _fewer(most)) for branch in branches]
            return _spread([v for row in zip(*columns, strict=False) for v in row], most)
    return list(_leaves(node)) if most > 1 else list(_leaves(node)[:1])


def _fewer(most: int) -> int:
    # The deeper a type, the fewer are made up, so that values stay small.
    return min(_INSIDE, max(1, most // 2))


def _records(record: Record, most: int) -> list[Any]:
    columns = {field.name: samples(field.type, most) or [None] for field in record.fields}
    ordinary = {name: column[0] for name, column in columns.items()}
    singly = [{**ordinary, name: value} for name, column in columns.items() for value in column[1:]]
    return [ordinary, *_rows_with_edges(columns), *singly]


def _rows_with_edges(columns: dict[str, list[Any]]) -> list[Any]:
    empty = {name: column[-1] for name, column in columns.items()}
    rows = zip_longest(*columns.values())
    edges = [
        {n: c[0] if v is None else v for (n, c), v in zip(columns.items(), row, strict=True)}
        for row in rows
    ]
    return [empty, *edges[1:]]


def _arrays(items: list[Any]) -> list[Any]:
    return [items[:1], [], items, items[-1:]]


def _maps(node: Map, most: int) -> list[Any]:
    """Maps with an ordinary entry, none, one entry for each value, and values at odd keys."""
    values = samples(node.values, most)
    keys = [] if isinstance(node.keys, Record | Array | Map) else samples(node.keys)
    ordinary = [dict(zip(keys[:1], values[:1], strict=False))]
    numbered = dict(zip(keys, values, strict=False))
    odd = {key: value for key in keys[1:3] for value in values[-1:]}
    return [*ordinary, {}, numbered, odd]


def _spread(values: list[Any], most: int) -> list[Any]:
    """Return the first value and others evenly spread, ``most`` of them in all."""
    if len(values) <= most:
        return values
    return [values[place * len(values) // most] for place in range(most)]


def _leaves(node: Node) -> tuple[Any, ...]:  # noqa: PLR0911  # one a kind of node
    match node:
        case Primitive(decimals=Decimals() as d) | Fixed(decimals=Decimals() as d):
            return _decimals(d)
        case Fixed(size=size):
            return (bytes(range(size % 256)).ljust(size, b"f"), bytes(size), b"\xff" * size)
        case Enum(symbols=symbols):
            return symbols
        case Primitive(type="string"):
            longest = _number(node.narrow, 300)
            return tuple(dict.fromkeys(text[:longest] for text in _TEXTS))
        case Primitive(logical=str(logical)) if logical not in _LEAVES:
            return _times(logical, _number(node.narrow, 6))
        case Primitive() if node.logical is None and node.type in ("int", "long"):
            low, high = INTEGER_RANGES[node.narrow or node.type]
            return (7, 0, -1, low, high)
        case Primitive():
            return _LEAVES.get(node.logical or node.type, ())
    return ()


def _number(narrow: str | None, otherwise: int) -> int:
    found = _DIGITS.search(narrow or "")
    return int(found[0]) if found else otherwise


def _decimals(d: Decimals) -> tuple[Any, ...]:
    highest = 10**d.precision - 1
    numbers = (highest // 3, 0, 1, -highest, highest)
    # Not by arithmetic: that rounds to the 28 digits of Python's context.
    return tuple(Decimal(f"{number}E-{d.scale}") for number in numbers)


def _times(logical: str, digits: int) -> tuple[Any, ...]:
    if logical == "time-micros":
        last = time.max.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
        return (time(12, 30), time(), time.max.replace(microsecond=last))
    zone = None if logical.startswith("local") else UTC
    last = datetime.max.replace(microsecond=999_000 if logical.endswith("millis") else 999_999)
    moments = (datetime(2024, 2, 29, 12, 30), datetime(1970, 1, 1), datetime.min, last)
    return tuple(moment.replace(tzinfo=zone) for moment in moments)
