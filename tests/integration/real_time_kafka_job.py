"""A query in real-time mode over Kafka, in a process of its own: it needs a slot for each task.

Arguments: a broker, a topic, a checkpoint, the jars, the function's name, and the last batch.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import test_previews_over_kafka as code
from pyspark.sql import SparkSession

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.stateStore.providerClass": PROVIDER,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "3s",
    # The console is no sink that Spark lists for this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}
PATIENCE = 240  # seconds


def main(broker: str, topic: str, checkpoint: str, jars: str, function: str, last: str) -> None:
    """Run until a batch is committed."""
    builder = SparkSession.builder.master("local[6]").config("spark.jars", jars)
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    code.BROKER, code.TOPIC = broker, topic
    made = getattr(code, function)(code.opened(spark))
    writer = made.writeStream.format("console").outputMode("update")
    writer = writer.option("checkpointLocation", checkpoint).trigger(realTime="4 seconds")
    query, began = writer.start(), time.monotonic()
    while not Path(checkpoint, "commits", last).exists():
        assert query.exception() is None, query.exception()
        assert time.monotonic() - began < PATIENCE, query.lastProgress
        time.sleep(0.2)
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
