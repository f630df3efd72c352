"""Pages in a rewrite: variables read out of pages, and packed into them.

The rows that Spark would have of variables and timers, read from the pages that have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statemigrate.blocks import in_blocks, record_size
from statemigrate.checkpoint import OperatorFamily as StateFamily
from statemigrate.checkpoint.operators import FamilyShape, OperatorShape, is_timers
from statemigrate.checkpoint.rows import partition_of as hashed
from statemigrate.deployment import StoredFamily
from statemigrate.families import Span
from statemigrate.formats import plain_array
from statemigrate.native import is_pages
from statemigrate.pages import (
    BUCKET,
    FAMILY,
    FORMAT,
    LARGEST_INSIDE,
    NEVER,
    VARIABLE,
    OpenSection,
    Page,
    PagesRecord,
    ReadOutside,
    check_size,
    elements_of,
    fingerprint,
    is_large,
    joined,
    key_fingerprint,
    last_to_expire,
    read_timer,
    timer_entry,
)
from statemigrate.pages import PageId as PageIdentity
from statemigrate.processor import TupleCodec, TupleKeyCodec
from statemigrate.rewrite.arrow_types import (
    arrow_row,
    list_array,
    retyped,
    row_type,
    value_type,
)
from statemigrate.rewrite.column_pairing import FamilyAddress, all_families
from statemigrate.rewrite.entry_functions import MERGED, ORIGINS
from statemigrate.rewrite.family_plans import PagedFamily, Paging
from statemigrate.rewrite.partitioning import misplaced_error, partition_of
from statemigrate.rewrite.spark_reader import RowReader
from statemigrate.state import LARGE_VALUES, CarriesErrors, KeyColumns, StoredPages, arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


# Rows of variables and timers as the entries of pages: keys and values in their bytes.


_NAMES = ("page", "family", "format", "key", "value", "expiry", "origins")
Entry = tuple[bytes, bytes, int]
"""A key, a value, and when it expires."""


@dataclass(frozen=True)
class PageEntryTask:
    """Turns the rows of an old ``family`` into entries, each of one row."""

    record: PagesRecord
    family: FamilyShape

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `statemigrate.rewrite.pages.ENTRIES`, and of how many rows each."""
        import pyarrow as pa

        kinds = (pa.int32(), pa.string(), *[pa.binary()] * 3, pa.int64(), pa.int64())
        for batch in batches:
            rows = [(row["page"], *self._named, *self._entry(row), 1) for row in arrow_rows(batch)]
            columns = zip(*rows, strict=True) if rows else [()] * len(_NAMES)
            yield pa.RecordBatch.from_arrays(list(map(pa.array, columns, kinds)), _NAMES)

    def _entry(self, row: dict[str, Any]) -> Entry:
        if is_timers(self.family.name):
            return self._timer(row["key"])
        key = self._key(row["key"])
        if self.family.is_list:
            elements = [self._value(each) for each in row["value"]]
            return key, joined(elements), last_to_expire(timestamp for _, timestamp in elements)
        return key, *self._value(row["value"])

    def _timer(self, key: dict[str, Any]) -> Entry:
        (timestamp,) = (each for each in key.values() if isinstance(each, int))
        (grouping,) = (each for each in key.values() if isinstance(each, dict))
        return timer_entry(self._keys.encoded(grouping), timestamp), b"", NEVER

    def _key(self, key: dict[str, Any]) -> bytes:
        if self._user_keys is None:
            return self._keys.encoded(key)
        grouping, own = key.values()
        return self._keys.encoded(grouping) + self._user_keys.encoded(own)

    def _value(self, value: dict[str, Any]) -> tuple[bytes, int]:
        timestamp: int | None = NEVER
        if self.family.wrapping == "expiry":
            value, timestamp = value.values()
        plain = self._values.to_value(tuple(value.values()))
        return self._stored.format.encode(plain), NEVER if timestamp is None else timestamp

    @cached_property
    def _named(self) -> tuple[str, bytes]:
        if is_timers(self.family.name):
            return FAMILY, FORMAT
        return self.family.name, fingerprint(self._stored.format)

    @cached_property
    def _stored(self) -> StoredFamily:
        return stored_family(self.record, self.family.name)

    @cached_property
    def _values(self) -> TupleCodec:
        return TupleCodec(self._stored.format.struct_type())

    @cached_property
    def _keys(self) -> _Keys:
        return _Keys(grouping_key(self.record))

    @cached_property
    def _user_keys(self) -> _Keys | None:
        from pyspark.sql.types import StructType

        columns = self.family.user_key
        return None if columns is None else _Keys(StructType.fromJson(columns))


class _Keys:
    """Encodes keys that Arrow gives as dictionaries, fields in their order."""

    def __init__(self, columns: StructType) -> None:
        self._rows, self._codec = TupleCodec(columns), TupleKeyCodec(columns)

    def encoded(self, key: dict[str, Any]) -> bytes:
        plain = self._rows.to_value(tuple(key.values()))
        return self._codec.encode(self._rows.to_tuple(plain))


def stored_family(record: PagesRecord, name: str) -> StoredFamily:
    """What a record says of a family, which it has."""
    families = (each for store in record.stores.values() for each in store.families)
    return next(each for each in families if each.name == name)


def grouping_key(record: PagesRecord) -> StructType:
    """The type of the grouping key of pages."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(dict(record.key))


_MANY = 10_000
Element = tuple[bytes, int]
"""A value's bytes, or those of an element, and when it expires."""


@dataclass(frozen=True)
class PagesReader:
    """Reads the variables of an operator from ``pages``, and all else as ``states`` does.

    ``operator`` is what Spark knows of the pages.
    """

    states: RowReader
    pages: StoredPages
    operator: OperatorShape

    def rows(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        """See `statemigrate.rewrite.spark_reader.RowReader`.

        An error that it tells of is raised where the rows are used: `PageError`,
        `CorruptFileError`, and `RewriteError` for a page or a key that is not where it must be.
        """
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        if operator.number != self.operator.number:
            return self.states.rows(operator, place)
        held = next(each for each in all_families(self.operator) if is_pages(each.family.name))
        found = self.states.rows(self.operator, held)
        expected = partition_of(self.operator, held).alias("expected")
        pages = self._with_large(found.select("key.*", "value.*", "partition", expected))
        family = place.family
        schema = StructType().add("key", row_type(family.key))
        if is_timers(family.name):
            keys = pages.mapInArrow(CarriesErrors(TimersOut(self.pages, family)), schema)
            nothing = F.struct(F.lit(None).alias("nothing")).cast(value_type(family))
            rows = keys.withColumn("value", nothing)
        else:
            schema = schema.add("value", value_type(family))
            rows = pages.mapInArrow(CarriesErrors(ValuesOut(self.pages, family)), schema)
        return rows.withColumn("partition", partition_of(operator, place))

    def family(self, operator: OperatorShape, place: FamilyAddress) -> StateFamily | None:
        """See `RowReader`: variables in pages have no files of their own."""
        return (
            None if operator.number == self.operator.number else self.states.family(operator, place)
        )

    def _with_large(self, pages: DataFrame) -> DataFrame:
        """The pages, each with its large values, which are stored next to it."""
        from pyspark.sql import functions as F  # noqa: N812

        places = (each for each in all_families(self.operator) if is_large(each.family.name))
        place = next(places, None)
        if place is None:
            return pages.withColumn("large", F.lit(None).cast(LARGE_VALUES))
        rows = self.states.rows(self.operator, place)
        keys: Any = rows.schema["key"].dataType
        number, own = keys.names
        values = rows.select(f"key.{number}.*", F.struct(f"key.{own}.*", "value.*").alias("value"))
        listed = F.collect_list("value").cast(LARGE_VALUES).alias("large")
        large = values.groupBy(BUCKET).agg(listed)
        return pages.join(large, BUCKET, "left").select(*pages.columns, "large")


@dataclass(frozen=True)
class _Out:
    pages: StoredPages
    family: FamilyShape

    def opened(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Page]]:
        """The pages, each with its number, where Spark's hash puts it."""
        for batch in batches:
            for number, data, partition, expected, large in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                if partition != expected:
                    raise misplaced_error(VARIABLE, partition, 1, (str(number), expected))
                yield number, self.pages.opened(number, data, large)

    def keys(self, number: int, keys: KeyColumns, data: Sequence[bytes]) -> list[pa.Array]:
        """The keys as structs. All belong into the page of that number."""
        arrays = keys.arrays(data)
        found = hashed(arrays[0].flatten(), self.pages.record.pages)
        wrong = np.flatnonzero(found != number)
        if wrong.size:
            example = str(arrays[0][int(wrong[0])].as_py())
            raise misplaced_error(
                self.family.name, number, wrong.size, (example, int(found[wrong[0]]))
            )
        return arrays


@dataclass(frozen=True)
class TimersOut(_Out):
    """Gives the keys of timers' rows, with the time and the grouping key in the family's order."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys of each page."""
        for number, page in self.opened(batches):
            if page.contains_family(FAMILY):
                yield self._batch(number, page.section(FAMILY, FORMAT))

    def _batch(self, number: int, section: OpenSection) -> pa.RecordBatch:
        timers = [read_timer(entry) for entry, _ in section.scan(Span())]
        kind = arrow_row(self.family.key)
        (keys,) = self.keys(number, KeyColumns(self.pages.key), [key for _, key in timers])
        times = pa.array([timestamp for timestamp, _ in timers], pa.int64())
        columns = [
            times if pa.types.is_int64(field.type) else retyped(keys, field.type) for field in kind
        ]
        return pa.RecordBatch.from_arrays([_struct(columns, kind)], ["key"])


@dataclass(frozen=True)
class ValuesOut(_Out):
    """Gives the rows of a variable: of a list one with the array of its elements."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of each page, of large values not all at once."""
        stored = stored_family(self.pages.record, self.family.name)
        for number, page in self.opened(batches):
            if page.contains_family(self.family.name):
                section = page.section(stored.name, fingerprint(stored.format))
                for entries in in_blocks(iter(section.scan(Span())), _MANY, record_size):
                    yield self._batch(number, section, entries)

    def _batch(
        self, number: int, section: OpenSection, entries: Sequence[tuple[bytes, bytes]]
    ) -> pa.RecordBatch:
        if self.family.is_list:
            lists = [list(elements_of(data)) for _, data in entries]
            values: pa.Array = list_array(
                np.array([len(each) for each in lists]),
                self._values([each for elements in lists for each in elements]),
                pa.list_(arrow_row(self.family.value)),
            )
        else:
            values = self._values([(data, section.expiry(key)) for key, data in entries])
        keys = self._keys(number, [key for key, _ in entries])
        return pa.RecordBatch.from_arrays([keys, values], ["key", "value"])

    def _keys(self, number: int, data: Sequence[bytes]) -> pa.Array:
        from pyspark.sql.types import StructType

        own = self.family.user_key
        columns = KeyColumns(self.pages.key, None if own is None else StructType.fromJson(own))
        arrays, kind = self.keys(number, columns, data), arrow_row(self.family.key)
        if own is None:
            return retyped(arrays[0], kind)
        parts = [retyped(each, field.type) for each, field in zip(arrays, kind, strict=True)]
        return _struct(parts, kind)

    def _values(self, elements: Sequence[Element]) -> pa.Array:
        stored = stored_family(self.pages.record, self.family.name)
        plain = stored.format.decode_many([data for data, _ in elements])
        names = stored.format.struct_type().fieldNames()
        content = arrow_row(self.family.content)
        labels = [field.name for field in content]
        named = [{n: each[name] for n, name in zip(labels, names, strict=True)} for each in plain]
        values: pa.Array = plain_array(named, content)
        if self.family.wrapping != "expiry":
            return values
        timestamps = [None if timestamp == NEVER else timestamp for _, timestamp in elements]
        return _struct([values, pa.array(timestamps, pa.int64())], arrow_row(self.family.value))


def _struct(columns: Sequence[Any], kind: pa.StructType) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns), fields=list(kind))


# Rows of variables and timers put into pages; large values next to them, and Spark's timers.


ENTRIES = "page INT, family STRING, format BINARY, key BINARY, value BINARY, expiry BIGINT"
Parts = Sequence[tuple[FamilyAddress, "DataFrame"]]
"""Old families with their rows."""


def pages_of(old: OperatorShape, parts: Parts, plan: PagedFamily) -> DataFrame:
    """The pages, with ``key``, ``value`` and the counts of `entries`: rows are merged to pages."""
    entries = _every(old, parts, plan)
    schema = row_type({"type": "struct", "fields": []})
    schema = schema.add("key", row_type(plan.new.family.key))
    schema = schema.add("value", value_type(plan.new.family))
    schema = schema.add(ORIGINS, "long").add(MERGED, "long")
    together = entries.repartition(plan.new.store.partitions, "page")
    ordered = together.sortWithinPartitions("page", "family", "key")
    return ordered.mapInArrow(CarriesErrors(PagePacking(plan.record, plan.new.family)), schema)


def large_values(old: OperatorShape, parts: Parts, plan: PagedFamily) -> DataFrame:
    """The values that are too large for their pages, which have what tells them.

    As `pages_of` gives pages; the rows that values come from are counted there.
    """
    from pyspark.sql import functions as F  # noqa: N812

    family = plan.new.family
    key, value = row_type(family.key), value_type(family)
    number, own = key.fields
    found = _every(old, parts, plan).where(F.length("value") > LARGEST_INSIDE)
    none = F.lit(0).cast("long")
    return found.select(
        F.struct(
            F.struct("page").cast(number.dataType).alias(number.name),
            F.struct("family", "key").cast(own.dataType).alias(own.name),
        )
        .cast(key)
        .alias("key"),
        F.struct("value").cast(value).alias("value"),
        none.alias(ORIGINS),
        none.alias(MERGED),
    )


def page_timers(old: OperatorShape, parts: Parts, plan: PagedFamily) -> DataFrame:
    """Spark's timer of each page that has timers, at the earliest of them."""
    from pyspark.sql import functions as F  # noqa: N812

    family = plan.new.family
    ((part, rows),) = parts
    at = next(each.name for each in row_type(part.family.key).fields if _is_time(each))
    page, timestamp = _page(old, part, plan.record), F.col("key").getField(at)
    timers = rows.select(page.alias("page"), timestamp.alias("at")).groupBy("page")
    found = timers.agg(F.min("at").alias("at"), F.count("*").alias("timers"))
    columns = [
        (F.col("at") if _is_time(each) else F.struct("page").cast(each.dataType)).alias(each.name)
        for each in row_type(family.key).fields
    ]
    return found.select(
        F.struct(*columns).cast(row_type(family.key)).alias("key"),
        F.struct(F.lit(None).alias("nothing")).cast(value_type(family)).alias("value"),
        F.col("timers").alias(ORIGINS),
        (F.col("timers") - 1).alias(MERGED),
    )


def _is_time(field: Any) -> bool:
    return bool(field.dataType.typeName() == "long")


def _page(old: OperatorShape, place: FamilyAddress, record: PagesRecord) -> Column:
    """The page of a row, by Spark's hash of the columns that say its partition."""
    return partition_of(old, replace(place, store=replace(place.store, partitions=record.pages)))


def _every(old: OperatorShape, parts: Parts, plan: PagedFamily) -> DataFrame:
    entries = [_entries(old, part, rows, plan.record) for part, rows in parts]
    return reduce(lambda one, other: one.unionAll(other), entries)


def _entries(
    old: OperatorShape, part: FamilyAddress, rows: DataFrame, record: PagesRecord
) -> DataFrame:
    columns = ["key"] if is_timers(part.family.name) else ["key", "value"]
    task = PageEntryTask(record, part.family)
    paged = rows.withColumn("page", _page(old, part, record)).select("page", *columns)
    return paged.mapInArrow(CarriesErrors(task), f"{ENTRIES}, {ORIGINS} BIGINT")


@dataclass(frozen=True)
class PagePacking:
    """Makes pages of entries that stand side by side, page by page."""

    record: PagesRecord
    family: FamilyShape

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A page each. Raises `PageError` for a page or a value larger than one may be."""
        fingerprint = key_fingerprint(grouping_key(self.record))
        for number, rows in groupby(_rows(batches), key=lambda row: row[0]):
            place = PageIdentity(self.record.pages, number, fingerprint)
            # What is large is written as rows of its own; nothing of it is asked for here.
            page, origins = Page(place, None, ReadOutside({})), 0
            for _, family, kind, key, value, expiry, count in rows:
                check_size(family, key, value)
                page.section(family, kind).put(key, value, expiry)
                origins += count
            data = page.written()
            assert data is not None, "there are entries"  # noqa: S101
            yield self._row(number, data, origins)

    def _row(self, number: int, data: bytes, origins: int) -> pa.RecordBatch:
        import pyarrow as pa

        key, value = arrow_row(self.family.key), arrow_row(self.family.value)
        columns = [
            pa.array([dict(zip((f.name for f in key), [number], strict=True))], key),
            pa.array([dict(zip((f.name for f in value), [data], strict=True))], value),
            pa.array([origins], pa.int64()),
            pa.array([origins - 1], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, ["key", "value", ORIGINS, MERGED])


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


# Whether rows are read from pages, or as Spark itself has them.


def reader_of(paging: Paging | None, states: RowReader, location: str) -> RowReader:
    """What gives the rows of variables that are kept like that, in the checkpoint there."""
    if paging is None:
        return states
    return PagesReader(states, StoredPages(paging.record, location), paging.pages)
