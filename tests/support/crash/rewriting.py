"""Lives that rewrite a checkpoint, each a driver of its own in the one JVM that is started before.

A life is a child of a process that has started Java and no more, and makes a connection of its own;
Spark's application goes on in that JVM whichever way a driver ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.rewrite.sources import RewriteOptions

_CONF = {
    "spark.app.name": "lives",
    # A task that fails is tried again, as on a cluster.
    "spark.master": "local[2,4]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "support.crash.armed_daemon",
    "spark.sql.streaming.stateStore.providerClass": PROVIDERS["rocksdb"].class_name,
    "spark.python.worker.reuse": "false",
    "spark.sql.session.timeZone": "UTC",
}


def prepare() -> None:
    """Start Java."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf(loadDefaults=False)
    for name, value in _CONF.items():
        conf.set(name, value)
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    gateway = launch_gateway(conf, silent)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.gateway_parameters.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.gateway_parameters.auth_token


def making(root: str, old: str, days: list[int]) -> list[str]:
    """Feed some days, and run the query on them; return the rows that it gave, as JSON."""
    folder = Path(root, "input")
    folder.mkdir(exist_ok=True)
    for day in days:
        rows = [_row(day, n) for n in range(20)]
        (folder / f"{day:02d}.json").write_text("\n".join(map(json.dumps, rows)))
    return going_on(root, old)


def going_on(root: str, checkpoint: str) -> list[str]:
    """Run the query on what it was not fed yet; return the rows that it gave, as JSON."""
    into = f"{root}/given-{checkpoint}-{len(list(Path(root).glob('given-*')))}"
    spark = _session()
    events = spark.readStream.schema("k STRING, v BIGINT, at TIMESTAMP")
    late = events.json(f"{root}/input").withWatermark("at", "30 seconds")
    once = late.dropDuplicates(["k", "v", "at"])
    totals = once.groupBy(F.window("at", "1 minute"), "k").agg(F.sum("v").alias("total"))
    writer = totals.writeStream.format("json").option("path", into).outputMode("append")
    writer = writer.option("checkpointLocation", f"{root}/{checkpoint}")
    writer.trigger(availableNow=True).start().awaitTermination()
    given = Path(into).glob("*.json")
    return sorted(line for each in given for line in each.read_text().splitlines())


def rewriting(root: str) -> int:
    """Rewrite to other partitions; return how many rows were written."""
    made = rewrite_checkpoint(
        f"{root}/old",
        f"{root}/new",
        options=RewriteOptions(partitions=3),
        migrations=None,
        apply=True,
        spark=_session(),
    )
    assert made.report is not None
    return sum(each.total.count for each in made.report.families)


def verifying(root: str) -> list[str]:
    """What is wrong with the new checkpoint."""
    return list(verify(f"{root}/old", f"{root}/new", spark=_session()).problems)


def _row(day: int, n: int) -> dict[str, Any]:
    at = f"2026-01-01T00:{day:02d}:{n:02d}Z"
    return {"k": f"k{n % 7}", "v": n // 2 * day, "at": at}


def _session() -> SparkSession:
    gateway: Any = launch_gateway()
    SparkContext._ensure_initialized(gateway=gateway)  # type: ignore[attr-defined]
    # What there is in the JVM, or the first of its settings.
    started = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    known = gateway.jvm.JavaSparkContext(started)
    context = SparkContext(gateway=gateway, jsc=known, conf=SparkConf())
    context.setLogLevel("OFF")
    return SparkSession(context)
