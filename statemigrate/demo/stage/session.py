"""The Spark session of the demonstration's processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.pinned import HDFS_PROVIDER, PROVIDER, ROCKSDB_PROVIDER
from statemigrate.demo.stage.places import DemoFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM that lives for a minute spends more on optimising its code than that code gives back.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def spark_session(folder: DemoFolder) -> SparkSession:
    """A session that keeps all its files in the folder and its messages to itself."""
    from pyspark.sql import SparkSession

    logging = (Path(__file__).parent / "log4j2.properties").as_uri()
    options = (
        f"-Dlog4j2.configurationFile={logging}",
        f"-Djava.io.tmpdir={folder.temporary}",
        *_SHORT_LIVED,
    )
    java = " ".join(f'"{option}"' for option in options)
    settings = {
        "spark.driver.extraJavaOptions": java,
        "spark.sql.warehouse.dir": str(folder.temporary / "warehouse"),
        "spark.sql.shuffle.partitions": str(folder.options.partitions),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": sys.executable,
        PROVIDER: _provider(folder),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(folder.options.master).appName("statemigrate demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _provider(folder: DemoFolder) -> str:
    """Several variables need RocksDB; what is rewritten begins with Spark's default."""
    return HDFS_PROVIDER if folder.options.engine == "rewrite" else ROCKSDB_PROVIDER
