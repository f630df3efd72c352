"""The entries of pages, as columns of Arrow or one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from statemigrate.blocks import in_blocks, size_of
from statemigrate.checkpoint.rows import partition_of
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.families import Span
from statemigrate.formats import plain_values
from statemigrate.numpy_arrays import arrow_array
from statemigrate.pages import (
    Page,
    PageId,
    PagesRecord,
    ReadOutside,
    arrow_schema,
    check_recorded,
    elements_of,
    fingerprint,
    has_outside,
    is_over,
    key_fingerprint,
)
from statemigrate.processor import TupleCodec, TupleKeyCodec
from statemigrate.state.user_rows import UserRows, begins_with, timestamps

if TYPE_CHECKING:
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
            TupleKeyCodec(_first(columns, len(values))).encode(values)
            for columns, values in parts
            if columns is not None and values
        )

    def arrays(self, keys: Sequence[bytes]) -> list[Any]:
        """The grouping keys as an array of structs, and where there are any the map's own."""
        found = [self._codec.split(data) for data in keys]
        arrays = [_structs(self.key, [key for key, _ in found])]
        if self.user_key is not None:
            codec = TupleKeyCodec(self.user_key)
            arrays.append(_structs(self.user_key, [codec.decode(rest) for _, rest in found]))
        return arrays

    @cached_property
    def _codec(self) -> TupleKeyCodec:
        return TupleKeyCodec(self.key)


def _first(columns: StructType, count: int) -> StructType:
    from pyspark.sql.types import StructType

    return StructType(columns.fields[:count])


def _structs(columns: StructType, keys: Sequence[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    plain = TupleCodec(columns).to_value
    return pa.array([plain(key) for key in keys], pa.struct(list(arrow_schema(columns))))


# Pages opened in the tasks that Spark's reader gives them to, an entry at a time.


PAGES = ("number", "page", "large", "partition_id")
"""The columns of the frames that tasks of this room are run over."""
LARGE_VALUES = "ARRAY<STRUCT<family: STRING, key: BINARY, value: BINARY>>"
"""The type of ``large``, the values that lie outside of the page; null where none does."""
_ENTRIES_A_BATCH = 10_000


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
            columns.append(timestamps(pa.array([each[2] or None for each in found], pa.int64())))
            names.append("expires_at")
        return pa.RecordBatch.from_arrays(columns, names)


def _rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in PAGES), strict=True)


# The pages of a checkpoint, as their files have them.


@dataclass(frozen=True)
class PageFiles:
    """The pages of an operator: ``stored`` has them, ``large`` the values that lie outside."""

    pages: StoredPages
    stored: UserRows
    large: UserRows | None

    def batches(self, partition: int) -> Iterator[Any]:
        """The pages of a partition, with the columns `PAGES`."""
        outside = () if self.large is None else self.large.batches(partition)
        yield from _with_large(self.stored.batches(partition), outside)

    def opened(self, partition: int) -> Iterator[Page]:
        """The pages of a partition, opened one after the other."""
        for batch in self.batches(partition):
            for *stored, _ in _rows(batch):
                yield self.pages.opened(*stored)

    def page_of(self, number: Any) -> Iterator[Any]:
        """One page, whose ``number`` is an array of one."""
        outside = () if self.large is None else self.large.under([number])
        yield from _with_large(self.stored.under([number]), outside)


def _with_large(stored: Iterable[Any], outside: Iterable[Any]) -> Iterator[Any]:
    """Batches of pages with what lies outside of them, which is not read where nothing does."""
    import pyarrow as pa

    after = _Outside(outside)
    for batch in stored:
        numbers, partitions = batch["key"].field(0), batch["partition_id"]
        pages = batch["value"].field(0)
        data = pages.to_pylist()
        have_outside = list(map(has_outside, data))
        if not any(have_outside):
            columns = [numbers, pages, pa.nulls(len(pages)), partitions]
            yield pa.RecordBatch.from_arrays(columns, list(PAGES))
            continue
        plain = numbers.to_pylist(), data, have_outside, partitions.to_pylist()
        rows = (
            (number, page, after.of(number) if has_more else None, partition)
            for number, page, has_more, partition in zip(*plain, strict=True)
        )
        for some in in_blocks(rows, len(pages), lambda row: size_of(row[2])):
            arrays = map(pa.array, zip(*some, strict=True))
            yield pa.RecordBatch.from_arrays(list(arrays), list(PAGES))


class _Outside:
    """What lies outside of the pages of a partition, read as far as pages are asked for.

    RocksDB has the pages, and the values of each of them, in the order of the same numbers.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._rows = (
            (number, {**user_key, **value})
            for batch in batches
            for (number,), user_key, value in zip(
                (key.values() for key in batch["key"].to_pylist()),
                batch["user_key"].to_pylist(),
                batch["value"].to_pylist(),
                strict=True,
            )
        )
        self._read: dict[int, list[dict[str, Any]]] = {}
        self._last: int | None = None

    def of(self, number: int) -> list[dict[str, Any]] | None:
        """The values of a page, None where there are none."""
        # They are all there once one of another page has come.
        while number not in self._read or self._last == number:
            self._last, value = next(self._rows, (None, {}))
            if self._last is None:
                break
            self._read.setdefault(self._last, []).append(value)
        return self._read.pop(number, None)


@dataclass(frozen=True)
class EntryRows:
    """The entries of a family; see `statemigrate.state.spark.StoredRows`.

    ``value`` has the bytes of a value; of a list it is an element. A batch has ``expires_at``, too.
    """

    files: PageFiles
    store: StoredStore
    family: StoredFamily

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.files.stored.partitions

    @property
    def size(self) -> int:
        """About how many bytes of files are read for them."""
        return self.files.stored.size

    @cached_property
    def key_types(self) -> dict[str, Any]:
        """The columns of a key, a map's own included, with Arrow's types of them."""
        columns = [self.keys.key, *filter(None, [self.keys.user_key])]
        return {field.name: field.type for each in columns for field in arrow_schema(each)}

    @cached_property
    def keys(self) -> KeyColumns:
        """How keys are read."""
        from pyspark.sql.types import StructType

        own = self.store.user_key
        user_key = None if own is None else StructType.fromJson(dict(own))
        return KeyColumns(self.files.pages.key, user_key)

    def batches(self, partition: int) -> Iterator[Any]:
        """The rows of a partition."""
        return self._entries(b"")(self.files.batches(partition))

    def under(self, key: Sequence[Any]) -> Iterator[Any]:
        """The rows whose keys begin with ``key``; of a whole grouping key one page is opened."""
        width = len(self.files.pages.key)
        if len(key) >= width:
            number = partition_of(list(key[:width]), self.files.pages.record.pages)
            plain = tuple(each for array in key for each in plain_values(array))
            prefix = self.keys.encoded(plain)
            page = arrow_array(number.astype(np.int32))
            yield from self._entries(prefix)(self.files.page_of(page))
            return
        for partition in range(self.partitions):
            for batch in self.batches(partition):
                if (found := batch.filter(begins_with(batch, key))).num_rows:
                    yield found

    def count(self, partition: int) -> int:
        """How many rows a partition has; of a list its elements."""
        is_list, entries = self.store.variable_kind.has_several_values, self.files.pages.entries
        return sum(
            len(entries(page, self.family, Span(), is_list=is_list))
            for page in self.files.opened(partition)
        )

    def _entries(self, prefix: bytes) -> Entries:
        is_list = self.store.variable_kind.has_several_values
        return Entries(self.files.pages, self.family, self.keys, is_list, prefix, expiry=True)
