"""Rows of variables and timers put into pages; large values beside them, and Spark's timers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import is_timers
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.pages.live.visits import key_fingerprint
from statemigrate.pages.page.layout import Place as PagePlace
from statemigrate.pages.page.outside import LARGEST_INSIDE, ReadOutside, check_size
from statemigrate.pages.page.page import Page
from statemigrate.pages.record import PagesRecord
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.arrow.entries import MERGED, ORIGINS
from statemigrate.rewrite.rows.arrow.structs import arrow_row, row_type, value_type
from statemigrate.rewrite.rows.columns import partition_of
from statemigrate.rewrite.rows.paged.encoding import EntryTask, grouping_key
from statemigrate.state.telling import Telling

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

ENTRIES = "page INT, family STRING, format BINARY, key BINARY, value BINARY, expiry BIGINT"
Parts = Sequence[tuple[FamilyPlan, "DataFrame"]]
"""Old families with their rows."""


def pages_of(old: OperatorShape, parts: Parts, plan: FamilyPlan) -> DataFrame:
    """The pages, with ``key``, ``value`` and the counts of `entries`: rows are merged to pages."""
    record, entries = _record(plan), _every(old, parts, plan)
    schema = row_type({"type": "struct", "fields": []})
    schema = schema.add("key", row_type(plan.new.family.key))
    schema = schema.add("value", value_type(plan.new.family))
    schema = schema.add(ORIGINS, "long").add(MERGED, "long")
    together = entries.repartition(plan.new.store.partitions, "page")
    ordered = together.sortWithinPartitions("page", "family", "key")
    return ordered.mapInArrow(Telling(Packing(record, plan)), schema)


def large_values(old: OperatorShape, parts: Parts, plan: FamilyPlan) -> DataFrame:
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


def page_timers(old: OperatorShape, parts: Parts, plan: FamilyPlan) -> DataFrame:
    """Spark's timer of each page that has timers, at the earliest of them."""
    from pyspark.sql import functions as F  # noqa: N812

    record, family = _record(plan), plan.new.family
    ((part, rows),) = parts
    assert part.old is not None, "rows go on"  # noqa: S101
    at = next(each.name for each in row_type(part.old.family.key).fields if _is_time(each))
    page, moment = _page(old, part.old, record), F.col("key").getField(at)
    timers = rows.select(page.alias("page"), moment.alias("at")).groupBy("page")
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


def _record(plan: FamilyPlan) -> PagesRecord:
    assert plan.record is not None, "pages are told of"  # noqa: S101
    return plan.record


def _is_time(field: Any) -> bool:
    return bool(field.dataType.typeName() == "long")


def _page(old: OperatorShape, place: Place, record: PagesRecord) -> Column:
    """The page of a row, by Spark's hash of the columns that say its partition."""
    return partition_of(old, replace(place, store=replace(place.store, partitions=record.pages)))


def _every(old: OperatorShape, parts: Parts, plan: FamilyPlan) -> DataFrame:
    entries = [_entries(old, part, rows, _record(plan)) for part, rows in parts]
    return reduce(lambda one, other: one.unionAll(other), entries)


def _entries(
    old: OperatorShape, part: FamilyPlan, rows: DataFrame, record: PagesRecord
) -> DataFrame:
    assert part.old is not None, "rows go on"  # noqa: S101
    columns = ["key"] if is_timers(part.old.family.name) else ["key", "value"]
    task = EntryTask(record, part.old.family)
    paged = rows.withColumn("page", _page(old, part.old, record)).select("page", *columns)
    return paged.mapInArrow(Telling(task), f"{ENTRIES}, {ORIGINS} BIGINT")


@dataclass(frozen=True)
class Packing:
    """Makes pages of entries that stand side by side, page by page."""

    record: PagesRecord
    plan: FamilyPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A page each. Raises `PageError` for a page or a value larger than one may be."""
        fingerprint = key_fingerprint(grouping_key(self.record))
        for number, rows in groupby(_rows(batches), key=lambda row: row[0]):
            place = PagePlace(self.record.pages, number, fingerprint)
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

        family = self.plan.new.family
        key, value = arrow_row(family.key), arrow_row(family.value)
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
