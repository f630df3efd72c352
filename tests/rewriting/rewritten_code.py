"""The code of queries, before and after."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812


def totals(events):
    return events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def totals_and_largest(events):
    return events.groupBy("k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("largest")
    )


def windows(events):
    late = events.withWatermark("at", "30 seconds")
    return late.groupBy(F.window("at", "1 minute"), "k").agg(
        F.avg("v").alias("mean"), F.max("region").alias("last"), F.collect_list("v").alias("all")
    )


def distinct(events):
    return events.dropDuplicates(["k", "region"])


def distinct_for_a_while(events):
    return events.withWatermark("at", "30 seconds").dropDuplicatesWithinWatermark(["k"])


def sessions(events):
    late = events.withWatermark("at", "30 seconds")
    return late.groupBy(F.session_window("at", "20 seconds"), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total")
    )


def first_ten(events):
    return events.limit(10)


def pairs(events, others):
    left = events.withWatermark("at", "30 seconds").alias("a")
    right = others.withWatermark("at", "30 seconds").alias("b")
    near = F.expr("a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS")
    joined = left.join(right, near, "leftOuter")
    return joined.selectExpr("a.k AS k", "a.v AS v", "b.v AS w", "a.at AS at")


def pairs_with_regions(events, others):
    left = events.withWatermark("at", "30 seconds").alias("a")
    right = others.withWatermark("at", "30 seconds").alias("b")
    near = F.expr("a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS")
    joined = left.join(right, near, "leftOuter")
    return joined.selectExpr("a.k AS k", "a.v AS v", "b.v AS w", "a.at AS at", "a.region AS of")


def running(key, frames, state):
    """Counts and sums the values of a key."""
    import pandas as pd

    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def groups(events):
    from pyspark.sql.streaming.state import GroupStateTimeout

    return events.groupBy("k").applyInPandasWithState(
        running,
        "k STRING, n BIGINT, total BIGINT",
        "n BIGINT, total BIGINT",
        "update",
        GroupStateTimeout.NoTimeout,
    )


def distinct_then_windows(events):
    late = events.withWatermark("at", "30 seconds").dropDuplicates(["k", "v", "at"])
    return late.groupBy(F.window("at", "1 minute")).agg(F.sum("v").alias("total"))


def totals_by_region(events):
    return events.groupBy("region", "k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def totals_of_initials(events):
    by = events.select(F.substring("k", 1, 1).alias("initial"), "v")
    return by.groupBy("initial").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def distinct_by_one(events):
    return events.dropDuplicates(["k"])


def running_with_mean(key, frames, state):
    """Counts, sums and tells the mean of the values of a key."""
    import pandas as pd

    total, n, mark = state.get if state.exists else (0, 0, None)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["v"].sum())
    state.update((total, n, "seen again" if mark is None and n > 1 else mark))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "mean": [total / n], "mark": [mark]})


def groups_with_mean(events):
    from pyspark.sql.streaming.state import GroupStateTimeout

    return events.groupBy("k").applyInPandasWithState(
        running_with_mean,
        "k STRING, n BIGINT, mean DOUBLE, mark STRING",
        "total BIGINT, n BIGINT, mark STRING",
        "update",
        GroupStateTimeout.NoTimeout,
    )


def windows_alone(events):
    late = events.withWatermark("at", "30 seconds")
    return late.groupBy(F.window("at", "1 minute")).agg(F.sum("v").alias("total"))


def sessions_with_largest(events):
    late = events.withWatermark("at", "30 seconds")
    return late.groupBy(F.session_window("at", "20 seconds"), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("largest")
    )


def totals_by_number(events):
    by = events.select(F.col("k").cast("double").alias("number"), "v")
    return by.groupBy("number").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def totals_of_both(events, others):
    return totals(events.union(others))


def inner_pairs(events, others):
    left = events.withWatermark("at", "30 seconds").alias("a")
    right = others.withWatermark("at", "30 seconds").alias("b")
    near = F.expr("a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS")
    return left.join(right, near).selectExpr("a.k AS k", "a.v AS v", "b.k AS m", "b.v AS w")


def inner_pairs_of_initials(events, others):
    left = events.withWatermark("at", "30 seconds").alias("a")
    right = others.withWatermark("at", "30 seconds").alias("b")
    near = F.expr(
        "substring(a.k, 1, 1) = substring(b.k, 1, 1) "
        "AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS"
    )
    both = ("a.k AS k", "a.v AS v", "a.region AS from", "b.k AS m", "b.v AS w", "b.region AS to")
    return left.join(right, near).selectExpr(*both)


def distinct_rows(events):
    return events.withWatermark("at", "30 seconds").dropDuplicates(["k", "v", "at"])


def pairs_of_distinct(events, others):
    right = others.withWatermark("at", "30 seconds").alias("b")
    near = F.expr("a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS")
    joined = distinct_rows(events).alias("a").join(right, near)
    return joined.selectExpr("a.k AS k", "a.v AS v", "b.v AS w")
