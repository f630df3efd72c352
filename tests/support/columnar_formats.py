"""Formats that have a form in columns, nobody chose which, with values for them."""

from __future__ import annotations

from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from statemigrate.formats import Avro, Format, Struct, Value

_NAMES = ["a", "b", "c", "d", "e"]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
_64_BITS = st.integers(-(2**63), 2**63 - 1)
_LOCAL = st.datetimes()
_MOMENTS = st.datetimes(timezones=st.just(UTC))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    highest = 10**precision - 1
    every = st.integers(-highest, highest) | st.sampled_from([highest, -highest, 0, 127, 128, -128])
    return every.filter(lambda n: abs(n) <= highest).map(lambda n: Decimal(f"{n}E-{scale}"))


_SPARK: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": _64_BITS | st.integers(0, 300) | st.integers(50, 63).map(lambda n: (1 << n) - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": _TEXT | st.integers(60, 200).map(lambda n: "ü" * n),
    "STRING COLLATE UTF8_LCASE": _TEXT,
    "VARCHAR(9)": _TEXT,
    "BINARY": st.binary(max_size=9),
    "DATE": st.dates(),
    "TIMESTAMP": _MOMENTS,
    "TIMESTAMP_NTZ": _LOCAL,
    "INTERVAL DAY TO SECOND": st.timedeltas(
        timedelta(microseconds=-(2**63)), timedelta(microseconds=2**63 - 1)
    ),
    "INTERVAL YEAR TO MONTH": st.integers(-(2**31), 2**31 - 1),
    "DECIMAL(5,2)": _decimals(5, 2),
    "DECIMAL(18,18)": _decimals(18, 18),
    "DECIMAL(19,0)": _decimals(19, 0),
    "DECIMAL(38,10)": _decimals(38, 10),
}
_AVRO: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("long", _64_BITS),
    ("bytes", st.binary(max_size=9)),
    ({"type": "long", "logicalType": "time-micros"}, st.times().map(lambda t: t.replace(fold=0))),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        _MOMENTS.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        _LOCAL.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 3},
        _decimals(18, 3),
    ),
]


@st.composite
def _types(draw: st.DrawFn, depth: int, lists: bool) -> tuple[str, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf"] * 4 + ["struct", *["list", "map"] * lists] * (depth > 0)))
    if kind == "leaf":
        return draw(st.sampled_from(sorted(_SPARK.items(), key=lambda pair: pair[0])))
    if kind == "struct":
        inner, held = draw(_structs(depth - 1, lists))
        return f"STRUCT<{inner}>", held
    inner, held = draw(_types(depth - 1, lists))
    # In Spark's DDL what is in a list or a map may be null.
    several = st.none() | held
    if kind == "list":
        return f"ARRAY<{inner}>", st.lists(several, max_size=4) | st.lists(held, max_size=16)
    return f"MAP<STRING, {inner}>", st.dictionaries(_TEXT, several, max_size=5)


@st.composite
def _structs(draw: st.DrawFn, depth: int, lists: bool) -> tuple[str, st.SearchStrategy[Value]]:
    texts, values = [], {}
    for name in draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=5, unique=True)):
        text, held = draw(_types(depth, lists))
        is_full = draw(st.booleans())
        texts.append(f"{name}: {text}{' NOT NULL' * is_full}")
        values[name] = held if is_full else st.none() | held
    return ", ".join(texts), st.fixed_dictionaries(values)


_SYMBOLS = ["A", "B", "C"]
_AVRO_LISTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "enum", "name": "e{}", "symbols": _SYMBOLS}, st.sampled_from(_SYMBOLS)),
    ({"type": "fixed", "name": "f{}", "size": 5}, st.binary(min_size=5, max_size=5)),
    ({"type": "array", "items": "long"}, st.lists(_64_BITS, max_size=16)),
    ({"type": "map", "values": "string"}, st.dictionaries(_TEXT, _TEXT, max_size=5)),
]


@st.composite
def _records(draw: st.DrawFn, lists: bool) -> tuple[Any, st.SearchStrategy[Value]]:
    fields, values = [], {}
    for name in draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True)):
        kind, held = draw(st.sampled_from(_AVRO + _AVRO_LISTS * lists))
        if isinstance(kind, dict) and "name" in kind:
            kind = kind | {"name": kind["name"].format(name)}
        if draw(st.booleans()):
            kind, held = draw(st.permutations([kind, "null"])), st.none() | held
        fields.append({"name": name, "type": list(kind) if isinstance(kind, tuple) else kind})
        values[name] = held
    return {"type": "record", "name": "r", "fields": fields}, st.fixed_dictionaries(values)


@st.composite
def columnar_values(draw: st.DrawFn, *, lists: bool = False) -> tuple[Format, list[Value]]:
    """A format of either kind, and some of its values; with ``lists`` and maps, or without."""
    fmt: Format
    if draw(st.integers(0, 3)):
        ddl, values = draw(_structs(2, lists))
        fmt = Struct(f"struct<{ddl}>")
    else:
        document, values = draw(_records(lists))
        fmt = Avro(document)
    return fmt, draw(st.lists(values, min_size=1, max_size=5))


def shown(values: list[Any]) -> str:
    """Texts, since a NaN equals nothing; Arrow has another name for UTC."""
    return repr(values).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")
