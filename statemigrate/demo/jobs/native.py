"""The deployments on Spark's own state: a plain query at first, then the same one migrating."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.demo.events import SCHEMA
from statemigrate.demo.jobs.output import output_files
from statemigrate.demo.paths import DemoFolder, example_migrations
from statemigrate.demo.stage import OUTPUT, BatchOutcome, reported
from statemigrate.deployment import family_name
from statemigrate.native import OlderFamilies, migrated, migration_counts, plan_backfill
from statemigrate.scripts import ScriptFolder
from statemigrate.stateful import with_backfill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


STORE = "auctions"
_CHUNKS = 6
"""About how many batches the backfill takes."""

_STATE = """
SELECT
    key.entity, value.seller, value.item.name, value.item.category, CAST(NULL AS STRING) AS city,
    value.price.bids, CAST(value.price.total * 100 AS BIGINT) AS total,
    CAST(value.price.highest * 100 AS BIGINT) AS highest
FROM {auctions}
UNION ALL
SELECT key.entity, NULL, value.name, NULL, value.city, NULL, NULL, NULL FROM {persons}
"""


def run_native(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    """Run a deployment until input and backfill are both done."""
    processor = _processor(folder, role)
    left = 0
    stream = event_stream(spark, folder)
    if role != "before":
        stream = with_backfill(stream, by="entity", checkpoint=folder.checkpoint)
    if role == "after":
        left = _plan(spark, folder)
    query = started(_transformed(stream, processor), folder)
    batches = CountedBatches(query, processor, left, _dropped(processor))
    with reported(batches.so_far, folder.progress(role)):
        query.processAllAvailable()
    query.stop()


def state_rows(spark: SparkSession, folder: DemoFolder) -> Any:
    """The state after the last batch as `statemigrate.demo.stage.COLUMNS`, one row a key."""
    from statemigrate.native import SparkCheckpoint

    checkpoint = SparkCheckpoint(str(folder.checkpoint), spark)
    lineage = ScriptFolder(example_migrations()).lineage(STORE)
    auctions = checkpoint.frame(family_name(lineage, lineage.head))
    persons = checkpoint.frame("persons")
    # The reader's session may be another one.
    session = auctions.sparkSession
    return session.sql(_STATE, auctions=auctions, persons=persons).toArrow()


def partitions_written(checkpoint: Path, partitions: int, batch: int) -> int:
    """How many partitions have written their state of a batch: Spark counts versions from 1."""
    places = [checkpoint / "state" / "0" / str(number) for number in range(partitions)]
    version = re.compile(rf"{batch + 1}(_.*)?\.(changelog|zip)")
    return sum(any(version.fullmatch(path.name) for path in place.glob("*")) for place in places)


def _processor(folder: DemoFolder, role: str) -> Any:
    from statemigrate.demo.jobs import after, before

    if role == "before":
        return before.AuctionHouse()
    return migrated(
        after.AuctionHouse(), migrations=example_migrations(), checkpoint=folder.checkpoint
    )


def event_stream(spark: SparkSession, folder: DemoFolder) -> DataFrame:
    """The events that have arrived, a file a batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder.events))


def chunk_of(keys: int) -> int:
    """How many keys, or pages, a batch of the backfill takes."""
    return max(1, keys // _CHUNKS)


def _plan(spark: SparkSession, folder: DemoFolder) -> int:
    chunk = max(1_000, chunk_of(folder.options.auctions))
    scripts = ScriptFolder(example_migrations()).survey()
    families = OlderFamilies(str(folder.checkpoint), None, spark, scripts, {})
    return plan_backfill(families, chunk).keys


def _transformed(stream: DataFrame, processor: Any) -> DataFrame:
    return stream.groupBy("entity").transformWithState(
        statefulProcessor=processor,
        outputStructType=OUTPUT,
        outputMode="Update",
        timeMode="None",
    )


def started(result: DataFrame, folder: DemoFolder) -> Any:
    """Start the query that gives ``result`` to the sink."""
    writer = result.writeStream.outputMode("update").foreachBatch(output_files(folder.output))
    return writer.option("checkpointLocation", str(folder.checkpoint)).start()


def _dropped(processor: Any) -> tuple[str, ...]:
    from statemigrate.native import DEPLOYED

    deployed = vars(processor).get(DEPLOYED)
    drained = {} if deployed is None else deployed.drained
    return tuple(family.name for families in drained.values() for family in families)


class CountedBatches:
    """The batches of a query so far, with what its workers counted."""

    def __init__(self, query: Any, processor: Any, left: int, dropped: tuple[str, ...]) -> None:
        self._query = query
        self._counts = migration_counts(processor)
        self._left = left
        self._dropped = dropped
        self._touched = self._backfilled = 0
        self._batches: list[BatchOutcome] = []

    def so_far(self) -> list[BatchOutcome]:
        """Those that are done, oldest first."""
        last = self._batches[-1].number if self._batches else -1
        for each in self._query.recentProgress:
            if each.batchId > last and each.numInputRows:
                self._batches.append(self._made(json.loads(each.json)))
        return self._batches

    def _made(self, progress: dict[str, Any]) -> BatchOutcome:
        touched, backfilled = self._new_counts()
        self._left -= touched + backfilled
        dropped, self._dropped = self._dropped, ()
        return BatchOutcome(
            number=progress["batchId"],
            rows=progress["sources"][0]["numInputRows"],
            left=self._left,
            touched=touched,
            backfilled=backfilled,
            milliseconds=progress["durationMs"]["triggerExecution"],
            retired=dropped,
        )

    def _new_counts(self) -> tuple[int, int]:
        if self._counts is None:
            return 0, 0
        touched = self._counts.touched - self._touched
        backfilled = self._counts.backfilled - self._backfilled
        self._touched += touched
        self._backfilled += backfilled
        return touched, backfilled
