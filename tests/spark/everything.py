"""A processor that uses every kind of state and prints what it sees, types included."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

ROWS = """
    name STRING, number INT, op STRING, at TIMESTAMP, day DATE, price DECIMAL(12,3), raw BINARY,
    tags ARRAY<STRING>, attributes MAP<STRING, STRUCT<x: INT, at: TIMESTAMP>>
"""
OUTPUT = """
    name STRING, number INT, seen STRING, last STRUCT<at: TIMESTAMP, price: DECIMAL(12,3)>,
    history ARRAY<STRUCT<at: TIMESTAMP, price: DECIMAL(12,3)>>, days MAP<DATE, DECIMAL(20,3)>,
    attributes MAP<STRING, STRUCT<x: INT, at: TIMESTAMP>>, raw BINARY
"""
PROFILE = """
    visits BIGINT, last STRUCT<at: TIMESTAMP, price: DECIMAL(12,3)>, tags ARRAY<STRING>,
    attributes MAP<STRING, STRUCT<x: INT, at: TIMESTAMP>>, day DATE, ok BOOLEAN, ratio DOUBLE,
    raw BINARY, moments ARRAY<TIMESTAMP>, nothing STRING
"""


class Everything(StatefulProcessor):
    """Value, list and map state with nested values."""

    def init(self, handle: Any) -> None:
        self.profile = handle.getValueState("profile", PROFILE)
        self.history = handle.getListState("history", "at TIMESTAMP, price DECIMAL(12,3)")
        self.days = handle.getMapState(
            "days", "day DATE, number INT", "total DECIMAL(20,3), names ARRAY<STRING>"
        )

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        rows = sorted(rows, key=lambda row: (row.at, row.op))
        seen = shown([key, rows, self._seen()])
        for row in rows:
            getattr(self, f"_{row.op}")(row)
        profile = self.profile.get()
        yield Row(
            name=rows[0].name,
            number=rows[0].number,
            seen=seen,
            last=profile and profile[1],
            history=[Row(at=at, price=price) for at, price in self.history.get()],
            days={day: total for (day, _), (total, _) in self.days.iterator()},
            attributes=profile and profile[3],
            raw=profile and profile[7],
        )

    def _seen(self) -> list[Any]:
        entries = sorted(self.days.iterator(), key=repr)
        return [
            [self.profile.exists(), self.profile.get()],
            [self.history.exists(), list(self.history.get())],
            [self.days.exists(), entries, sorted(map(repr, self.days.keys()))],
            sorted(map(repr, self.days.values())),
            [self.days.getValue(user_key) for user_key, _ in entries],
        ]

    def _add(self, row: Any) -> None:
        visits = (self.profile.get() or (0,))[0]
        last, moments = (row.at, row.price), [row.at, None]
        # transformWithState hands maps over as lists of pairs, and structs as dictionaries.
        attributes = None if row.attributes is None else dict(row.attributes)
        self.profile.update(
            (visits + 1, last, row.tags, attributes, row.day, True, 0.5, row.raw, moments, None)
        )
        self.history.appendValue((row.at, row.price))
        key = (row.day, row.number)
        total, names = self.days.getValue(key) if self.days.containsKey(key) else (0, [])
        self.days.updateValue(key, (total + row.price, [*names, row.name]))

    def _rewrite(self, row: Any) -> None:
        self.history.put([(row.at, None), (row.at, row.price)])
        self.history.appendList([(None, row.price), (row.at, row.price)])

    def _remove(self, row: Any) -> None:
        self.days.removeKey((row.day, row.number))

    def _clear(self, row: Any) -> None:
        self.profile.clear()
        self.history.clear()
        self.days.clear()

    def close(self) -> None:
        pass


class KeyCounter(StatefulProcessor):
    """Counts the rows of a key and prints the key it was given."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("counter", "n INT, share FLOAT")

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        import numpy as np

        n, share = self.state.get() or (0, 0.0)
        # PySpark takes NumPy scalars in state.
        n = np.int32(n + sum(1 for _ in rows))
        self.state.update((n, np.float32(share + 0.25)))
        yield Row(key=repr(tuple(key)), n=int(n), share=share)

    def close(self) -> None:
        pass


def event(name: str, number: int | None, op: str, second: int, **parts: Any) -> tuple[Any, ...]:
    """A row, its nested values told apart by ``second``."""
    at = dt.datetime(2025, 3, 30, 0, 59, second, 123456, dt.UTC)
    price = Decimal(second) / 8
    attributes: Any = {"é": {"x": second, "at": at}, "none": None}
    given = {"day": dt.date(2025, 3, second + 1), "raw": bytes([0, second]), "tags": ["x", None]}
    values = {**given, "attributes": attributes, "price": price, **parts}
    return (
        name, number, op, at, values["day"], values["price"], values["raw"], values["tags"],
        values["attributes"],
    )  # fmt: skip


def shown(value: Any) -> str:
    """``repr`` with the entries of dictionaries in order."""
    if isinstance(value, dict):
        return f"{{{_listed(f'{key!r}: {shown(item)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, Row):
        fields = zip(value.__fields__, value, strict=True)
        return f"Row({_listed(f'{name}={shown(item)}' for name, item in fields)})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{_listed(map(shown, value))}]"
    return repr(value)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def by_batch(pipeline: Any) -> dict[int, Counter[str]]:
    """The rows of every batch of a pipeline that gave some, in no order."""
    return {n: Counter(map(shown, rows)) for n, rows in pipeline.handed_by_batch.items() if rows}


KEYS: list[tuple[Any, ...]] = [("a", 1), ("a", None), (None, 2), ("b\x00", 1), (None, None)]
BEGINNING = [
    [event(*key, "add", second) for key in KEYS for second in (1, 2, 3)],
    [
        event("a", 1, "add", 5, raw=None, tags=None, attributes=None),
        event("a", None, "rewrite", 6),
        event(None, 2, "clear", 7),
        event("b\x00", 1, "remove", 2),
        event("new", 3, "rewrite", 4),
    ],
]
"""Two batches in which every kind of state of every key is made, and then changed."""
