"""A query's life over Spark Connect, in a process of its own: either kind of session needs one.

Arguments: an empty folder. Prints one line of JSON a step, for `test_spark_connect`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from native_pipeline import NativePipeline
from pyspark.sql import SparkSession
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, Scripts, batch

from statemigrate import (
    BackfillListener,
    backfill,
    dry_run,
    migrated,
    rollback,
    status,
    with_backfill,
)
from statemigrate.commands.adopt import adopt
from statemigrate.errors import StartupError

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
BASE = {"tally": CENTS}


class ConnectPipeline(NativePipeline):
    """A sink that writes a folder a batch: over Connect it runs in a process of the server's."""

    def start(self, result: Any, **trigger: Any) -> Any:
        output = str(self.root / "output")

        def sink(rows: Any, number: int) -> None:
            rows.write.mode("overwrite").parquet(f"{output}/batch={number}")

        writer = result.writeStream.outputMode("update").foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def with_backfill(self) -> Any:
        return with_backfill(self.stream(), self.by, checkpoint=self.checkpoint)


class Life:
    """One query, with what it must hold."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.expected = Expected()
        self.pipeline = ConnectPipeline(spark, root)
        self.checkpoint = str(self.pipeline.checkpoint)
        self.scripts = Scripts(root / "migrations").write()
        self.named = {"migrations": self.scripts, "spark": spark}

    def migrated(self, code: Any, **options: Any) -> Any:
        return migrated(code, migrations=self.scripts, checkpoint=self.checkpoint, **options)

    def feed(self, name: str, keys: range, target: str) -> None:
        rows = batch(name, keys)
        self.pipeline.feed(rows)
        self.expected.process(rows, target)

    def check(self, *live: str) -> bool:
        """Whether every key of every family is what the same computation in Python has."""
        return self.pipeline.all_state() == self.expected.stored(*live)


def main(root: Path) -> None:
    """The whole life, step by step."""
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(root / "warehouse")}.items():
        builder = builder.config(name, value)
    spark: Any = builder.getOrCreate()
    life = Life(spark, root / "pipeline")
    try:
        live(life, spark)
    finally:
        spark.stop()


def live(life: Life, spark: Any) -> None:
    """Plain code, adopted, migrated by touch and by backfill, and taken back."""
    pipeline = life.pipeline
    life.feed("first", range(40), CENTS)
    pipeline.deploy_natively(CentsTally())
    say("plain", life.check(CENTS))

    tried = dry_run("tally", checkpoint=life.checkpoint, **life.named)
    say("dry run", [tried.passed, tried.failed])
    adopt(life.checkpoint, apply=True, wait=0)
    plan = backfill(life.checkpoint, keys_per_chunk=15, **life.named)
    say("planned", plan.keys)

    life.feed("live", range(5), AMOUNTS)
    figures: list[Any] = []
    listener = BackfillListener(life.checkpoint, figures.append)
    spark.streams.addListener(listener)
    pipeline.deploy_natively(life.migrated(AmountsTally()), pipeline.with_backfill())
    life.expected.drain(AMOUNTS)
    say("migrated", life.check(CENTS, AMOUNTS))
    spark.streams.removeListener(listener)
    say("listened", [len(figures) > 0, sum(each.keys for each in figures)])
    (store,) = status(life.checkpoint, **life.named).stores
    say("status", [store.store, store.state, store.in_target])

    life.feed("retiring", range(3, 8), AMOUNTS)
    pipeline.deploy_natively(life.migrated(AmountsTally()), pipeline.with_backfill())
    say("retired", life.check(AMOUNTS))

    try:
        pipeline.result(CentsTally(), pipeline.with_backfill())
        say("older code", "not refused")
    except StartupError as error:
        say("older code", type(error).__name__)

    life.feed("back", range(30, 45), CENTS)
    older = life.migrated(CentsTally(), targets=BASE)
    pipeline.deploy_natively(older, pipeline.with_backfill())
    say("back by touch", life.check(CENTS, AMOUNTS))
    rollback(life.checkpoint, to=CENTS, apply=True, **life.named)
    older = life.migrated(CentsTally(), targets=BASE)
    pipeline.deploy_natively(older, pipeline.with_backfill())
    life.expected.drain(CENTS)
    say("taken back", life.check(CENTS, AMOUNTS))


def say(step: str, found: Any) -> None:
    print(json.dumps([step, found]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
