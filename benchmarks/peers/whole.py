"""Whole batches of the embedded engine on two cores: Spark, state, commit and sink included."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.engines import (
    PARTITIONS,
    durations,
    embedded_query,
    session,
    stream,
    write_input,
)
from benchmarks.measuring import processor_seconds
from benchmarks.processor import OUTPUT, TotalTables

_WARM = 10
"""Batches in which every key is written for the first time, and Java warms up: of the third its
compiler takes 0.9 s of processors, of the tenth 0.4. A query runs for months."""


def handed_on_query(spark: Any, folder: Path) -> Any:
    """What Spark alone takes of such a batch: Python hands its rows on, and keeps nothing."""

    def run(rows: Any, _batch: int) -> None:
        parts = rows.repartition(PARTITIONS, "key").sortWithinPartitions("key")
        output = parts.mapInArrow(_handed_on, OUTPUT).persist()
        output.where("n IS NULL").collect()
        output.write.format("noop").mode("overwrite").save()
        output.unpersist()

    writer = stream(spark, folder).writeStream.foreachBatch(run)
    return writer.option("checkpointLocation", str(folder / "handed-on")).start()


def tables_query(spark: Any, folder: Path) -> Any:
    """The embedded engine with a batch processor."""
    return embedded_query(spark, folder, TotalTables())


def sql_query(spark: Any, folder: Path) -> Any:
    """The same figures by Spark SQL's own aggregation, whose state is in RocksDB too."""
    from pyspark.sql import functions as fn

    counted = stream(spark, folder).groupBy("key")
    totals = counted.agg(fn.count("*"), fn.sum("amount"), fn.last("name"))
    writer = totals.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(folder / "sql")).start()


def _handed_on(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        amounts = batch.column("amount")
        columns = [batch.column("key"), amounts, amounts]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "n", "total"])


def whole_batches(
    keys: int,
    rounds: int,
    start: Callable[[Any, Path], Any] = embedded_query,
    rows: int | None = None,
) -> list[dict[str, float]]:
    """Seconds of each batch, and of processors of one on average, of Java and Python together.

    ``start`` gives the query: of the embedded engine and key by key, unless it is another one. A
    batch has a row of each key; with ``rows`` only the first one has, and the others so many rows.
    """
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as name:
            folder = Path(name)
            (folder / "input").mkdir()
            if rows is None:
                write_input(folder / "prepared", keys, _WARM + rounds)
            else:
                _write_few(folder / "prepared", keys, rows, _WARM + rounds)
            query = start(spark, folder)
            for number in range(_WARM):
                _arrive(folder, number)
            query.processAllAvailable()
            before = processor_seconds()
            for number in range(_WARM, _WARM + rounds):
                _arrive(folder, number)
            query.processAllAvailable()
            processor = (processor_seconds() - before) / rounds
            query.stop()
            passed = durations(getattr(query, "query", query))[_WARM:]
            assert len(passed) == rounds, passed
            return [{"seconds": each / 1000, "processor": processor} for each in passed]
    finally:
        spark.stop()


def _write_few(folder: Path, keys: int, rows: int, batches: int) -> None:
    """A file with a row of each key, and others with some of these rows, other ones each time."""
    import pyarrow.parquet as pq

    write_input(folder, keys, 1)
    every = pq.read_table(folder / "0.parquet")
    step = keys // rows
    for batch in range(1, batches):
        chosen = range(batch % step, keys, step)[:rows]
        pq.write_table(every.take(list(chosen)), folder / f"{batch}.parquet")


def _arrive(folder: Path, number: int) -> None:
    (folder / "prepared" / f"{number}.parquet").rename(folder / "input" / f"{number}.parquet")
