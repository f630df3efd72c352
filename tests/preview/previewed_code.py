"""Queries over events: what was deployed, harmless changes of it, and faults."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

Events = Annotated[DataFrame, "k STRING, v BIGINT, id BIGINT, at TIMESTAMP"]


def _minutes(events, total, window="1 minute", more=()):
    late = events.withWatermark("at", "1 minute")
    count = F.count("*").alias("n")
    return late.groupBy(F.window("at", window), "k").agg(count, total.alias("total"), *more)


def minutes(events: Events):
    return _minutes(events, F.sum("v"))


def minutes_in_other_words(events: Events):
    renamed = events.withColumnRenamed("v", "amount")
    return _minutes(renamed, F.sum(F.col("amount")))


def days(events: Events):
    return events.groupBy(F.expr("date(at)").alias("day"), "k").agg(F.sum("v"))


def minutes_until_now(events: Events):
    """Each batch runs by itself, at the time that it had."""
    return _minutes(events.where(F.col("at") < F.current_timestamp()), F.sum("v"))


FILE_MANAGERS = []


def minutes_with_the_session(events: Events, spark: SparkSession):
    FILE_MANAGERS.append(spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", ""))
    return minutes(events)


def minutes_of_another_field(events: Events):
    return _minutes(events, F.sum("id"))


def minutes_with_null_for_zero(events: Events):
    return _minutes(events, F.sum(F.when(F.col("v") != 0, F.col("v"))))


def minutes_counted_twice(events: Events):
    return _minutes(events.where("v = 7").union(events), F.sum("v"))


def minutes_of_a_new_column(events: Annotated[DataFrame, "k STRING, at TIMESTAMP, more BIGINT"]):
    return _minutes(events, F.sum("more"))


def minutes_that_fail(events: Events):
    checked = F.when(F.col("id") >= 240, F.raise_error(F.lit("no such id"))).otherwise(F.col("v"))
    return _minutes(events, F.sum(checked.cast("bigint")))


def minutes_doubled(events: Events):
    return _minutes(events, F.sum(F.when(F.col("v") == 7, 2 * F.col("v")).otherwise(F.col("v"))))


def minutes_a_second_late(events: Events):
    return _minutes(events.withColumn("at", F.expr("at + INTERVAL 1 SECOND")), F.sum("v"))


def minutes_with_another_delay(events: Events):
    late = events.withWatermark("at", "0 seconds")
    return late.groupBy(F.window("at", "1 minute"), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total")
    )


def minutes_with_max(events: Events):
    return _minutes(events, F.sum("v"), more=[F.max("v").alias("largest")])


def drawn(events: Events):
    some = events.withColumn("share", F.rand())
    return some.groupBy("k").agg(F.count("*").alias("n"), F.sum("share").alias("drawn"))


def drawn_and_counted_twice(events: Events):
    more = events.withColumn("share", F.rand()).withColumn("times", F.expr("if(v = 7, 2, 1)"))
    each = more.withColumn("time", F.explode(F.sequence(F.lit(1), "times")))
    return each.groupBy("k").agg(F.count("*").alias("n"), F.sum("share").alias("drawn"))


def first_ones(events: Events):
    return events.withWatermark("at", "1 minute").dropDuplicates(["k", "at"])


def first_ones_of_some(events: Events):
    return events.where("v <> 7").withWatermark("at", "1 minute").dropDuplicates(["k", "at"])


def _joined(left, right):
    one = left.withWatermark("at", "1 minute").alias("one")
    other = right.withWatermark("at", "1 minute").alias("other")
    near = "one.id = other.id AND other.at BETWEEN one.at AND one.at + INTERVAL 1 MINUTE"
    return one.join(other, F.expr(near), "inner").select(
        F.col("one.id").alias("id"), F.col("one.v").alias("v"), F.col("other.v").alias("w")
    )


def joined(left: Events, right: Events):
    return _joined(left, right)


def joined_with_a_wrong_value(left: Events, right: Events):
    return _joined(left, right.withColumn("v", F.col("v") + 1))


def _until(events, days):
    end = F.expr(f"TIMESTAMP'9999-12-31 00:00:00' - INTERVAL {days} DAYS")
    return events.dropDuplicates(["id"]).select("id", end.alias("until"))


def until_for_ever(events: Events):
    return _until(events, 0)


def until_a_day_before(events: Events):
    return _until(events, 1)


class Totals(StatefulProcessor):
    """Adds up what a key has."""

    step = 0

    def init(self, handle):
        self.total = handle.getValueState("total", "n BIGINT, sum BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.total.get() if self.total.exists() else (0, 0)
        for row in rows:
            n, total = n + 1, total + row.v + (self.step if row.v == 7 else 0)
        self.total.update((n, total))
        yield Row(k=key[0], n=n, sum=total)

    def close(self):
        pass


class WrongTotals(Totals):
    """Adds one too many."""

    step = 1


class Means(StatefulProcessor):
    """Keeps the mean of what a key has too, in a format that a script leads to."""

    step = 0

    def init(self, handle):
        self.total = handle.getValueState("total", "n BIGINT, sum BIGINT, mean DOUBLE")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.total.get()[:2] if self.total.exists() else (0, 0)
        for row in rows:
            n, total = n + 1, total + row.v + self.step
        self.total.update((n, total, total / n))
        yield Row(k=key[0], n=n, sum=total)

    def close(self):
        pass


class WrongMeans(Means):
    """Adds one too many."""

    step = 1


SCRIPT = """
from statemigrate import Struct

revision = "aaaa11112222"
down_revision = None
branch_labels = ("total",)
store = "total"
old = Struct("n BIGINT, sum BIGINT")
new = Struct("n BIGINT, sum BIGINT, mean DOUBLE")


def upgrade(value):
    return {**value, "mean": value["sum"] / value["n"]}
"""
"""What leads to the values of `Means`."""
MIGRATIONS = "migrations"
"""The folder with the script, which a test sets."""


def _with_means(events, processor):
    from statemigrate import migrated

    return events.groupBy("k").transformWithState(
        migrated(processor, migrations=MIGRATIONS),
        "k STRING, n BIGINT, sum BIGINT",
        "Update",
        "None",
    )


def with_means(events: Events):
    return _with_means(events, Means())


def with_wrong_means(events: Events):
    return _with_means(events, WrongMeans())


def processed(events: Events):
    return events.groupBy("k").transformWithState(
        Totals(), "k STRING, n BIGINT, sum BIGINT", "Update", "None"
    )


def processed_wrongly(events: Events):
    return events.groupBy("k").transformWithState(
        WrongTotals(), "k STRING, n BIGINT, sum BIGINT", "Update", "None"
    )


def by_odd_names(events: Events):
    some = events.withColumnRenamed("k", 'a "b".`c`\'<b>&|')
    return some.groupBy(F.col('`a "b".``c``\'<b>&|`')).agg(F.sum("v").alias("x.y"))


def by_odd_names_doubled(events: Events):
    return by_odd_names(events.withColumn("v", F.expr("if(v = 7, 14, v)")))


def sums(events: Events):
    return events.groupBy("k").agg(F.sum("v").alias("total"))


def sums_of_another_field(events: Events):
    return events.groupBy("k").agg(F.sum("id").alias("total"))


def sums_with_null_for_zero(events: Events):
    return events.groupBy("k").agg(F.sum(F.when(F.col("v") != 0, F.col("v"))).alias("total"))


def with_itself(events: Events):
    return _joined(events, events)


def with_itself_wrongly(events: Events):
    return _joined(events.withColumn("v", F.col("v") + 1), events)


def both(left: Events, right: Events):
    return left.union(right).groupBy("k").agg(F.sum("v").alias("total"))


def both_but_some(left: Events, right: Events):
    return left.union(right.where("v <> 7")).groupBy("k").agg(F.sum("v").alias("total"))


CSV = ""
"""The folder of a test's CSV files."""


def open_csv(spark):
    return spark.readStream.schema("k STRING, v BIGINT").option("header", True).csv(CSV)


Ticks = Annotated[DataFrame, "timestamp TIMESTAMP, value BIGINT"]


def open_ticks(spark):
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20)
    return reader.option("numPartitions", 2).option("startTimestamp", 1767225600000).load()


def open_two(spark):
    return open_ticks(spark).union(open_ticks(spark))


Pairs = Annotated[DataFrame, "k STRING, v BIGINT"]


def pairs(events: Pairs):
    return events.groupBy("k").agg(F.sum("v").alias("total"))


def pairs_doubled(events: Pairs):
    return events.groupBy("k").agg(F.sum(F.expr("if(v = 7, 14, v)")).alias("total"))


def ticks(events: Ticks):
    return events.groupBy((F.col("value") % 7).alias("k")).agg(F.sum("value").alias("total"))


def ticks_off_by_one(events: Ticks):
    return ticks(events.withColumn("value", F.expr("if(value = 67, 68, value)")))


def on_a_named_checkpoint(events: Events):
    import deployed_processors

    return events.groupBy("k").transformWithState(
        deployed_processors.make(), "k STRING, n BIGINT, sum BIGINT", "Update", "None"
    )
