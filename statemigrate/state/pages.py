"""The committed state of a paged query: entries, whichever page they are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.blocks import in_blocks
from statemigrate.checkpoint.logs.entries import read_entry
from statemigrate.checkpoint.rows.hashing import partition_of
from statemigrate.deployment import StoredFamily, StoredStore, StorePlan, applied_scripts
from statemigrate.families import Span
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import SparkCheckpoint, name_in
from statemigrate.pages.columns import PageId, ReadOutside, elements_of, is_over
from statemigrate.pages.families import fingerprint
from statemigrate.pages.page import Page
from statemigrate.pages.record import PagesRecord, large_of
from statemigrate.pages.rows import BUCKET, arrow_schema
from statemigrate.pages.startup import check_recorded, pages_in, record_of
from statemigrate.pages.visit import key_fingerprint
from statemigrate.processor.keys import KeyCodec
from statemigrate.processor.rows import RowCodec
from statemigrate.state.protocol import CarriesErrors, Entry, reraising_worker_errors
from statemigrate.state.rows import moments
from statemigrate.state.spark import OperatorState, Reading, SparkState, arranged, in_target
from statemigrate.state.spark_operators import EnvelopeValues, KeyRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


# Entries of pages as columns of Arrow: keys as the structs that Spark has, values as bytes.


Element = tuple[bytes, bytes, int]
"""The bytes of a key, a map's own included, those of a value or of an element of a list, and when
that expires: in milliseconds since the epoch, 0 for never."""


class KeyColumns:
    """Turns the bytes of grouping keys, and of a map's own, into structs and back."""

    def __init__(self, key: StructType, user_key: StructType | None = None) -> None:
        self.key = key
        self.user_key = user_key

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyColumns, (self.key, self.user_key)

    def encoded(self, key: Sequence[Any]) -> bytes:
        """The bytes that an entry's key begins with; ``key`` may end before its last column."""
        width = len(self.key)
        parts = ((self.key, key[:width]), (self.user_key, key[width:]))
        return b"".join(
            KeyCodec(_first(columns, len(values))).encode(values)
            for columns, values in parts
            if columns is not None and values
        )

    def arrays(self, keys: Sequence[bytes]) -> list[Any]:
        """The grouping keys as an array of structs, and where there are any the map's own."""
        found = [self._codec.split(data) for data in keys]
        arrays = [_structs(self.key, [key for key, _ in found])]
        if self.user_key is not None:
            codec = KeyCodec(self.user_key)
            arrays.append(_structs(self.user_key, [codec.decode(rest) for _, rest in found]))
        return arrays

    @cached_property
    def _codec(self) -> KeyCodec:
        return KeyCodec(self.key)


def _first(columns: StructType, count: int) -> StructType:
    from pyspark.sql.types import StructType

    return StructType(columns.fields[:count])


def _structs(columns: StructType, keys: Sequence[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    plain = RowCodec(columns).to_value
    return pa.array([plain(key) for key in keys], pa.struct(list(arrow_schema(columns))))


# Pages opened in the tasks that Spark's reader gives them to, an entry at a time.


PAGES = ("number", "page", "large", "partition_id")
"""The columns of the frames that tasks of this room are run over."""
LARGE_VALUES = "ARRAY<STRUCT<family: STRING, key: BINARY, value: BINARY>>"
"""The type of ``large``, the values that lie outside of the page; null where none does."""
_ENTRIES_A_BATCH = 10_000
COUNTS = "family STRING, partition_id INT, entries BIGINT"


@dataclass(frozen=True)
class StoredPages:
    """How the pages of the checkpoint at ``path`` are opened, whose ``record`` this is.

    What has expired by ``now``, in milliseconds since the epoch, is passed over.
    """

    record: PagesRecord
    path: str
    now: int = 0

    @cached_property
    def key(self) -> StructType:
        """The type of the grouping key."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(dict(self.record.key))

    def opened(self, number: int, data: bytes, large: Iterable[Mapping[str, Any]] | None) -> Page:
        """One page, with the large values that lie outside of it.

        Raises `PageError` for what is no page of this checkpoint, and `CorruptFileError` for one
        with what the record does not know.
        """
        place = PageId(self.record.pages, number, self._fingerprint)
        values = {(each["family"], each["key"]): each["value"] for each in large or ()}
        page = Page(place, data, ReadOutside(values))
        check_recorded(self.record, {n: {each} for n, each in page.formats.items()}, self.path)
        return page

    def entries(
        self, page: Page, family: StoredFamily, span: Span, *, is_list: bool
    ) -> list[Element]:
        """A family's entries in the order of their keys, of lists an element each."""
        if not page.contains_family(family.name):
            return []
        section = page.section(family.name, fingerprint(family.format))
        found = section.scan(span)
        if is_list:
            elements = ((key, *each) for key, data in found for each in elements_of(data))
        else:
            elements = ((key, data, section.expiry(key)) for key, data in found)
        return [each for each in elements if not is_over(each[2], self.now)]

    @cached_property
    def _fingerprint(self) -> bytes:
        return key_fingerprint(self.key)


@dataclass(frozen=True)
class Counting:
    """Counts the values in pages, by family: of a list its elements."""

    pages: StoredPages

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """A row of `COUNTS` for each family of each page."""
        import pyarrow as pa

        families = [
            (family, store.kind == "list")
            for store in self.pages.record.stores.values()
            for family in store.families
        ]
        for batch in batches:
            rows = [
                (family.name, partition, count)
                for *stored, partition in _rows(batch)
                for family, count in self._counts(self.pages.opened(*stored), families)
            ]
            columns = zip(*rows, strict=True) if rows else ((), (), ())
            arrays = map(pa.array, columns, (pa.string(), pa.int32(), pa.int64()))
            yield pa.RecordBatch.from_arrays(list(arrays), ["family", "partition_id", "entries"])

    def _counts(
        self, page: Page, families: list[tuple[StoredFamily, bool]]
    ) -> Iterator[tuple[StoredFamily, int]]:
        for family, is_list in families:
            # Opened also where its number is enough: so it is seen that it is whole.
            found = self.pages.entries(page, family, Span(), is_list=is_list)
            if found:
                yield family, len(found)


@dataclass(frozen=True)
class Entries:
    """Gives the entries of one family, of list state an element each.

    Only those whose keys begin with ``prefix``. With ``expiry`` batches have another column,
    ``expires_at``, of when an entry expires.
    """

    pages: StoredPages
    family: StoredFamily
    keys: KeyColumns
    is_list: bool
    prefix: bytes = b""
    expiry: bool = False

    @property
    def schema(self) -> StructType:
        """The columns ``key``, ``user_key`` for a map, ``value`` and ``partition_id``."""
        from pyspark.sql.types import BinaryType, IntegerType, StructType

        found = StructType().add("key", self.keys.key)
        if self.keys.user_key is not None:
            found = found.add("user_key", self.keys.user_key)
        value = StructType().add("payload", BinaryType())
        return found.add("value", value).add("partition_id", IntegerType())

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The entries of each page, of large values not all at once."""
        for batch in batches:
            for *stored, partition in _rows(batch):
                found = iter(self._of(self.pages.opened(*stored)))
                for some in in_blocks(found, _ENTRIES_A_BATCH, lambda each: len(each[1])):
                    yield self._batch(some, partition)

    def _of(self, page: Page) -> list[Element]:
        span = Span.prefix(self.prefix)
        return self.pages.entries(page, self.family, span, is_list=self.is_list)

    def _batch(self, found: list[Element], partition: int) -> Any:
        import pyarrow as pa

        payloads = pa.array([value for _, value, _ in found], pa.binary())
        columns = [
            *self.keys.arrays([key for key, _, _ in found]),
            pa.StructArray.from_arrays([payloads], ["payload"]),
            pa.array([partition] * len(found), pa.int32()),
        ]
        names = list(self.schema.names)
        if self.expiry:
            columns.append(moments(pa.array([each[2] or None for each in found], pa.int64())))
            names.append("expires_at")
        return pa.RecordBatch.from_arrays(columns, names)


def _rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in PAGES), strict=True)


class Pages:
    """See `statemigrate.state.spark.OperatorState`: what the pages of a checkpoint hold.

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
        """See `OperatorState`."""
        return self._stored.key

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `OperatorState`: every family that the last deployment read or wrote."""
        stores = self._stored.record.stores.items()
        return {name: self._as_applied(each, self._lineages.get(name)) for name, each in stores}

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """See `OperatorState`: None for one that no deployment has had."""
        return self.beginning_with((), family)

    def value_of(self, family: StoredFamily) -> EnvelopeValues:
        """See `OperatorState`."""
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
        return pages.mapInArrow(CarriesErrors(task), task.schema)

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

        counted = self._pages.mapInArrow(CarriesErrors(Counting(self._stored)), COUNTS)
        rows = counted.groupBy("family", "partition_id").agg(
            functions.sum("entries"), functions.count("*")
        )
        with reraising_worker_errors():
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

    ``operator_state`` has, besides the ``pages``, the state of other operators of the query.
    """

    engine = "paged"
    target_is_deployed = keeps_control_source = True

    def __init__(
        self,
        checkpoint: str,
        batch: int,
        pages: Pages,
        operator_state: OperatorState,
        operator_stores: Iterable[str] = (),
    ) -> None:
        super().__init__(checkpoint, batch, operator_state, operator_stores)
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
        keys = KeyRows(self.key_of(store), plan.declared.user_key)
        for family in (plan.target, *plan.sources):
            rows = self._pages.beginning_with(key, family)
            if rows is not None:
                reading = Reading(family.name, rows, keys, self._pages.value_of(family))
                yield from arranged(plan, in_target(plan, family, reading.entries()))
