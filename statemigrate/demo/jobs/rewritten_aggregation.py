"""The deployments of an aggregation, and the rewrite of its checkpoint between them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.logs import PROVIDER, ROCKSDB_PROVIDER
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.demo.events import SCHEMA
from statemigrate.demo.jobs.output import output_files
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import plain_outcomes, reported
from statemigrate.files import open_files
from statemigrate.rewrite import RewriteOptions, StateReader, rewriting_session, store_families
from statemigrate.scripts import ScriptFolder

SCRIPT = Path(__file__).with_name("one_row_an_auction.py")
_STATE = """
SELECT
    key.entity, value.count AS bids, value.sum AS total, value.max AS highest,
    value.sum_2 / value.count_2 AS mean
FROM {rows}
"""


def by_bidder(events: Annotated[DataFrame, SCHEMA]) -> DataFrame:
    """Each bidder's bids at each auction: what the first deployment computes."""
    bids = events.where("kind = 'bid'").groupBy("entity", "bidder")
    return bids.agg(
        F.count("*").alias("bids"), F.sum("price").alias("total"), F.max("price").alias("highest")
    )


def by_auction(events: Annotated[DataFrame, SCHEMA]) -> DataFrame:
    """Each auction's bids, and their mean: what the second one computes."""
    return (
        events.where("kind = 'bid'")
        .groupBy("entity")
        .agg(
            F.count("*").alias("bids"),
            F.sum("price").alias("total"),
            F.max("price").alias("highest"),
            F.avg("price").alias("mean"),
        )
    )


def run_rewriting(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    """Run a deployment until its input is done, or make the new checkpoint."""
    if role == "rewrite":
        _rewrite(spark, folder)
        return
    is_new = role == "after"
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    result = (by_auction if is_new else by_bidder)(stream.parquet(str(folder.events)))
    sink = output_files(folder.new_output if is_new else folder.output)
    writer = result.writeStream.outputMode("update").foreachBatch(sink)
    checkpoint = folder.new_checkpoint if is_new else folder.checkpoint
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    with reported(lambda: plain_outcomes(query), folder.progress(role)):
        query.processAllAvailable()
    query.stop()


def rewritten_rows(spark: SparkSession, folder: DemoFolder) -> Any:
    """The state after the last batch as columns of the result, one row an auction."""
    files = open_files(folder.new_checkpoint)
    shape = describe(files)
    (operator,) = shape.operators
    ((_, place),) = store_families(operator)
    session = rewriting_session(spark, shape)
    rows = StateReader(files, shape.batch, session).rows(operator, place)
    return session.sql(_STATE, rows=rows).toArrow()


def partitions_written(checkpoint: Path, partitions: int, batch: int) -> int:
    """How many partitions have written their state of a batch: Spark counts versions from 1."""
    places = [checkpoint / "state" / "0" / str(number) for number in range(partitions)]
    return sum((place / f"{batch + 1}.delta").exists() for place in places)


def _rewrite(spark: SparkSession, folder: DemoFolder) -> None:
    scripts = ScriptFolder.create(folder.migrations)
    shutil.copy(SCRIPT, scripts.versions / SCRIPT.name)
    made = rewrite_checkpoint(
        folder.checkpoint,
        folder.new_checkpoint,
        target=NewCode(f"{by_auction.__module__}:{by_auction.__name__}"),
        options=RewriteOptions(folder.options.partitions + 1, {PROVIDER: ROCKSDB_PROVIDER}),
        migrations=folder.migrations,
        apply=True,
        spark=spark,
    )
    assert made.report is not None, "it was applied"  # noqa: S101
    found = verify(
        folder.checkpoint, folder.new_checkpoint, migrations=folder.migrations, spark=spark
    )
    document = {"report": made.report.to_json(), "problems": found.problems}
    folder.rewritten.write_text(json.dumps(document))
