"""Queries of aggregate functions that a test has listed."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812

LISTED: dict[str, list[str]] = {"before": [], "after": []}
"""The texts of the functions of the old code and of the new one."""


def before(events):
    return _of(events, "before")


def after(events):
    return _of(events, "after")


def _of(events, which):
    columns = [F.expr(text).alias(f"c{n}") for n, text in enumerate(LISTED[which])]
    return events.groupBy("k").agg(*columns)
