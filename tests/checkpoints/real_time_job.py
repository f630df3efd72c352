"""Aggregations in real-time mode, and twins in batches.

Arguments: a new folder. Each query leaves the checkpoints ``FOLDER/NAME/real-time`` and
``FOLDER/NAME/batches``, after the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from support.real_time import run_until, session, started

PATIENCE = 120  # seconds
ROWS = [f"k{n % 5}|{n}|2026-01-01 00:{n % 50:02d}:00" for n in range(100)] + ["|7|", "k0||"]


def by_key(rows: DataFrame) -> DataFrame:
    """Buffers of several functions."""
    functions = [F.sum("n"), F.avg("n"), F.max("at"), F.first("n"), F.stddev("n"), F.count("n")]
    return rows.groupBy("k", (F.col("n") % 2).alias("odd")).agg(*functions)


def without_keys(rows: DataFrame) -> DataFrame:
    """One row for all."""
    return rows.agg(F.sum("n"), F.min("k"))


def by_window(rows: DataFrame) -> DataFrame:
    """Windows with a watermark."""
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


def has_read_all(query: Any) -> bool:
    """Whether a query has read all rows."""
    return sum(each["numInputRows"] for each in query.recentProgress) >= len(ROWS)


def main(folder: Path) -> None:
    """Run each query both ways."""
    spark = session(3)
    lines = folder / "lines"
    lines.mkdir()
    (lines / "rows.txt").write_text("\n".join(ROWS) + "\n")
    for function in QUERIES:
        place = folder / function.__name__
        source, stream = memory(spark)
        source.addData(spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(ROWS))
        run_until(has_read_all, function(parsed(stream)), place / "real-time", patience=PATIENCE)
        text = parsed(spark.readStream.text(str(lines)))
        twin = started(function(text), place / "batches", once=True)
        assert twin.awaitTermination(PATIENCE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
