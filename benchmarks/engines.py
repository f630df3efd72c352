"""The embedded process loop against the same processor on Spark's own state store."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import Result
from benchmarks.processor import OUTPUT, Totals

_SCHEMA = "key STRING, amount BIGINT, name STRING"
PARTITIONS = 4


def measure(keys: int = 200_000, batches: int = 5) -> list[Result]:
    """Keys a second of whole batches, every batch touching each of ``keys`` keys once.

    The first two batches of either engine, which start and warm up Java and Python, do not count.
    """
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
            write_input(Path(folder) / "input", keys, batches)
            embedded = _embedded(spark, Path(folder))
            native = _native(spark, Path(folder))
    finally:
        spark.stop()
    figures = {
        "keys": keys,
        "embedded_batch_ms": embedded,
        "native_batch_ms": native,
        "embedded_keys_per_second": round(keys / statistics.median(embedded) * 1000),
        "native_keys_per_second": round(keys / statistics.median(native) * 1000),
    }
    ratio = statistics.median(native) / statistics.median(embedded)
    compared = "keys/s of whole batches against native transformWithState"
    return [Result("embedded process loop", compared, ratio, "at least", 15, figures)]


def session(master: str = "local[2]", **options: str) -> Any:
    """Two cores, RocksDB as the state store, and nothing printed; ``options`` are Spark's too."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    builder = SparkSession.builder.master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        # Queries that wait for their turn look for input all the time.
        .config("spark.sql.streaming.pollingDelay", "200ms")
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_input(folder: Path, keys: int, batches: int) -> None:
    """Files named after their batches, each with a row of every key."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for batch in range(batches):
        table = pa.table(
            {
                "key": [f"key-{number}" for number in range(keys)],
                "amount": pa.array([batch] * keys, pa.int64()),
                "name": [f"name {number % 1000}" for number in range(keys)],
            }
        )
        pq.write_table(table, folder / f"{batch}.parquet")


def stream(spark: Any, folder: Path) -> Any:
    """The rows of the files in ``input``, a file a batch."""
    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "input"))


def _embedded(spark: Any, folder: Path) -> list[float]:
    query = embedded_query(spark, folder)
    query.processAllAvailable()
    query.stop()
    return durations(query.query)[2:]


def embedded_query(spark: Any, folder: Path, processor: Any = None) -> Any:
    """The query on the embedded engine, started; it takes a file of ``input`` a batch."""
    from statemigrate import EmbeddedOptions, EmbeddedQuery

    return EmbeddedQuery(
        stream(spark, folder),
        by="key",
        processor=processor or Totals(),
        outputStructType=OUTPUT,
        checkpoint=folder / "embedded",
        sink=lambda output, _: output.write.format("noop").mode("overwrite").save(),
        options=EmbeddedOptions(partitions=PARTITIONS, working_directory=str(folder / "working")),
    ).start()


def _native(spark: Any, folder: Path) -> list[float]:
    output = (
        stream(spark, folder)
        .groupBy("key")
        .transformWithState(
            statefulProcessor=Totals(),
            outputStructType=OUTPUT,
            outputMode="Update",
            timeMode="None",
        )
    )
    query = (
        output.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "native"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    return durations(query)[2:]


def durations(query: Any) -> list[float]:
    """Milliseconds of each batch with rows."""
    progress = [json.loads(each.json) for each in query.recentProgress]
    return [each["durationMs"]["triggerExecution"] for each in progress if each["numInputRows"]]
