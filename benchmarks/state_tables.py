"""State as tables: an aggregation that Spark keeps in RocksDB, read without Spark.

For each figure a process of its own takes the time of processors, from its start: imports count,
nothing is warm but the disk, and what else the machine does counts for nothing. The checkpoint has
a million keys, and a second batch that changed a thousand.
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
_SQL = 'SELECT count(*), sum("sum") FROM "aggregation-0"'
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
    with tempfile.TemporaryDirectory(prefix="statemigrate-tables-") as folder:
        path, changed = _checkpoint(Path(folder), keys)
        found = []
        for name, (code, limit) in _WORKS.items():
            text = code.format(path=str(path), keys=keys, changed=changed, last=keys - 1)
            taken = [_seconds(text) for _ in range(rounds)]
            figures = {"keys": keys, "seconds": taken}
            compared = f"seconds of a processor, {keys:,} keys, against {limit}"
            ratio = min(taken) / limit
            found.append(Result(f"tables: {name}", compared, ratio, "at most", 1.0, figures))
    return found


def _seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/", stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _checkpoint(root: Path, keys: int) -> tuple[Path, int]:
    """A query's checkpoint, made in a process of its own that keeps no Java running."""
    changed = min(1_000, keys)
    code = f"from benchmarks.state_tables import make; make({str(root)!r}, {keys}, {changed})"
    subprocess.run([sys.executable, "-c", code], check=True)
    return root / "checkpoint", changed


def make(root: str, keys: int, changed: int) -> None:
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
    for batch, (first, end) in enumerate([*parts, (0, changed)]):
        rows = spark.range(first, end).selectExpr("concat('customer-', id) AS k", "id % 1000 AS n")
        rows.write.parquet(f"{root}/rows/{batch}")
        stream = spark.readStream.schema("k STRING, n BIGINT").parquet(f"{root}/rows/*")
        totals: Any = stream.groupBy("k").agg(f.count("*"), f.sum("n"), f.max("n"))
        writer = totals.writeStream.outputMode("update").format("noop")
        writer = writer.option("checkpointLocation", f"{root}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
