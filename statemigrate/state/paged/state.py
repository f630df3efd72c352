"""The committed state of a paged query: entries, whichever page they are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs.entries import read_entry
from statemigrate.checkpoint.rows.partitions import partition_of
from statemigrate.deployment import StoredFamily, StoredStore, StorePlan, applied_scripts
from statemigrate.migration import Lineage
from statemigrate.native.spark_state.operators import name_in
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.pages.live.rows import BUCKET
from statemigrate.pages.record import large_of
from statemigrate.pages.startup.checked import pages_in, record_of
from statemigrate.state.logical import arranged, in_target
from statemigrate.state.native.reading import Reading
from statemigrate.state.native.rows import EnvelopeValues, Keys
from statemigrate.state.native.state import Kept, SparkState
from statemigrate.state.paged.columns import KeyColumns
from statemigrate.state.paged.reading import (
    COUNTS,
    LARGE_VALUES,
    PAGES,
    Counting,
    Entries,
    StoredPages,
)
from statemigrate.state.protocol import Entry
from statemigrate.state.telling import Telling, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Pages:
    """See `statemigrate.state.native.state.Kept`: what the pages of a checkpoint hold.

    ``reader`` reads the last committed ``batch``. Raises as `record_of`.
    """

    def __init__(
        self, reader: SparkCheckpoint, batch: int, lineages: Mapping[str, Lineage]
    ) -> None:
        self._reader = reader
        self._lineages = lineages
        self.operator = name_in(reader.variables())
        """The name of the operator, empty where it has none."""
        # Spark's own state has nothing any more that had expired when its last batch began.
        begun = read_entry(reader.files, batch).timestamp
        self._stored = StoredPages(record_of(reader), reader.path, begun)

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `Kept`."""
        return self._stored.key

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`: every family that the last deployment read or wrote."""
        stores = self._stored.record.stores.items()
        return {name: self._as_applied(each, self._lineages.get(name)) for name, each in stores}

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """See `Kept`: None for one that no deployment has had."""
        return self.beginning_with((), family)

    def value_of(self, family: StoredFamily) -> EnvelopeValues:
        """See `Kept`."""
        return EnvelopeValues(family.format)

    def beginning_with(self, key: tuple[Any, ...], family: StoredFamily) -> DataFrame | None:
        """The rows of entries whose keys begin with ``key``: of a whole one a page is opened."""
        store = self._store_of(family)
        if store is None:
            return None
        keys = KeyColumns(self._stored.key, _struct(store.user_key))
        pages = self._pages
        if len(key) >= len(self._stored.key):
            pages = pages.where(pages["number"] == self._page_of(key))
        is_list = store.kind == "list"
        task = Entries(self._stored, family, keys, is_list=is_list, prefix=keys.encoded(key))
        return pages.mapInArrow(Telling(task), task.schema)

    def _as_applied(self, store: StoredStore, lineage: Lineage | None) -> StoredStore:
        """The store, whose scripts were applied where values came of them.

        Only where a script is another now all pages are counted to know that.
        """
        if lineage is None:
            return store
        if all(
            each.was_applied_as(store.applied.get(each.revision, each.checksum))
            for each in lineage.migrations
        ):
            return store
        held = [each for each in store.families if each.name in self.counts]
        return replace(store, applied=applied_scripts(lineage, held, store.applied))

    def _store_of(self, family: StoredFamily) -> StoredStore | None:
        stores = self.stores.values()
        return next((s for s in stores for f in s.families if f.name == family.name), None)

    @cached_property
    def counts(self) -> Mapping[str, Mapping[int, int]]:
        """By family with a value, how many there are in each partition of Spark's."""
        found: dict[str, dict[int, int]] = {}
        for name, partition, count, _ in self._counted:
            found.setdefault(name, {})[partition] = count
        return found

    def pages_with(self, families: Sequence[str]) -> int:
        """See `State`: a page with several of the families counts with each."""
        found = sum(pages for name, _, _, pages in self._counted if name in families)
        return min(found, self._stored.record.pages)

    @cached_property
    def _counted(self) -> list[tuple[str, int, int, int]]:
        """Family, partition, values and pages."""
        from pyspark.sql import functions

        counted = self._pages.mapInArrow(Telling(Counting(self._stored)), COUNTS)
        rows = counted.groupBy("family", "partition_id").agg(
            functions.sum("entries"), functions.count("*")
        )
        with told():
            return sorted((*row,) for row in rows.collect())

    @property
    def _pages(self) -> DataFrame:
        frame = pages_in(self._reader)
        pages = frame.selectExpr(f"key.{BUCKET} AS number", "value.page AS page", PAGES[-1])
        large = self._large
        if large is None:
            return pages.selectExpr(
                "number", "page", f"CAST(NULL AS {LARGE_VALUES}) AS large", PAGES[-1]
            )
        return pages.join(large, "number", "left")

    @cached_property
    def _large(self) -> DataFrame | None:
        """The values outside of each page, None where no page has any."""
        name = large_of(self.operator)
        if name not in self._reader.variables():
            return None
        frame = self._reader.frame(name)
        if frame.isEmpty():
            return None
        value = "struct(user_map_key.family, user_map_key.key, user_map_value.value) AS value"
        values = frame.selectExpr(f"key.{BUCKET} AS number", value)
        return values.groupBy("number").agg({"value": "collect_list"}).toDF("number", "large")

    def _page_of(self, key: tuple[Any, ...]) -> int:
        """The number of a key's page, by Spark's own hash of its columns."""
        keys = KeyColumns(self._stored.key)
        (found,) = keys.arrays([keys.encoded(key[: len(keys.key)])])
        return int(partition_of(found.flatten(), self._stored.record.pages)[0])


def _struct(columns: dict[str, Any] | None) -> StructType | None:
    from pyspark.sql.types import StructType

    return None if columns is None else StructType.fromJson(columns)


class PagedState(SparkState):
    """See `statemigrate.state.protocol.State`; as of ``batch``, the last committed one.

    ``kept`` has beside the ``pages`` what other operators of the query keep.
    """

    engine = "paged"

    def __init__(
        self,
        checkpoint: str,
        batch: int,
        pages: Pages,
        kept: Kept,
        operator_stores: Iterable[str] = (),
    ) -> None:
        super().__init__(checkpoint, batch, kept, operator_stores)
        self._pages = pages
        self.operator = pages.operator

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`: all families of pages are counted with the first."""
        if store in self.operator_stores:
            return super().counts(store, but=but)
        wanted = [each.name for each in self.stores[store].families if each.name != but]
        return {name: self._pages.counts.get(name, {}) for name in wanted}

    def pages_with(self, families: Sequence[str]) -> int | None:
        """See `State`."""
        return self._pages.pages_with(families)

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; family by family."""
        store = plan.declared.store
        if store in self.operator_stores or key is None:
            yield from super().entries(plan, key)
            return
        keys = Keys(self.key_of(store), plan.declared.user_key)
        for family in (plan.target, *plan.sources):
            rows = self._pages.beginning_with(key, family)
            if rows is not None:
                reading = Reading(family.name, rows, keys, self._pages.value_of(family))
                yield from arranged(plan, in_target(plan, family, reading.entries()))
