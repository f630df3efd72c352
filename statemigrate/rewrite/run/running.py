"""Whether the query of an old checkpoint still runs, as far as anything shows it.

A query that waits for rows writes nothing and holds no lock: its checkpoint is that of a stopped
one. What can be seen is a query of the same Spark, and how long ago the last batch was begun.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.metadata import is_at
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.files.hadoop.jvm import has_jvm
from statemigrate.native.spark_state.view import uri_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECENT = 600
"""Seconds after which a batch that was begun gives no reason to ask any more."""
_UNITS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"))


def check_stopped(old: Files, spark: SparkSession) -> None:
    """Raise `RewriteError` where a query of this Spark, in whichever session, writes to ``old``.

    That none does says nothing of queries elsewhere.
    """
    if not has_jvm(spark):
        # Spark Connect tells of a query's id alone, which a fork of it has too.
        return
    # Of the session's own queries PySpark tells; a notebook has more than one session.
    active = spark._jsparkSession.sharedState().activeStreamingQueries()
    for query in active.values():
        if is_at(query.resolvedCheckpointRoot(), uri_of(old)):
            raise RewriteError(
                "SM-REWRITE-049",
                f"a query runs on {old.location}",
                expected="a query that is stopped, since what it takes meanwhile would be missing",
                found=f"query {query.id()}, in the Spark that would rewrite its state",
                next_action="stop it, and run the same command again; nothing was written",
                path=old.location,
                query=str(query.id()),
            )


def time_since(moment: int) -> str:
    """How long ago a ``moment``, in milliseconds since 1970, was: in words, rounded down."""
    seconds = _seconds_since(moment)
    for length, unit in _UNITS:
        count = int(seconds // length)
        # Of a single one the next smaller unit says more.
        if count > 1:
            return f"{count:,} {unit} ago"
    return "less than two minutes ago"


def doubts(begun: int) -> tuple[str, ...]:
    """What is to be asked where a batch was ``begun`` lately, in milliseconds since 1970."""
    if _seconds_since(begun) >= RECENT:
        return ()
    return (
        f"Is the query stopped? Its last batch was begun {time_since(begun)}, and no checkpoint "
        "shows a query that waits for rows.",
    )


def _seconds_since(moment: int) -> float:
    return time.time() - moment / 1000
