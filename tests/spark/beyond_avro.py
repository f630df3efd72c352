"""A processor with state of types that Avro has not, given in the many forms PySpark takes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import VariantVal

VALUE = """
    `a b` MAP<INT, STRING>, `1st` INTERVAL DAY TO SECOND, payload VARIANT,
    name STRING COLLATE UNICODE_CI, `d.o.t` DECIMAL(18,2), day DATE, at TIMESTAMP,
    by_day MAP<DATE, ARRAY<MAP<INT, TIMESTAMP>>>, pairs MAP<STRUCT<x: INT, y: STRING>, INT>
"""
ENTRY = "n BIGINT, took INTERVAL HOUR TO SECOND"
KEYS = {
    "intervals": ("k INTERVAL DAY TO SECOND", [(dt.timedelta(1),), (pd.Timedelta(2, "s"),)]),
    "pairs": ("k STRUCT<x: INT, y: STRING>, f FLOAT", [((1, "a"), 0.1), (Row(x=1, y="b"), -0.0)]),
    "lists": ("k ARRAY<INTERVAL DAY>", [([dt.timedelta(1), None],), ([],)]),
}
STORES = {"value": VALUE, "many": VALUE, **dict.fromkeys(KEYS, ENTRY)}


def value(n: int) -> tuple[Any, ...]:
    """A value in the many forms that PySpark takes."""
    at = (
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
        if n % 2
        else pd.Timestamp(2024, 1, n % 28 + 1)
    )
    return (
        {np.int64(n): np.str_("x"), -1: None}, pd.Timedelta(n, "s"),
        VariantVal(bytes([12, n]), b"\x01\x00\x00"), f"Name {n}", Decimal(10 * n) / 3,
        dt.datetime(2024, 1, 1, 12), at, {dt.date(2024, 1, 1): [{n: at}, None]},
        {(n, "y"): np.int32(n)},
    )  # fmt: skip


class Beyond(StatefulProcessor):
    """Prints what it finds, then writes all of it anew."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", VALUE)
        self.many = handle.getListState("many", VALUE)
        self.maps = {name: handle.getMapState(name, key, ENTRY) for name, (key, _) in KEYS.items()}

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        n = max(row.n for row in rows)
        yield Row(key=key[0], seen=self._seen())
        self.value.update(value(n))
        self.many.appendList([value(n), value(n + 1)])
        for name, (_, keys) in KEYS.items():
            for number, user_key in enumerate(keys):
                self.maps[name].updateValue(user_key, (number, dt.timedelta(seconds=n)))

    def _seen(self) -> str:
        maps = {name: sorted(map(str, self._entries(name))) for name in KEYS}
        return str((text(self.value.get()), [text(each) for each in self.many.get()], maps))

    def _entries(self, name: str) -> Any:
        return [(key, tuple(held)) for key, held in self.maps[name].iterator()]

    def close(self) -> None:
        pass


def text(row: Any) -> str:
    """A row's values as text: VARIANT has no equality, and bytes come in two classes."""
    if row is None:
        return "nothing"
    parts = [(bytes(p.value), bytes(p.metadata)) if isinstance(p, VariantVal) else p for p in row]
    return repr([sorted(p.items(), key=repr) if isinstance(p, dict) else p for p in parts])
