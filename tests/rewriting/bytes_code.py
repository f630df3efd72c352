"""Code of queries whose texts are whatever bytes came, as the keys of Kafka are."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812


def decoded(events):
    """Texts as `CAST(binary AS STRING)` makes them."""
    for name in ("k", "region"):
        events = events.withColumn(name, F.unbase64(name).cast("string"))
    return events


def shown(rows, *names):
    """Texts as hexadecimal: nothing else shows any bytes without loss."""
    for name in names:
        rows = rows.withColumn(name, F.hex(F.col(name).cast("binary")))
    return rows


def counted(events):
    found = decoded(events).groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return shown(found, "k")


def first_regions(events):
    found = decoded(events).groupBy("k").agg(F.count("*").alias("n"), F.first("region").alias("r"))
    return shown(found, "k", "r")


def first_regions_and_largest(events):
    found = (
        decoded(events)
        .groupBy("k")
        .agg(F.count("*").alias("n"), F.first("region").alias("r"), F.max("v").alias("largest"))
    )
    return shown(found, "k", "r").selectExpr("k", "n", "r", "largest IS NOT NULL AS is_there")


def lists(events):
    found = decoded(events).groupBy("k").agg(F.collect_list("region").alias("l"))
    each = F.transform("l", lambda text: F.hex(text.cast("binary")))
    return shown(found, "k").withColumn("l", F.array_join(each, ","))


def distinct(events):
    return shown(decoded(events).dropDuplicates(["k", "region"]), "k", "region").drop("at")


def windows(events):
    late = decoded(events).withWatermark("at", "5 minutes")
    found = late.groupBy(F.window("at", "1 minute"), "k").agg(F.max("region").alias("r"))
    return shown(found, "k", "r")


def pairs(events, others):
    left = decoded(events).withWatermark("at", "30 seconds").alias("a")
    right = decoded(others).withWatermark("at", "30 seconds").alias("b")
    near = F.expr("a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS")
    both = left.join(right, near, "leftOuter")
    named = "a.k AS k", "a.region AS x", "a.v AS v", "b.region AS y", "b.v AS w"
    return shown(both.selectExpr(*named), "k", "x", "y")
