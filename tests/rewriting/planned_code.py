"""Queries over the same stream: the first one made the checkpoint, the others are its next code."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

Events = Annotated[DataFrame, "k STRING, region STRING, v BIGINT, at TIMESTAMP"]


def _totals(rows, *more, key="k", low="min(v)"):
    return rows.groupBy(key).agg(F.expr(low).alias("low"), F.expr("count(*)").alias("n"), *more)


def deployed(events: Events):
    return _totals(events.where("v > 0"))


def with_a_session(spark, events: Events):
    limits = spark.createDataFrame([(0,)], "least BIGINT")
    return _totals(events.join(limits).where("v > least").drop("least"))


def written_in_another_way(events: Events):
    rows = events.withColumnRenamed("v", "amount").filter(F.col("amount") > 0)
    return rows.groupBy("k").agg(F.min("amount").alias("low"), F.count(F.lit(1)).alias("n"))


def with_max(events: Events):
    return _totals(events.where("v > 0"), low="max(v)")


def by_day(events: Events):
    return events.groupBy(F.expr("date(at)").alias("day")).agg(F.sum("v"))


def by_day_in_berlin(events: Events):
    events.sparkSession.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    return by_day(events)


def with_another_argument(events: Events):
    return _totals(events.where("v > 0"), low="min(-v)")


def with_another_key(events: Events):
    return _totals(events.where("v > 0").withColumn("k", F.upper("k")))


def with_another_filter(events: Events):
    return _totals(events.where("v > 10"))


def without_filter(events: Events):
    return _totals(events)


def with_one_column_more(events: Events):
    return _totals(events.where("v > 0"), F.max("v").alias("high"))


def with_a_key_more(events: Events):
    return events.where("v > 0").groupBy("k", "region").agg(F.min("v"), F.count("*"))


def deduplicated(events: Events):
    return events.where("v > 0").dropDuplicates(["k"])


def minutes(events: Events):
    return _windowed(events, "1 minute", "30 seconds")


def hours(events: Events):
    return _windowed(events, "1 hour", "30 seconds")


def later_minutes(events: Events):
    return _windowed(events, "1 minute", "5 minutes")


def _windowed(events, length, delay):
    late = events.withWatermark("at", delay)
    return late.groupBy(F.window("at", length), "k").agg(F.count("*").alias("n"))


def joined(left: Events, right: Events):
    return _joined(left, right, "inner", "l.v < r.v")


def joined_outer(left: Events, right: Events):
    return _joined(left, right, "leftOuter", "l.v < r.v")


def joined_by_another_condition(left: Events, right: Events):
    return _joined(left, right, "inner", "l.v <= r.v")


def joined_the_other_way_round(right: Events, left: Events):
    return _joined(right, left, "inner", "l.v < r.v")


def _joined(left, right, how, condition):
    one = left.withWatermark("at", "1 minute").alias("l")
    other = right.withWatermark("at", "1 minute").alias("r")
    within = "r.at >= l.at AND r.at <= l.at + INTERVAL 1 MINUTE"
    return one.join(other, F.expr(f"l.k = r.k AND {within} AND {condition}"), how).select("l.k")


def without_the_count(events: Events):
    return events.where("v > 0").groupBy("k").agg(F.min("v").alias("low"))


def with_max_without_the_count(events: Events):
    return events.where("v > 0").groupBy("k").agg(F.max("v").alias("low"))


def joined_with_itself(events: Events):
    return _joined(events, events, "inner", "l.k = r.k")


def joined_with_itself_outer(events: Events):
    return _joined(events, events, "leftOuter", "l.k = r.k")


class Visits(StatefulProcessor):
    """Declares a variable of a name; with ``asks`` it takes something of Spark's own handle."""

    def __init__(self, name, asks):
        self.name, self.asks = name, asks

    def init(self, handle):
        if self.asks:
            assert handle._statefulProcessorApiClient
        handle.getValueState(self.name, "v BIGINT")

    def handleInputRows(self, key, rows, timers):
        yield Row(k=key[0])

    def close(self):
        pass


def _visited(rows, name, asks=False):
    return rows.groupBy("k").transformWithState(Visits(name, asks), "k STRING", "update", "none")


def visited(events: Events):
    return _visited(events, "one")


def visited_by_another_name(events: Events):
    return _visited(events, "other")


def visited_with_a_question(events: Events):
    return _visited(events, "one", asks=True)
