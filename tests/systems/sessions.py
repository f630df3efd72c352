"""A Spark session that reaches the systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def settings(warehouse: Path, jars: Iterable[Path], conf: Mapping[str, str]) -> dict[str, str]:
    """What such a session is told, before its Java is started."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.jars": ",".join(map(str, jars)),
        **conf,
    }


def session(told: Mapping[str, str]) -> Any:
    """Start it; a session that runs already cannot be given more jars."""
    from pyspark.sql import SparkSession

    assert SparkSession.getActiveSession() is None, "run the integration tests by themselves"
    builder = SparkSession.builder.master("local[2]")
    for name, value in told.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made
