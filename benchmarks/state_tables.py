"""State as tables: an aggregation that Spark keeps in RocksDB, read without Spark.

For each figure a process of its own takes the time of processors, from its start: imports count,
nothing is warm but the disk, and what else the machine does counts for nothing. A checkpoint has
a million keys, and a second batch that changed a thousand. One keeps three aggregates of a number
under each key, the other one the largest of each of 20 fields: ids, times, decimals, texts,
a struct.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import Result

_ROUNDS = 3
_IN_BATCH = 1_000_000
"""Keys that one batch makes."""
_OPEN = "import statemigrate; state = statemigrate.open_state({path!r}, migrations=None)\n"
_TABLE = _OPEN + "table = state['aggregation-0']\n"
_SQL = 'SELECT count(*), sum({sum}) FROM "aggregation-0"'
_RECORD = {
    "order_id": "id * 7919 + 1000000007",
    "customer_id": "id % 90001 + 5000000000",
    "session_id": "md5(concat('session', id))",
    "placed_at": "timestamp_micros(1767225600000000 + id * 1013)",
    "paid_at": "timestamp_micros(1767225660000000 + id * 1013)",
    "shipped_at": "if(id % 3 = 0, null, timestamp_micros(1767312000000000 + id * 1013))",
    "total": "CAST(id % 100000 / 100 AS DECIMAL(18, 2))",
    "tax": "CAST(id % 1900 / 100 AS DECIMAL(18, 2))",
    "discount": "if(id % 5 = 0, CAST(id % 700 / 100 AS DECIMAL(18, 2)), null)",
    "currency": "element_at(array('EUR', 'USD', 'GBP'), CAST(id % 3 + 1 AS INT))",
    "status": "element_at(array('open', 'paid', 'sent'), CAST(id % 3 + 1 AS INT))",
    "channel": "concat('channel-', id % 11)",
    "country": "concat('country-', id % 60)",
    "city": "concat('city of the north ', id % 900)",
    "note": "if(id % 4 = 0, concat('please ring at door ', id), null)",
    "items": "CAST(id % 9 AS INT)",
    "weight": "id % 10007 / 13D",
    "is_gift": "id % 10 = 0",
    "score": "CAST(id % 97 AS FLOAT)",
    "address": "named_struct('street', concat('street ', id % 5000), 'number', id % 300, "
    "'zip', lpad(CAST(id % 99999 AS STRING), 5, '0'))",
}
"""The fields of a record, computed from a number."""
_WORKS = {
    "first row": (_TABLE + "next(table.batches())", 0.5),
    "into Arrow": (_TABLE + "assert table.to_arrow().num_rows == {keys}", 2.0),
    "one key": (_TABLE + "assert table.get('customer-{last}')", 0.5),
    "difference of two batches": (
        _TABLE + "assert table.changes(table.batch - 1).num_rows == {changed}",
        2.0,
    ),
    "count and sum in SQL": (
        _OPEN + f"state.sql({_SQL!r})",
        2.0,
    ),
    "status": (
        "from statemigrate import status; status({path!r}, migrations=None)",
        1.0,
    ),
}


def measure(keys: int = 1_000_000, rounds: int = _ROUNDS) -> list[Result]:
    """Seconds of each work against what it may take, the best of some rounds."""
    found = []
    for record, total in (("3 aggregates", '"sum"'), ("20 fields", '"max_7"')):
        with tempfile.TemporaryDirectory(prefix="statemigrate-tables-") as folder:
            path, changed = make_checkpoint(Path(folder), keys, record)
            for name, (code, limit) in _WORKS.items():
                text = code.format(
                    path=str(path), keys=keys, changed=changed, last=keys - 1, sum=total
                )
                taken = [_seconds(text) for _ in range(rounds)]
                figures = {"keys": keys, "seconds": taken}
                compared = f"seconds of a processor, {keys:,} keys, {record}, against {limit}"
                ratio = min(taken) / limit
                found.append(Result(f"tables: {name}", compared, ratio, "at most", 1.0, figures))
    return found


def _seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/", stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_checkpoint(root: Path, keys: int, record: str) -> tuple[Path, int]:
    """A query's checkpoint, made in a process of its own that keeps no Java running."""
    changed = min(1_000, keys)
    code = "from benchmarks.state_tables import make\n"
    code += f"make({str(root)!r}, {keys}, {changed}, {record!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    return root / "checkpoint", changed


def make(root: str, keys: int, changed: int, record: str) -> None:
    """Run an aggregation: a batch for each million keys, and one that changes some."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(max(2, keys // _IN_BATCH)))
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    parts = [(first, min(first + _IN_BATCH, keys)) for first in range(0, keys, _IN_BATCH)]
    fields = {"n": "id % 1000"} if record == "3 aggregates" else _RECORD
    for batch, (first, end) in enumerate([*parts, (0, changed)]):
        # The second batch has another number for the same key.
        given = spark.range(first, end).withColumn("key", f.col("id"))
        given = given.withColumn("id", f.col("id") + batch)
        columns = [f"{each} AS {name}" for name, each in fields.items()]
        rows = given.selectExpr("concat('customer-', key) AS k", *columns)
        rows.write.parquet(f"{root}/rows/{batch}")
        stream = spark.readStream.schema(rows.schema).parquet(f"{root}/rows/*")
        largest = [f.max(name).alias(name) for name in fields]
        aggregates = [f.count("*"), f.sum("n"), f.max("n")] if "n" in fields else largest
        totals: Any = stream.groupBy("k").agg(*aggregates)
        writer = totals.writeStream.outputMode("update").format("noop")
        writer = writer.option("checkpointLocation", f"{root}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
