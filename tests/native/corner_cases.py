"""A processor that puts the corner cases of every type into state, in the forms PySpark takes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

VALUE = """
    name STRING COLLATE UNICODE_CI, amount DECIMAL(18,2), day DATE, at TIMESTAMP,
    wall TIMESTAMP_NTZ, share FLOAT, ratio DOUBLE, n BIGINT, small TINYINT, ok BOOLEAN,
    label STRING, raw BINARY, point STRUCT<x: INT, y: DATE>, amounts ARRAY<DECIMAL(5,1)>,
    by_name MAP<STRING, STRUCT<at: TIMESTAMP>>
"""
ENTRY = "n BIGINT, amount DECIMAL(9,2)"
END = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
FIRST = dt.date(1, 1, 1)
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))


@dataclass
class Point:
    x: Any
    y: Any = None


VALUES = [
    (
        "Name", Decimal(10) / 3, dt.datetime(2024, 2, 29, 23), END, END, np.float32(0.1),
        np.float64(0.1), np.int64(2**62), np.int8(-128), np.bool_(True), np.str_("é"), "text",
        {"x": np.int32(1)}, [Decimal("0.25"), Decimal("-0.25"), None], {np.str_("a"): (END,)},
    ),
    (
        "", Decimal("-0.005"), pd.Timestamp(2024, 1, 1, 12),
        pd.Timestamp(2024, 1, 1, tz="Asia/Tokyo"), dt.datetime(2024, 1, 1, tzinfo=EAST),
        float("nan"), -0.0, -(2**63), 127, None, 5,
        bytearray(b"\x00"), Point(2, dt.datetime(1, 1, 1)), (), {},
    ),
    (
        None, Decimal("1E+3"), np.datetime64("2024-01-01"), np.datetime64("2024-01-01T12:00:00.5"),
        pd.Timestamp(2024, 1, 1, tz="UTC"), float("-inf"), 5e-324, None, None, False, 1e-7, None,
        None, None, {1: None},
    ),
    (
        "x", None, dt.date(9999, 12, 31), dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(1, 1, 1), None, None, 0, 0, True, True, b"", (None, dt.date(1, 1, 1)), [],
        {"a": Row(at=dt.datetime(1900, 1, 1))},
    ),
]  # fmt: skip
KEYS = {
    "doubles": ("k DOUBLE", [(0.0,), (-0.0,), (float("nan"),), (np.float64(2.5),), (5e-324,)]),
    "floats": ("k FLOAT", [(0.1,), (np.float32(0.1),), (float("-inf"),), (-0.0,), (0.0,)]),
    "structs": ("k STRUCT<x: INT, y: STRING>", [((1, "a"),), ((None, "b"),), (Row(x=1, y="a"),)]),
    "arrays": ("k ARRAY<INT>", [([1, None],), ([],), ((1, 2),)]),
    "moments": ("k TIMESTAMP, n INT", [(END, 1), (pd.Timestamp(2024, 1, 1), np.int64(2))]),
    "days": (
        "k DATE",
        [(dt.datetime(2024, 1, 1, 5),), (dt.date(2024, 1, 1),), (dt.date(1, 1, 1),)],
    ),
    "amounts": ("k DECIMAL(9,2)", [(Decimal("1.0"),), (Decimal("1.00"),), (Decimal(10) / 3,)]),
    "names": (
        "k STRING, b BINARY",
        [("a", b""), (np.str_("a"), b""), ("a\x00", b"\x00"), (5, "5")],
    ),
}
STORES = {"value": VALUE, "many": VALUE, **dict.fromkeys(KEYS, ENTRY)}


class CornerCases(StatefulProcessor):
    """Prints what it finds, then writes all of it anew."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", VALUE)
        self.many = handle.getListState("many", VALUE)
        self.maps = {name: handle.getMapState(name, key, ENTRY) for name, (key, _) in KEYS.items()}
        self.plain = handle.getValueState("plain", "name STRING COLLATE UNICODE_CI, at TIMESTAMP")

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        n = max(row.n for row in rows)
        yield Row(key=key[0], n=n, seen=self._seen())
        self.value.update(VALUES[n % len(VALUES)])
        self.many.appendList(VALUES)
        for name, (_, keys) in KEYS.items():
            for number, user_key in enumerate(keys):
                self.maps[name].updateValue(user_key, (np.int64(n + number), Decimal(number) / 3))
        self.plain.update((f"plain {n}", END))

    def _seen(self) -> str:
        maps = {name: self._entries(name) for name in KEYS}
        seen = [self.value.get(), list(self.many.get()), maps, self.plain.get()]
        return repr(shown(seen))

    def _entries(self, name: str) -> Any:
        held, keys = self.maps[name], KEYS[name][1]
        found = [held.getValue(key) and tuple(held.getValue(key)) for key in keys]
        listed = sorted(repr((shown(key), tuple(row))) for key, row in held.iterator())
        return [found, listed, [held.containsKey(key) for key in keys]]

    def close(self) -> None:
        pass


def shown(value: Any) -> Any:
    """A value with bytes of one class, and dictionaries and tuples by their contents."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return sorted(((shown(key), shown(item)) for key, item in value.items()), key=repr)
    if isinstance(value, list):
        return [shown(item) for item in value]
    return tuple(map(shown, value)) if isinstance(value, tuple) else value
