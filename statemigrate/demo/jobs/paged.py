"""The deployments on pages: the same processors, many keys in one page of Spark's own state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from statemigrate.demo.jobs.native import STORE, Batches, chunk_of, event_stream, started
from statemigrate.demo.stage.places import DemoFolder, example_migrations
from statemigrate.demo.stage.reporting import reported
from statemigrate.demo.stage.rows import COLUMNS, OUTPUT
from statemigrate.deployment import StoredFamily, family_name
from statemigrate.families import Span
from statemigrate.native.backfill.plan import plan_backfill
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.pages.live.families import fingerprint
from statemigrate.pages.live.rows import BUCKET
from statemigrate.pages.live.visits import key_fingerprint
from statemigrate.pages.page.layout import Place
from statemigrate.pages.page.page import Page
from statemigrate.pages.query import paged
from statemigrate.pages.record import VARIABLE, PagesRecord
from statemigrate.pages.startup.checked import record_of
from statemigrate.pages.startup.leftovers import older
from statemigrate.processor.keys import KeyCodec
from statemigrate.scripts import ScriptFolder

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
    batches = Batches(query, processor, left, gone)
    with reported(batches.so_far, folder.progress(role)):
        query.processAllAvailable()
    query.stop()


def paged_state_rows(spark: SparkSession, folder: DemoFolder) -> Any:
    """The state after the last batch as `statemigrate.demo.stage.rows.COLUMNS`, one row a key."""
    import pyarrow as pa

    from statemigrate.demo.jobs.after import cents

    state = _Pages(spark, folder)
    lineage = ScriptFolder(example_migrations()).lineage(STORE)
    rows = []
    for entity, auction in state.values(family_name(lineage, lineage.head)):
        item, price = auction["item"], auction["price"]
        told = item["name"], item["category"], None
        money = price["bids"], cents(price["total"]), cents(price["highest"])
        rows.append((entity, auction["seller"], *told, *money))
    for entity, person in state.values("persons"):
        rows.append((entity, None, person["name"], None, person["city"], None, None, None))
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


class _Pages:
    """The pages of the last committed batch, all of them."""

    def __init__(self, spark: SparkSession, folder: DemoFolder) -> None:
        from pyspark.sql.types import StructType

        checkpoint = SparkCheckpoint(str(folder.checkpoint), spark)
        self.record: PagesRecord = record_of(checkpoint)
        key = StructType.fromJson(dict(self.record.key))
        self._keys, mark = KeyCodec(key), key_fingerprint(key)
        rows = checkpoint.frame(VARIABLE).selectExpr(f"key.{BUCKET} AS at", "value.page AS page")
        self._pages = [
            Page(Place(self.record.pages, row.at, mark), bytes(row.page)) for row in rows.collect()
        ]

    @property
    def families(self) -> Mapping[str, StoredFamily]:
        """Those that the record of the pages knows, by name."""
        stores = self.record.stores.values()
        return {each.name: each for store in stores for each in store.families}

    def count(self, family: str) -> int:
        """The entries of a family."""
        return sum(page.counts.get(family, 0) for page in self._pages)

    def values(self, family: str) -> Iterator[tuple[str, Any]]:
        """Each entity of a family with its value."""
        decode = self.families[family].format
        for page in self._pages:
            if page.holds(family):
                section = page.section(family, fingerprint(decode))
                for key, data in section.scan(Span()):
                    yield self._keys.decode(key)[0], decode.decode(data)


def _processor(role: str) -> Any:
    from statemigrate.demo.jobs import after, before

    return before.AuctionHouse() if role == "before" else after.AuctionHouse()


def _pages(folder: DemoFolder) -> int:
    options = folder.options
    return max(options.partitions, options.keys // _KEYS_A_PAGE)


def _planned(spark: SparkSession, folder: DemoFolder) -> int:
    """Plan a backfill of every page; how many values are to be migrated."""
    scripts = ScriptFolder(example_migrations()).survey()
    chunk = chunk_of(_pages(folder))
    plan_backfill(str(folder.checkpoint), scripts, {}, chunk, spark=spark, older=older)
    return _Pages(spark, folder).count(STORE)


def _gone(spark: SparkSession, folder: DemoFolder) -> tuple[str, ...]:
    """The families that were there and that no page has an entry of any more."""
    state = _Pages(spark, folder)
    return tuple(sorted(name for name in state.families if not state.count(name)))
