"""Queries over windows: the same names and types in the state, and other windows in each."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812


def _windowed(events, *window):
    late = events.withWatermark("at", "30 seconds")
    return late.groupBy(F.window("at", *window), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total")
    )


def minutes(events):
    return _windowed(events, "1 minute")


def minutes_again(events):
    late = events.where("v IS NOT NULL").withWatermark("at", "30 seconds")
    wide = late.select("k", "v", F.window("at", "60 seconds").alias("of"))
    by = wide.withColumnRenamed("of", "window")
    return by.groupBy("window", "k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def thirds(events):
    return _windowed(events, "20 seconds")


def two_minutes(events):
    return _windowed(events, "2 minutes")


def five_minutes(events):
    return _windowed(events, "5 minutes")


def sliding(events):
    return _windowed(events, "1 minute", "20 seconds")


def moved(events):
    return _windowed(events, "1 minute", "1 minute", "15 seconds")


def _sessions(events, gap):
    late = events.withWatermark("at", "30 seconds")
    return late.groupBy("k", F.session_window("at", gap)).agg(F.count("*").alias("n"))


def sessions(events):
    return _sessions(events, "20 seconds")


def longer_sessions(events):
    return _sessions(events, "45 seconds")


def shorter_sessions(events):
    return _sessions(events, "5 seconds")


def sessions_of_each(events):
    return _sessions(events, F.expr("CASE WHEN k = 'a' THEN '20 seconds' ELSE '21 seconds' END"))


def names(events):
    return events.groupBy("k").agg(F.count("*").alias("n"))


def upper_names(events):
    by = events.select(F.upper("k").alias("k"))
    return by.groupBy("k").agg(F.count("*").alias("n"))


def names_again(events):
    return events.select("v", "k").where("k <> ''").groupBy("k").agg(F.count("*").alias("n"))


def _named(function):
    by = F.udf(function, "string")
    return lambda events: (
        events.select(by("k").alias("k")).groupBy("k").agg(F.count("*").alias("n"))
    )


def _upper(name):
    return name.upper()


def _lower(name):
    return name.lower()


_upper.__name__ = _lower.__name__ = "named"


def upper_by_python(events):
    return _named(_upper)(events)


def lower_by_python(events):
    return _named(_lower)(events)
