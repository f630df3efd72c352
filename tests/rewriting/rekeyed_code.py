"""Queries over the same stream that differ in their keys."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from variables_code import Alarms, Words

Events = Annotated[DataFrame, "k STRING, region STRING, v BIGINT, at TIMESTAMP"]
FUNCTIONS = ("count(*) AS n", "sum(v)", "avg(v)", "min(v)", "max(at)", "min(region)")
EXPRESSIONS = (
    "upper(k)",
    "lower(k)",
    "trim(k)",
    "ltrim(k)",
    "rtrim(lower(k))",
    "substring(k, 2)",
    "substring(k, 0, 2)",
    "left(k, 2)",
    "substring(trim(upper(k)), 2, 3)",
    "length(k)",
    "concat(k, '-', region)",
    "concat(coalesce(k, 'it''s \"none\"'), upper(region))",
    "coalesce(upper(k), '')",
    "CAST(v AS STRING)",
    "pmod(v, 7)",
    "CAST(length(k) AS BIGINT)",
    "CAST(at AS DATE)",
    "substring(concat(k, region), 2)",
)
"""Keys that a script computes."""
UNKNOWN = (
    "reverse(k)",
    "v % 7",
    "CAST(k AS BIGINT)",
    "substring(k, -2)",
    "trim(BOTH 'x' FROM k)",
    "CAST(v AS INT)",
    "CAST(at AS STRING)",
    "concat(k, CAST(at AS STRING))",
)
"""Keys of which a script asks."""


def _by(rows, *keys):
    return rows.groupBy(*map(F.expr, keys)).agg(*map(F.expr, FUNCTIONS))


def _computed(events, expressions):
    return events.groupBy(*(F.expr(e).alias(f"c{n}") for n, e in enumerate(expressions))).count()


def by_columns(events: Events):
    return events.groupBy("k", "region", "v", "at").count()


def by_expressions(events: Events):
    return events.groupBy(
        *(F.expr(each).alias(f"c{n}") for n, each in enumerate(EXPRESSIONS))
    ).count()


def by_unknown(events: Events):
    return _computed(events, UNKNOWN)


def by_name(events: Events):
    return _by(events, "k")


def by_upper_case(events: Events):
    return _by(events, "upper(k)")


def by_initial(events: Events):
    return _by(events, "substring(k, 1, 1) AS initial")


def by_name_and_region(events: Events):
    return _by(events, "k", "region")


def by_region(events: Events):
    return _by(events, "region")


def by_region_and_name(events: Events):
    return _by(events, "region AS k", "k AS region")


def in_all(events: Events):
    return events.groupBy().agg(*map(F.expr, FUNCTIONS))


def in_minutes(events: Events):
    return _by(events.withWatermark("at", "1 hour"), "window(at, '1 minute')", "k")


def in_hours_by_initial(events: Events):
    return _by(events.withWatermark("at", "1 hour"), "window(at, '5 minutes')", "left(k, 1)")


def once(events: Events):
    return events.dropDuplicates(["k"]).select("k")


def once_in_upper_case(events: Events):
    return events.withColumn("k", F.upper("k")).dropDuplicates(["k"]).select("k")


def first_of_name(events: Events):
    return events.groupBy("k").agg(F.first("v").alias("first"), F.count("*").alias("n"))


def first_of_upper_case(events: Events):
    return events.groupBy(F.upper("k")).agg(F.first("v").alias("first"), F.count("*").alias("n"))


def words(events: Events):
    return _words(events)


def words_in_upper_case(events: Events):
    return _words(_in_upper_case(events))


def _in_upper_case(events):
    # Spark takes a grouping expression of this operator for the column that has its name.
    return events.withColumn("k", F.upper("k"))


def _words(events):
    return events.groupBy("k").transformWithStateInPandas(
        Words(), "k STRING, n INT, last STRING, regions STRING", "update", "none"
    )


def alarmed(events: Events):
    return _alarmed(events)


def alarmed_by_longer_names(events: Events):
    return _alarmed(events.withColumn("k", F.concat("k", F.lit("!"))))


def _alarmed(events):
    late = events.withWatermark("at", "10 seconds")
    return late.groupBy("k").transformWithStateInPandas(
        Alarms(), "k STRING, n INT", "append", "eventTime"
    )
