"""Whether the sources of a session's queries have names, so that ours needs one too.

Spark wants a name of every source of a query, or of none (``readStream.name``, from 4.2 on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

_NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def reader_named(spark: SparkSession, name: str) -> DataStreamReader:
    """A reader for a stream, under the name where the session's sources have names."""
    reader = spark.readStream
    named = (spark.conf.get(_NAMED, "false") or "").lower() == "true"
    return reader.name(name) if named else reader
