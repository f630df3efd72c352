"""The session that a command reads Spark's own state with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from statemigrate.native.spark_state.reader import active_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Spark = SparkSession | Callable[[], SparkSession] | None
    """A session, a function that makes one when it is needed first, or None: the active one."""


def session_of(given: Spark, checkpoint: str) -> SparkSession:
    """The session to read ``checkpoint`` with. Raises `CheckpointError` if there is none."""
    if given is None:
        return active_session(checkpoint)
    return given() if callable(given) else given
