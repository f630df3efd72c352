"""The session that a rewrite runs in: the user's, with settings of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.pinned import FILE_IDS
from statemigrate.checkpoint.operators.shapes import CheckpointShape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    # Moments are handed to Python in the zone of the session, and are the same in every one.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # A value that a new type cannot hold is an error, and never null.
    "spark.sql.ansi.enabled": "true",
    # A partition of state is a partition of the rows, whatever its size.
    "spark.sql.adaptive.enabled": "false",
}
_TASKS = "spark.sql.shuffle.partitions"


@contextmanager
def gathered_by_one_task(session: SparkSession) -> Iterator[None]:
    """What is found in every partition is brought together by one task, instead of some 200.

    For a `rewriting_session`, and for a few rows of each partition only.
    """
    before = str(session.conf.get(_TASKS))
    session.conf.set(_TASKS, "1")
    try:
        yield
    finally:
        session.conf.set(_TASKS, before)


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """A frame of a `rewriting_session`; the user's session stays the active one.

    PySpark makes the session active that makes a frame of local rows, and says so nowhere.
    """
    active = type(session).getActiveSession()
    try:
        return session.createDataFrame(table)
    finally:
        if active is not None:
            active.createDataFrame([], "nothing INT")


def rewriting_session(spark: SparkSession, shape: CheckpointShape) -> SparkSession:
    """A session of its own settings in the same application, to read a checkpoint of this shape."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    # Spark's reader takes the ids of files from the commit log only if the session says so.
    has_ids = shape.commits[shape.batch].state_ids is not None
    session.conf.set(FILE_IDS, "2" if has_ids else "1")
    return session
