"""Pages opened in the tasks that Spark's reader gives them to, an entry at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.blocks import in_blocks
from statemigrate.deployment import StoredFamily
from statemigrate.families import Span
from statemigrate.pages.live.families import fingerprint
from statemigrate.pages.live.visits import key_fingerprint
from statemigrate.pages.page.columns import is_over
from statemigrate.pages.page.elements import elements_of
from statemigrate.pages.page.layout import Place
from statemigrate.pages.page.outside import ReadOutside
from statemigrate.pages.page.page import Page
from statemigrate.pages.record import PagesRecord
from statemigrate.pages.startup.checked import check_recorded
from statemigrate.state.paged.columns import Element, KeyColumns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
        place = Place(self.record.pages, number, self._fingerprint)
        values = {(each["family"], each["key"]): each["value"] for each in large or ()}
        page = Page(place, data, ReadOutside(values))
        check_recorded(self.record, {n: {each} for n, each in page.formats.items()}, self.path)
        return page

    def entries(
        self, page: Page, family: StoredFamily, span: Span, *, is_list: bool
    ) -> list[Element]:
        """A family's entries in the order of their keys, of lists an element each."""
        if not page.holds(family.name):
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

    Only those whose keys begin with ``prefix``.
    """

    pages: StoredPages
    family: StoredFamily
    keys: KeyColumns
    is_list: bool
    prefix: bytes = b""

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
        return pa.RecordBatch.from_arrays(columns, self.schema.names)


def _rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in PAGES), strict=True)
