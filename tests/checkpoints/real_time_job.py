"""Aggregations in real-time mode, and twins in batches, in a process with a slot for each task.

Arguments: a new folder. Each query leaves the checkpoints ``FOLDER/NAME/real-time`` and
``FOLDER/NAME/batches``, after the same rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": PROVIDER,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "2s",
    # The console is no sink that Spark lists for this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}
ROWS = [f"k{n % 5}|{n}|2026-01-01 00:{n % 50:02d}:00" for n in range(100)] + ["|7|", "k0||"]
PATIENCE = 120  # seconds


def by_key(rows: DataFrame) -> DataFrame:
    """Buffers of several functions."""
    functions = [F.sum("n"), F.avg("n"), F.max("at"), F.first("n"), F.stddev("n"), F.count("n")]
    return rows.groupBy("k", (F.col("n") % 2).alias("odd")).agg(*functions)


def without_keys(rows: DataFrame) -> DataFrame:
    """One row for all."""
    return rows.agg(F.sum("n"), F.min("k"))


def by_window(rows: DataFrame) -> DataFrame:
    """Windows, of which the watermark removes some."""
    late = rows.withWatermark("at", "1 hour")
    return late.groupBy(F.window("at", "10 minutes"), "k").agg(F.sum("n"), F.count("*"))


QUERIES: tuple[Callable[[DataFrame], DataFrame], ...] = (by_key, without_keys, by_window)


def parsed(lines: DataFrame) -> DataFrame:
    """Lines of text as rows."""
    parts = F.split("value", r"\|")
    return lines.select(
        F.nullif(parts[0], F.lit("")).alias("k"),
        F.expr("try_cast(split(value, '[|]')[1] as bigint)").alias("n"),
        F.expr("try_cast(split(value, '[|]')[2] as timestamp)").alias("at"),
    )


def memory(spark: Any) -> tuple[Any, DataFrame]:
    """A source in memory that real-time mode takes, and its stream."""
    module = spark._jvm.org.apache.spark.sql.execution.streaming.sources
    make = getattr(getattr(module, "LowLatencyMemoryStream$"), "MODULE$")
    source = make.apply(
        spark._jvm.org.apache.spark.sql.Encoders.STRING(), spark._jsparkSession.sqlContext()
    )
    return source, DataFrame(source.toDF(), spark)


def run(rows: DataFrame, checkpoint: Path, **trigger: Any) -> Any:
    """Start a query."""
    writer = rows.writeStream.format("console").outputMode("update").trigger(**trigger)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def main(folder: Path) -> None:
    """Run each query both ways."""
    builder = SparkSession.builder.master("local[8]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark: Any = builder.getOrCreate()
    lines = folder / "lines"
    lines.mkdir()
    (lines / "rows.txt").write_text("\n".join(ROWS) + "\n")
    for function in QUERIES:
        place = folder / function.__name__
        source, stream = memory(spark)
        query = run(function(parsed(stream)), place / "real-time", realTime="3 seconds")
        source.addData(spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(ROWS))
        began = time.monotonic()
        while sum(each["numInputRows"] for each in query.recentProgress) < len(ROWS):
            assert query.exception() is None, query.exception()
            assert time.monotonic() - began < PATIENCE, query.lastProgress
            time.sleep(0.2)
        query.stop()
        twin = run(
            function(parsed(spark.readStream.text(str(lines)))), place / "batches", once=True
        )
        assert twin.awaitTermination(PATIENCE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
