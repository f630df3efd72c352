"""Listeners get the same of a batch as those of PySpark, and ask the JVM less for it."""

import json
import math
import threading
from uuid import UUID

import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import functions
from pyspark.sql.streaming.listener import StreamingQueryListener

from statemigrate.native import QueryListener

pytestmark = [pytest.mark.spark, pytest.mark.long]
STATE = [
    "operatorName",
    "numRowsTotal",
    "numRowsUpdated",
    "numRowsRemoved",
    "allUpdatesTimeMs",
    "allRemovalsTimeMs",
    "commitTimeMs",
    "memoryUsedBytes",
    "numRowsDroppedByWatermark",
    "numShufflePartitions",
    "numStateStoreInstances",
    "customMetrics",
]
SOURCE = [
    "description",
    "numInputRows",
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "metrics",
]
OFFSETS = ["startOffset", "endOffset", "latestOffset"]
BATCH = ["id", "runId", "name", "timestamp", "batchId", "batchDuration", "durationMs"]
BATCH += ["eventTime", "numInputRows", "observedMetrics"]


class Recording:
    """Has what it was called with, and how often that asked the JVM."""

    def __init__(self):
        self.started, self.progress, self.ended, self.asked = [], [], [], []

    def onQueryStarted(self, event):
        self.started.append((event.id, event.runId, event.name, event.timestamp))

    def onQueryProgress(self, event):
        self.progress.append(event.progress)

    def onQueryTerminated(self, event):
        self.ended.append((event.id, event.runId, event.exception))


class OfPySpark(Recording, StreamingQueryListener):
    def onQueryIdle(self, event):
        """Not compared: it has neither lists nor maps."""


class OfStatemigrate(Recording, QueryListener):
    pass


def number(value):
    """Spark's text has a rate with one decimal, and none that is not finite."""
    if not isinstance(value, float):
        return value
    return round(value, 1) if math.isfinite(value) else "not finite"


def offset(text):
    # PySpark writes None for what is null in Java.
    return None if text == "None" else json.loads(text)


def fields(progress):
    return (
        [getattr(progress, name) for name in BATCH],
        [[getattr(each, name) for name in STATE] for each in progress.stateOperators],
        [[number(getattr(each, name)) for name in SOURCE] for each in progress.sources],
        [[offset(getattr(each, name)) for name in OFFSETS] for each in progress.sources],
        (progress.sink.description, progress.sink.numOutputRows, progress.sink.metrics),
    )


def ids(query):
    return UUID(query.id), UUID(query.runId)


def run(spark, tmp_path, name):
    """Two batches of two sources, with a watermark, observed metrics and state."""
    for number_, folder in enumerate(("left", "right")):
        rows = [(f"k{n}", 10 * number_ + n, f"2026-01-0{n + 1} 10:00:00") for n in range(4)]
        for part in (rows[:2], rows[2:]):
            frame = spark.createDataFrame(part, "key STRING, n INT, at STRING").coalesce(1)
            frame.write.mode("append").parquet(str(tmp_path / folder))
    both = [
        spark.readStream.schema("key STRING, n INT, at STRING")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / folder))
        for folder in ("left", "right")
    ]
    stream = both[0].union(both[1]).withColumn("at", functions.to_timestamp("at"))
    observed = stream.withWatermark("at", "1 hour").observe(
        "seen", functions.count("*").alias("rows")
    )
    query = (
        observed.groupBy("key")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .queryName(name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    return query


def test_both_get_the_same_of_each_batch(spark, tmp_path):
    plain, quick = OfPySpark(), OfStatemigrate()
    for each in (plain, quick):
        spark.streams.addListener(each)
    try:
        query = run(spark, tmp_path, "both")
    finally:
        for each in (plain, quick):
            spark.streams.removeListener(each)
    assert quick.started == plain.started == [(*ids(query), "both", *quick.started[0][3:])]
    assert quick.ended == plain.ended == [(*ids(query), None)]
    assert [each.batchId for each in plain.progress] == [0, 1, 2]
    for found, expected in zip(quick.progress, plain.progress, strict=True):
        for part, expected_part in zip(fields(found), fields(expected), strict=True):
            assert part == expected_part
    assert quick.progress[0].observedMetrics["seen"].rows == 4
    assert [source.numInputRows for source in quick.progress[1].sources] == [2, 2]
    run(spark, tmp_path / "later", "later")
    assert len(quick.started) == len(plain.started) == 1


def test_a_batch_costs_a_few_questions_to_the_jvm(spark, tmp_path, monkeypatch):
    asked = {}
    ask = JavaClient.send_command

    def counted(client, *arguments, **options):
        thread = threading.get_ident()
        asked[thread] = asked.get(thread, 0) + 1
        return ask(client, *arguments, **options)

    class Counting(OfStatemigrate):
        def onQueryProgress(self, event):
            super().onQueryProgress(event)
            self.asked.append(asked.pop(threading.get_ident(), 0))

    listener = Counting()
    monkeypatch.setattr(JavaClient, "send_command", counted)
    spark.streams.addListener(listener)
    try:
        run(spark, tmp_path, "counted")
    finally:
        spark.streams.removeListener(listener)
    assert len(listener.progress) == len(listener.asked) == 3
    # What Java's objects are let go with is asked from other threads now and then.
    assert max(listener.asked[1:]) < 20
