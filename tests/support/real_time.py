"""Queries in real-time mode, for a process of their own: all their tasks run at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "2s",
    # The console is no sink that Spark lists for this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}


def session(partitions: int, jars: str = "") -> Any:
    """A session with eight slots, which runs such queries."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[8]").config("spark.jars", jars)
    for name, value in {**_SETTINGS, "spark.sql.shuffle.partitions": partitions}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def started(rows: Any, checkpoint: Path, **trigger: Any) -> Any:
    """Start a query."""
    writer = rows.writeStream.format("console").outputMode("update").trigger(**trigger)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def run_until(ended: Callable[[Any], bool], rows: Any, checkpoint: Path, *, patience: int) -> None:
    """Run a query in real-time mode until ``ended`` holds of it, for so many seconds at most."""
    query, began = started(rows, checkpoint, realTime="3 seconds"), time.monotonic()
    while not ended(query):
        assert query.exception() is None, query.exception()
        assert time.monotonic() - began < patience, query.lastProgress
        time.sleep(0.2)
    query.stop()
