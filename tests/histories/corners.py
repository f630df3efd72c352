"""Corner cases of every type: what values, grouping keys and the keys of maps are drawn from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_BIG = Decimal("99999999999999999999.999999999999999999")
_LONG = "é🦊" * 200
MOMENTS = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1582, 10, 15),
    dt.datetime(2024, 2, 29, 12, 0, 0, 1),
    dt.datetime(2025, 11, 2, 5, 30),
    dt.datetime(9999, 12, 30, 23, 59, 59, 999999),
]
DAYS = [dt.date(1, 1, 2), dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
WORDS = ["", "a", "b\x00", " ", "null", "é", "e\u0301", "🦊", _LONG, '{"a": 1}', "a\tb\nc\r"]
LONGS = [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [0.0, 0.1, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf")]
BYTES = [b"", b"\x00", b"\xff\x00\x80", b"abc", bytes(range(256)) * 3]
NAN = float("nan")

VALUES: Mapping[str, list[Any]] = {
    "STRING": [*WORDS, None],
    "BIGINT": [*LONGS, None],
    "INT": [0, -1, 2**31 - 1, -(2**31), None],
    "SMALLINT": [0, -1, 2**15 - 1, -(2**15), None],
    "TINYINT": [0, -1, 127, -128, None],
    "BOOLEAN": [True, False, None],
    "DOUBLE": [*DOUBLES, -0.0, NAN, None],
    "FLOAT": [0.0, -0.0, 0.5, -1.5, float("inf"), float("-inf"), NAN, None],
    "DECIMAL(18,2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999999999.99"), None],
    "DECIMAL(38,18)": [_BIG, _BIG.copy_negate(), Decimal("0.000000000000000001"), None],
    "DECIMAL(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), None],
    "DATE": [*DAYS, None],
    "TIMESTAMP": [*MOMENTS, None],
    "TIMESTAMP_NTZ": [*MOMENTS, dt.datetime(1, 1, 2), None],
    "BINARY": [*BYTES, None],
    "ARRAY<STRING>": [[], [""], [None], ["a", None, "b\x00"], ["x"] * 300, None],
    "ARRAY<ARRAY<BIGINT>>": [[], [[]], [[1, None], None, [-(2**63)]], None],
    "MAP<STRING, DOUBLE>": [{}, {"": None}, {"a": NAN, "b": -0.0, "é": 1e308}, None],
    "STRUCT<a: TIMESTAMP, b: DECIMAL(12,3)>": [
        (MOMENTS[1], Decimal("-1.125")),
        (None, None),
        None,
    ],
    "ARRAY<STRUCT<d: DATE, raw: BINARY>>": [[], [(DAYS[0], b"\x00"), None, (None, None)], None],
}
"""Values of a store by the type of their one field; each is what Spark's own state gives back."""

EXOTIC: Mapping[str, list[Any]] = {
    "MAP<STRING, ARRAY<INT>>": [{}, {"a": [1, None], "b": None}, None],
    "ARRAY<MAP<STRING, DATE>>": [[], [{}, None], [{"": None, "b": DAYS[0]}], None],
}
"""Nested types. Spark itself keeps none in state that Avro cannot hold, such as intervals."""

KEYS: Mapping[str, tuple[str, list[tuple[Any, ...]]]] = {
    "string": ("key STRING", [(each,) for each in WORDS[:-1]] + [(None,)]),
    "bigint": ("key BIGINT", [(each,) for each in LONGS] + [(None,)]),
    "int": ("key INT", [(each,) for each in VALUES["INT"]]),
    "date": ("key DATE", [(each,) for each in DAYS] + [(None,)]),
    "timestamp": ("key TIMESTAMP", [(each,) for each in MOMENTS] + [(None,)]),
    "double": ("key DOUBLE", [(each,) for each in DOUBLES] + [(NAN,), (None,)]),
    "decimal": ("key DECIMAL(38,18)", [(each,) for each in VALUES["DECIMAL(38,18)"]]),
    "binary": ("key BINARY", [(each,) for each in BYTES] + [(None,)]),
    "boolean": ("key BOOLEAN", [(True,), (False,), (None,)]),
    "two": (
        "key STRING, part INT",
        [("a", 1), ("a", None), (None, 1), (None, None), ("", 0), ("b\x00", -1)],
    ),
}
"""The grouping columns by name, and keys that are all different to Spark."""

USER_KEYS: Mapping[str, tuple[str, list[tuple[Any, ...]]]] = {
    "string": ("u STRING", [(each,) for each in WORDS[:7]]),
    "bigint": ("u BIGINT", [(each,) for each in LONGS]),
    "date": ("u DATE", [(each,) for each in DAYS]),
    "two": ("u STRING, w INT", [("a", 1), ("a", None), ("", 0), (None, 2)]),
}
"""The keys of map state."""

EXOTIC_USER_KEYS: Mapping[str, tuple[str, list[tuple[Any, ...]]]] = {
    "timestamp": ("u TIMESTAMP", [(each,) for each in MOMENTS]),
    "double": ("u DOUBLE", [(each,) for each in DOUBLES[:5]]),
}


def values_of(data_type: str) -> list[Any]:
    """The corner cases of a value's type."""
    return {**VALUES, **EXOTIC}[data_type]


def user_keys_of(name: str) -> tuple[str, list[tuple[Any, ...]]]:
    """The columns of a map's own key, and its corner cases."""
    return {**USER_KEYS, **EXOTIC_USER_KEYS}[name]


def shown(value: Any) -> str:
    """A value as text that is the same for all forms Python has of it on its way through Spark."""
    if value is None or isinstance(value, bool | str | Decimal | dt.date | dt.timedelta):
        return str(value.replace(tzinfo=None)) if isinstance(value, dt.datetime) else repr(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex() + "h"
    if isinstance(value, dict):
        pairs = sorted(f"{shown(key)}: {shown(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(shown, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return repr(value.item() if hasattr(value, "item") else value)
