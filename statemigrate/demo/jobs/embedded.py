"""The deployments on the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.demo.events import SCHEMA
from statemigrate.demo.jobs.output import output_files
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import OUTPUT, BatchOutcome, reported
from statemigrate.embedded import EmbeddedOptions, Layout, RunningQuery
from statemigrate.embedded_query import EmbeddedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_embedded(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    """Run a deployment until input and backfill are both done."""
    running = start_query(spark, folder, _processor(role))
    with reported(
        lambda: [BatchOutcome.of(each) for each in running.progress], folder.progress(role)
    ):
        running.processAllAvailable()
    running.stop()


def start_query(spark: SparkSession, folder: DemoFolder, processor: Any) -> RunningQuery:
    """The streaming query of both deployments; only the processor differs."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return EmbeddedQuery(
        stream.parquet(str(folder.events)),
        groupBy="entity",
        processor=processor,
        outputStructType=OUTPUT,
        checkpoint=folder.checkpoint,
        sink=output_files(folder.output),
        options=EmbeddedOptions(
            partitions=folder.options.partitions, working_directory=str(folder.working)
        ),
    ).start()


def changelogs_written(checkpoint: Path, partitions: int, batch: int) -> int:
    """How many partitions have written their changelog of a batch."""
    layout = Layout.of(checkpoint)
    places = [layout.partition(number) for number in range(partitions)]
    return sum(any(place.glob(f"{batch:012d}-*.changelog")) for place in places)


def _processor(role: str) -> Any:
    from statemigrate.demo.jobs import after, before

    return {"before": before, "after": after}[role].AuctionHouse()
