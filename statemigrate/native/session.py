"""The session that a command reads Spark's own state with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyspark

from statemigrate.checkpoint.rows import partition_of
from statemigrate.native.checkpoint import active_session
from statemigrate.native.versions import release_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Spark = SparkSession | Callable[[], SparkSession] | None
    """A session, a function that makes one when it is needed first, or None: the active one."""


def session_of(given: Spark, checkpoint: str) -> SparkSession:
    """The session to read ``checkpoint`` with. Raises `CheckpointError` if there is none."""
    if given is None:
        return active_session(checkpoint)
    return given() if callable(given) else given


# Rows in the partition that a column of theirs numbers, on every release of Spark.


_PLACES_BY_NUMBER = (4, 1)
_COLUMN = "__partition"


def placed(rows: DataFrame, partitions: int, number: str) -> DataFrame:
    """``rows`` in so many partitions, each row in the one that its column ``number`` says."""
    if release_line(pyspark.__version__) >= _PLACES_BY_NUMBER:
        return rows.repartitionById(partitions, number)
    # Before, Spark placed by hash alone: in place of a number stands one whose hash lies there.
    from pyspark.sql import functions

    stand_ins = functions.array(*[functions.lit(each) for each in hashed_into(partitions)])
    named = rows.withColumn(_COLUMN, functions.element_at(stand_ins, functions.col(number) + 1))
    return named.repartition(partitions, _COLUMN).drop(_COLUMN)


def hashed_into(partitions: int) -> list[int]:
    """For each partition a number of 32 bits whose hash lies in it."""
    tried = 8 * partitions
    while True:
        places = partition_of([pa.array(np.arange(tried, dtype=np.int32))], partitions)
        found, first = np.unique(places, return_index=True)
        if len(found) == partitions:
            return [int(each) for each in first]
        tried *= 2
