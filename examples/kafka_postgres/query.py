"""The query itself, on either engine; which processor it runs is the deployment's affair."""

import os
import sys

from pyspark.sql import SparkSession
from sink import upsert_into

from statemigrate import EmbeddedQuery

OUTPUT = "account STRING, balance DECIMAL(18,2), movements INT, largest DECIMAL(18,2)"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def session(settings):
    """A session for the query; ``spark-submit`` and its files may say more."""
    # Its workers run this Python, whatever ``python3`` on the path is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("balances")
    builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    builder = builder.config(NAMED_SOURCES, str(settings.named_sources).lower())
    session = builder.getOrCreate()
    # It warns of each key that is new.
    session.sparkContext.setLogLevel("ERROR")
    return session


def on_spark_state(rows, processor, settings):
    """Start it with its state in Spark's own store."""
    accounts = rows.groupBy("account")
    run = accounts.transformWithStateInPandas if settings.pandas else accounts.transformWithState
    balances = run(
        statefulProcessor=processor, outputStructType=OUTPUT, outputMode="Update", timeMode="None"
    )
    writer = balances.writeStream.outputMode("update").foreachBatch(upsert_into(settings.database))
    return writer.option("checkpointLocation", settings.checkpoint).start()


def embedded(rows, processor, settings):
    """Start it with its state in the embedded engine, on this machine alone."""
    return EmbeddedQuery(
        rows,
        groupBy="account",
        processor=processor,
        outputStructType=OUTPUT,
        checkpoint=settings.checkpoint,
        sink=upsert_into(settings.database),
    ).start()
