"""Struct types that nobody chose, with values for them, and values that are none of theirs."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections import OrderedDict
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from statemigrate.formats.timestamps import BEYOND_UTC

Pair = tuple[str, st.SearchStrategy[Any]]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_BITS_OF_FLOATS = st.binary(min_size=8, max_size=8).map(lambda b: struct.unpack("<d", b)[0])
_VARIANTS = st.fixed_dictionaries(
    {"value": st.binary(max_size=6), "metadata": st.binary(max_size=6)}
)
_GREATEST_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_FARTHEST = dt.timedelta(microseconds=2**63 - 1)


def _integers(bits: int) -> st.SearchStrategy[int]:
    edge = 2 ** (bits - 1)
    return st.integers(-edge, edge - 1) | st.sampled_from([-edge, edge - 1, 0, -1, 63, 64, -65])


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(f"{n}E-{scale}"))


LEAVES: list[Pair] = [
    ("BOOLEAN", st.booleans()),
    ("TINYINT", _integers(8)),
    ("SMALLINT", _integers(16)),
    ("INT", _integers(32)),
    ("BIGINT", _integers(64)),
    ("FLOAT", st.floats(width=32)),
    ("DOUBLE", st.floats() | _BITS_OF_FLOATS),
    ("STRING", _TEXT),
    ("STRING COLLATE UNICODE_CI", _TEXT),
    ("VARCHAR(3)", _TEXT.map(lambda t: t[:3])),
    ("CHAR(4)", _TEXT.map(lambda t: t[:4])),
    ("BINARY", st.binary(max_size=8)),
    ("DATE", st.dates()),
    ("TIMESTAMP", st.datetimes(timezones=st.just(dt.UTC))),
    ("TIMESTAMP_NTZ", st.datetimes()),
    ("INTERVAL DAY TO SECOND", st.timedeltas(-_FARTHEST, _FARTHEST)),
    ("INTERVAL YEAR TO MONTH", _integers(32)),
    ("VARIANT", _VARIANTS),
    ("DECIMAL(1,0)", _decimals(1, 0)),
    ("DECIMAL(9,9)", _decimals(9, 9)),
    ("DECIMAL(12,2)", _decimals(12, 2)),
    ("DECIMAL(38,18)", _decimals(38, 18)),
    ("DECIMAL(38,0)", _decimals(38, 0)),
]
_KEYS = [pair for pair in LEAVES if pair[0] not in ("VARIANT", "STRING COLLATE UNICODE_CI")]


@st.composite
def types(draw: st.DrawFn, depth: int) -> Pair:
    """A type in Spark's words, and its values."""
    kind = draw(st.sampled_from(["leaf"] * 4 + ["array", "map", "struct", "struct"] * bool(depth)))
    if kind == "array":
        ddl, values = draw(types(depth - 1))
        return f"ARRAY<{ddl}>", st.lists(st.none() | values, max_size=3)
    if kind == "map":
        key, keys = draw(st.sampled_from(_KEYS))
        if draw(st.integers(0, 4)) == 0:
            key, keys = f"STRUCT<x: {key}, y: ARRAY<INT>>", st.tuples(keys, st.just((1, None)))
        ddl, values = draw(types(depth - 1))
        return f"MAP<{key}, {ddl}>", st.dictionaries(keys, st.none() | values, max_size=3)
    if kind == "struct":
        fields, values = draw(structs(depth - 1))
        return f"STRUCT<{fields}>", values
    return draw(st.sampled_from(LEAVES))


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> Pair:
    """The fields of a struct in Spark's words, and its values as dictionaries."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    found, parts = {}, []
    for name in names:
        ddl, values = draw(types(depth))
        needed = draw(st.booleans())
        parts.append(f"{name} {ddl}{' NOT NULL' if needed else ''}")
        found[name] = values if needed else st.none() | values
    return ", ".join(parts), st.fixed_dictionaries(found)


class Text(str):
    """A string that is not of the exact type."""

    __slots__ = ()


class Whole(int):
    """A number that is not of the exact type."""


ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**7, 2**15, 2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**40,
    Whole(5), 1.5, -0.0, 1e39, float("inf"), float("-inf"), float("nan"), 3.5e38, 0.1, 2.0**24 + 1,
    _GREATEST_FLOAT, -_GREATEST_FLOAT, math.nextafter(_GREATEST_FLOAT, math.inf),
    "", "x", "long enough to be too long", "\ud800", "\x00", Text("x"), b"x", b"\xff" * 20,
    bytearray(b"x"), memoryview(b"x"), [], [None], [1, "x"], (), (1,), ("x", 1), {}, {"a": 1},
    {1: 2}, {"a": None, "b": None}, OrderedDict(a=1), Decimal(0), Decimal("-0.00"), Decimal("0E+2"),
    Decimal("0E-9"), Decimal("0E-40"), Decimal("1.5"), Decimal("1.500"), Decimal("10.00000"),
    Decimal("1E+1"), Decimal("1E+999999"), Decimal("1E-999999"), Decimal("9" * 38),
    Decimal("9" * 39), Decimal("0." + "9" * 9), Decimal("NaN"), Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("-12345678901234567890.123456789012345678"), Decimal("1" + "0" * 60 + "E-60"),
    dt.date(1, 1, 1), dt.date.max, dt.datetime.min, dt.datetime.max,
    dt.datetime(2024, 2, 29, fold=1), dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(0))),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))),
    dt.datetime(9999, 12, 31, 23, tzinfo=BEYOND_UTC[1]),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.timezone(-dt.timedelta(hours=5))),
    dt.time(1, 2, 3), dt.time(1, 2, 3, 4), dt.time(1, fold=1), dt.time(1, tzinfo=dt.UTC),
    dt.timedelta(0), dt.timedelta.max, dt.timedelta.min, _FARTHEST, -_FARTHEST,
    -_FARTHEST - dt.timedelta(microseconds=1), _FARTHEST + dt.timedelta(microseconds=1), object,
]  # fmt: skip
"""Values at the edges of their types, and of other types than are expected."""


def exact(value: Any) -> Any:
    """A value with the exact type of each of its parts, and each bit of its floats."""
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    if isinstance(value, dict):
        return type(value), [(exact(key), exact(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        names = getattr(value, "__fields__", None)
        return type(value), names, [exact(each) for each in value]
    if isinstance(value, dt.datetime | dt.time):
        return type(value), repr(value), value.tzinfo is dt.UTC
    return type(value), repr(value)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every value within a value."""
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [path, *(way for key, each in items for way in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy with another value at the end of a way."""
    if not path:
        return other
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], other)
    return changed
