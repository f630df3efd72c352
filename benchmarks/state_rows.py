"""Rows of state between Arrow and Spark's bytes: a string as key, three longs as value."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Result
from statemigrate.checkpoint.operators.shapes import NoPrefix
from statemigrate.checkpoint.rows.hashing import partition_of
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout

BATCH = 50_000
WANTED = 800_000
LAYOUT = RowLayout(rocksdb=True)


def _schema(spark: str, *names: str) -> dict[str, object]:
    fields = [{"name": n, "type": spark, "nullable": True, "metadata": {}} for n in names]
    return {"type": "struct", "fields": fields}


def _batches(rows: int) -> list[tuple[pa.StructArray, pa.StructArray]]:
    random = np.random.default_rng(7)
    numbers = random.integers(-(2**62), 2**62, (3, rows))
    keys = pa.StructArray.from_arrays(
        [pa.array([f"customer-{number}" for number in random.integers(0, 10**9, rows)])], ["name"]
    )
    values = pa.StructArray.from_arrays([pa.array(each) for each in numbers], ["a", "b", "c"])
    starts = range(0, rows, BATCH)
    return [(keys.slice(start, BATCH), values.slice(start, BATCH)) for start in starts]


def _rate(rows: int, work: Callable[[], Iterator[object]]) -> float:
    """Rows a second of one core, whatever else the machine does."""
    began = time.process_time()
    for _ in work():
        pass
    return rows / (time.process_time() - began)


def measure(rows: int = 1_000_000, rounds: int = 5) -> list[Result]:
    """Rows encoded, decoded and placed in partitions a second, the best of some rounds."""
    key = KeyCodec(_schema("string", "name"), NoPrefix(), LAYOUT)
    value = ValueCodec(_schema("long", "a", "b", "c"), LAYOUT)
    batches = _batches(rows)
    encoded = [(key.encode(k), value.encode(v, key.encode(k))) for k, v in batches]
    works: dict[str, Callable[[], Iterator[object]]] = {
        "encoded": lambda: (value.encode(v, key.encode(k)) for k, v in batches),
        "decoded": lambda: ((key.decode(k), value.decode(v, k)) for k, v in encoded),
        "placed": lambda: (partition_of([k.field(0)], 200) for k, _ in batches),
    }
    found = []
    for name, work in works.items():
        rates = [_rate(rows, work) for _ in range(rounds)]
        figures = {"rows": rows, "rates": rates}
        compared = f"rows/s of one core against {WANTED:,}"
        ratio = max(rates) / WANTED
        found.append(Result(f"state rows {name}", compared, ratio, "at least", 1.0, figures))
    return found
