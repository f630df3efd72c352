"""The Spark session of a verb that reads Spark's own state."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.native.checkpoint import PROVIDER, ROCKSDB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """A session of this process alone, stopped at the end; the active one where there is one.

    What Spark reads by itself still holds: ``SPARK_CONF_DIR`` with its ``spark-defaults.conf`` and
    ``PYSPARK_SUBMIT_ARGS`` are the places for a remote file system's settings, or more memory.
    Raises `StatemigrateError` where there is no Java that Spark runs on.
    """
    from pyspark.sql import SparkSession

    from statemigrate.demo.java import require_java

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    require_java()
    session = _started()
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def session_for(checkpoint: str) -> Iterator[SparkSession | None]:
    """The session that a checkpoint is read with; None for one that needs none."""
    from statemigrate.inspect.opening import engine_of

    if engine_of(checkpoint) == "embedded":
        yield None
        return
    with local_session() as session:
        yield session


def _started() -> SparkSession:
    from pyspark.sql import SparkSession

    logging = (Path(__file__).parent / "log4j2.properties").as_uri()
    settings = {
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={logging}"',
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        PROVIDER: ROCKSDB,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("statemigrate")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if "PYSPARK_PYTHON" not in os.environ:
        # Only spark-submit reads the setting of that name.
        session.sparkContext.pythonExec = sys.executable
    return session
