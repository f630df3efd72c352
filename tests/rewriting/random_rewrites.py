"""Rewrites at random: what a query keeps, how, and what becomes of it; and what that must be."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

FIRST = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.date(2026, 1, 1)
TYPES = {
    "STRING": (pa.string(), st.sampled_from(["", "a", "\u00e9\u4e2d", "long " * 9])),
    "INT": (pa.int32(), st.sampled_from([0, -1, 2**31 - 1])),
    "BIGINT": (pa.int64(), st.sampled_from([0, 7, -(2**63)])),
    "DATE": (pa.date32(), st.sampled_from([DAY, dt.date(1969, 12, 31)])),
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "BINARY": (pa.binary(), st.sampled_from([b"", b"\0\xff", b"12345678"])),
    "DECIMAL(10,2)": (pa.decimal128(10, 2), st.sampled_from([Decimal("0.00"), Decimal("-9.99")])),
    "DECIMAL(25,3)": (pa.decimal128(25, 3), st.sampled_from([Decimal("1.000"), Decimal(10**20)])),
    "STRUCT<a: INT, b: STRING>": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.sampled_from([1, None]), "b": st.sampled_from(["x", None])}),
    ),
}
HEAD = '''"""Made up."""
from statemigrate.formats import Struct

revision = "aaaa00000001"
down_revision = None
branch_labels = ("{0}",)
store = "{0}"
'''
DOUBLED = """old = Struct("count BIGINT, max BIGINT")
new = old


def upgrade(value):
    return {**value, "count": value["count"] * 2}
"""
REKEYED = """old = Struct("count BIGINT, max BIGINT")
new = old
new_key = Struct("text STRING")


def rekey(key, value):
    return {"text": "abc"[value["count"] % 3]}


def merge(first, second):
    largest = [each for each in (first["max"], second["max"]) if each is not None]
    return {"count": first["count"] + second["count"], "max": max(largest, default=None)}
"""
LATER = """old = Struct("expiresAtMicros BIGINT")
new = old


def upgrade(value):
    return {"expiresAtMicros": value["expiresAtMicros"] + 1}
"""


@dataclass(frozen=True)
class Case:
    """A query with keys of these types, its batches of rows, and a rewrite of its state."""

    operator: str
    types: tuple[str, ...]
    batches: tuple[tuple[dict[str, Any], ...], ...]
    before: int
    after: int
    providers: tuple[str, str]
    codecs: tuple[str, str]
    changelogs: bool
    script: str | None

    @property
    def keys(self) -> list[str]:
        return [f"k{n}" for n in range(len(self.types))]

    @property
    def ddl(self) -> str:
        keys = "".join(f"k{n} {each}, " for n, each in enumerate(self.types))
        return f"{keys}v BIGINT, at TIMESTAMP"

    @property
    def conf(self) -> dict[str, str]:
        state = "spark.sql.streaming.stateStore"
        return {
            "spark.sql.shuffle.partitions": str(self.before),
            f"{state}.compression.codec": self.codecs[0],
            f"{state}.rocksdb.changelogCheckpointing.enabled": str(self.changelogs).lower(),
        }

    def feed(self, folder) -> None:
        folder.mkdir()
        keys = [(f"k{n}", TYPES[each][0]) for n, each in enumerate(self.types)]
        schema = pa.schema([*keys, ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
        for number, rows in enumerate(self.batches):
            pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / f"{number}.parquet")

    def query(self, rows):
        late = rows.withWatermark("at", "10 seconds")
        if self.operator == "deduplicate-within-watermark-0":
            return late.dropDuplicatesWithinWatermark(self.keys)
        if self.operator == "windows":
            by = late.groupBy(F.window("at", "20 seconds"), *self.keys)
            return by.agg(F.count("*").alias("n"), F.max("v").alias("largest"))
        by = rows.groupBy(*self.keys)
        return by.agg(F.count("*").alias("n"), F.max("v").alias("largest"))

    @property
    def store(self) -> str:
        return "aggregation-0" if self.operator == "windows" else self.operator

    def expected(self, rows: list[tuple[Any, Any]]) -> Counter[str]:
        """What becomes of the old keys and values, as texts."""
        if self.script == REKEYED:
            return _rekeyed(rows)
        found = []
        for key, old in rows:
            value = dict(old)
            if self.script == DOUBLED:
                value["count"] *= 2
            if self.script == LATER:
                value["expiresAtMicros"] += 1
            found.append(str((key, value)))
        return Counter(found)


def _rekeyed(rows: list[tuple[Any, Any]]) -> Counter[str]:
    met: dict[str, dict[str, Any]] = {}
    for _, value in rows:
        text = "abc"[value["count"] % 3]
        one = met.setdefault(text, {"count": 0, "max": None})
        one["count"] += value["count"]
        if value["max"] is not None:
            one["max"] = value["max"] if one["max"] is None else max(one["max"], value["max"])
    return Counter(str(({"text": text}, one)) for text, one in met.items())


@st.composite
def cases(draw) -> Case:
    operators = {
        "aggregation-0": [None, DOUBLED, REKEYED],
        "windows": [None, DOUBLED, REKEYED],
        "deduplicate-within-watermark-0": [None, LATER],
    }
    operator = draw(st.sampled_from(list(operators)))
    types = tuple(draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3)))
    batches = [
        tuple(draw(st.lists(_rows(types, number), min_size=1, max_size=25)))
        for number in range(draw(st.integers(2, 4)))
    ]
    either = st.sampled_from(["rocksdb", "hdfs"])
    codec = st.sampled_from(["lz4", "zstd", "snappy"])
    return Case(
        operator,
        types,
        tuple(batches),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        (draw(either), draw(either)),
        (draw(codec), draw(codec)),
        draw(st.booleans()),
        draw(st.sampled_from(operators[operator])),
    )


def _rows(types: tuple[str, ...], batch: int) -> st.SearchStrategy[dict[str, Any]]:
    """Later batches are half a minute later: what is of the first is taken out by the watermark."""
    keys = {f"k{n}": st.none() | TYPES[each][1] for n, each in enumerate(types)}
    moments = st.integers(0, 19).map(lambda second: FIRST + dt.timedelta(0, batch * 30 + second))
    return st.fixed_dictionaries({**keys, "v": st.none() | st.integers(-9, 9), "at": moments})
