"""Queries of Spark's own operators, run on either state store provider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.sessions import spark, use_folders

from statemigrate.checkpoint.logs.entries import PROVIDER, ROCKSDB_PROVIDER

__all__ = ["spark"]

use_folders("operators", "spark")

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@pytest.fixture(scope="session", params=[HDFS, ROCKSDB_PROVIDER], ids=["hdfs", "rocksdb"])
def checkpoint_of(request, spark, tmp_path_factory) -> Callable[[str], Path]:
    """Give the checkpoint of a query by its name; each is run once on a provider."""
    from queries import run

    folder = tmp_path_factory.mktemp("operators")
    made: dict[str, Path] = {}

    def checkpoint(name: str) -> Path:
        if name not in made:
            before = spark.conf.get(PROVIDER, HDFS)
            spark.conf.set(PROVIDER, request.param)
            try:
                made[name] = run(spark, name, folder)
            finally:
                spark.conf.set(PROVIDER, before)
        return made[name]

    return checkpoint
