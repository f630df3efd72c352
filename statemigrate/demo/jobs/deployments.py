"""The deployments of the demonstration on each engine that migrates a running query."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.demo.events import SCHEMA
from statemigrate.demo.jobs.output import output_files
from statemigrate.demo.paths import DemoFolder, example_migrations
from statemigrate.demo.stage import COLUMNS, OUTPUT, Batch, reported
from statemigrate.deployment import family_name
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.options import EmbeddedOptions
from statemigrate.embedded.query import EmbeddedQuery, RunningQuery
from statemigrate.native.backfill import OlderFamilies, plan_backfill
from statemigrate.native.decorator import migrated
from statemigrate.native.deployed import migration_counts
from statemigrate.pages.older_families import older
from statemigrate.scripts import ScriptFolder
from statemigrate.state.open import open_state
from statemigrate.state.project import Project
from statemigrate.state.reader import StateReader
from statemigrate.stateful import paged, with_backfill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# The deployments on Spark's own state: a plain query at first, then the same one migrating.


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
    processor = _processor(role, folder.checkpoint)
    left = 0
    stream = event_stream(spark, folder)
    if role != "before":
        stream = with_backfill(stream, by="entity", checkpoint=folder.checkpoint)
    if role == "after":
        left = _plan(spark, folder)
    query = started(_transformed(stream, processor), folder)
    batches = Batches(query, processor, left, _dropped(processor))
    with reported(batches.so_far, folder.progress(role)):
        query.processAllAvailable()
    query.stop()


def state_rows(spark: SparkSession, folder: DemoFolder) -> Any:
    """The state after the last batch as `statemigrate.demo.stage.COLUMNS`, one row a key."""
    from statemigrate.native.checkpoint import SparkCheckpoint

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


def _processor(role: str, checkpoint: Path | None = None) -> Any:
    """The processor of a deployment; Spark's own state compares it with the ``checkpoint``."""
    from statemigrate.demo.jobs import after, before

    if role == "before":
        return before.AuctionHouse()
    processor = after.AuctionHouse()
    if checkpoint is None:
        return processor
    return migrated(processor, migrations=example_migrations(), checkpoint=checkpoint)


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
    from statemigrate.native.deployed import DEPLOYED

    deployed = vars(processor).get(DEPLOYED)
    drained = {} if deployed is None else deployed.drained
    return tuple(family.name for families in drained.values() for family in families)


class Batches:
    """The batches of a query so far, with what its workers counted."""

    def __init__(self, query: Any, processor: Any, left: int, dropped: tuple[str, ...]) -> None:
        self._query = query
        self._counts = migration_counts(processor)
        self._left = left
        self._dropped = dropped
        self._touched = self._backfilled = 0
        self._batches: list[Batch] = []

    def so_far(self) -> list[Batch]:
        """Those that are done, oldest first."""
        last = self._batches[-1].number if self._batches else -1
        for each in self._query.recentProgress:
            if each.batchId > last and each.numInputRows:
                self._batches.append(self._made(json.loads(each.json)))
        return self._batches

    def _made(self, progress: dict[str, Any]) -> Batch:
        touched, backfilled = self._new_counts()
        self._left -= touched + backfilled
        dropped, self._dropped = self._dropped, ()
        return Batch(
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


# The deployments on pages: the same processors, many keys in one page of Spark's own state.


_KEYS_A_PAGE = 250


def run_paged(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    """Run a deployment until input and backfill are both done."""
    processor = _processor(role)
    left = _planned(spark, folder) if role == "after" else 0
    gone = () if role == "before" else _gone(spark, folder)
    result = paged(
        event_stream(spark, folder),
        by="entity",
        processor=processor,
        output=OUTPUT,
        checkpoint=folder.checkpoint,
        pages=_pages(folder),
    )
    query = started(result, folder)
    batches = Batches(query, processor, left, gone)
    with reported(batches.so_far, folder.progress(role)):
        query.processAllAvailable()
    query.stop()


def paged_state_rows(spark: SparkSession, folder: DemoFolder) -> Any:
    """The state after the last batch as `statemigrate.demo.stage.COLUMNS`, one row a key."""
    import pyarrow as pa

    from statemigrate.demo.jobs.after import cents

    rows = []
    with StateReader(folder.checkpoint, migrations=example_migrations(), spark=spark) as reader:
        for (entity,), auction in reader.entries(STORE):
            item, price = auction["item"], auction["price"]
            told = item["name"], item["category"], None
            money = price["bids"], cents(price["total"]), cents(price["highest"])
            rows.append((entity, auction["seller"], *told, *money))
        for (entity,), person in reader.entries("persons"):
            rows.append((entity, None, person["name"], None, person["city"], None, None, None))
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def _pages(folder: DemoFolder) -> int:
    options = folder.options
    return max(options.partitions, options.keys // _KEYS_A_PAGE)


def _planned(spark: SparkSession, folder: DemoFolder) -> int:
    """Plan a backfill of every page; how many values are to be migrated."""
    scripts = ScriptFolder(example_migrations()).survey()
    chunk = chunk_of(_pages(folder))
    families = OlderFamilies(str(folder.checkpoint), None, spark, scripts, {}, older)
    plan = plan_backfill(families, chunk)
    return sum(plan.families.values())


def _gone(spark: SparkSession, folder: DemoFolder) -> tuple[str, ...]:
    """The families that were there and that no page has an entry of any more."""
    lineages = ScriptFolder(example_migrations()).lineages()
    with closing(open_state(folder.checkpoint, lineages, Project(spark=spark))) as state:
        counts = [each for store in state.stores for each in state.counts(store).items()]
    return tuple(sorted(name for name, held in counts if not sum(held.values())))


# The deployments on the embedded engine.


def run_embedded(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    """Run a deployment until input and backfill are both done."""
    running = start_query(spark, folder, _processor(role))
    with reported(lambda: [Batch.of(each) for each in running.progress], folder.progress(role)):
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
