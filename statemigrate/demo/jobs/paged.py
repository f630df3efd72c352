"""The deployments on pages, many keys in one page of Spark's own state.

The first is called key by key, as on the other engines. The second takes many keys at once.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from statemigrate.demo.jobs.native import STORE, CountedBatches, chunk_of, event_stream, started
from statemigrate.demo.paths import DemoFolder, example_migrations
from statemigrate.demo.stage import COLUMNS, OUTPUT, reported
from statemigrate.native import OlderFamilies, plan_backfill
from statemigrate.pages import older
from statemigrate.scripts import ScriptFolder
from statemigrate.state import Project, open_committed, open_state
from statemigrate.stateful import paged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    batches = CountedBatches(query, processor, left, gone)
    with reported(batches.so_far, folder.progress(role)):
        query.processAllAvailable()
    query.stop()


def paged_state_rows(spark: SparkSession, folder: DemoFolder) -> Any:
    """The state after the last batch as `statemigrate.demo.stage.COLUMNS`, one row a key."""
    import pyarrow as pa

    from statemigrate.demo.jobs.after import cents

    rows = []
    with open_state(folder.checkpoint, migrations=example_migrations(), spark=spark) as state:
        for (entity,), auction in state[STORE].entries():
            item, price = auction["item"], auction["price"]
            named = item["name"], item["category"], None
            money = price["bids"], cents(price["total"]), cents(price["highest"])
            rows.append((entity, auction["seller"], *named, *money))
        for (entity,), person in state["persons"].entries():
            rows.append((entity, None, person["name"], None, person["city"], None, None, None))
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def _processor(role: str) -> Any:
    from statemigrate.demo.jobs import before, by_table

    return before.AuctionHouse() if role == "before" else by_table.AuctionHouseByTable()


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
    with closing(open_committed(folder.checkpoint, lineages, Project(spark=spark))) as state:
        counts = [each for store in state.stores for each in state.counts(store).items()]
    return tuple(sorted(name for name, held in counts if not sum(held.values())))
