"""The rows that Spark would have of variables and timers, read from the pages that have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statemigrate.blocks import in_blocks, record_size
from statemigrate.checkpoint.operators.catalogue import is_timers
from statemigrate.checkpoint.operators.shapes import FamilyShape, OperatorShape
from statemigrate.checkpoint.rows.partitions import partition_of as hashed
from statemigrate.families import Span
from statemigrate.native.spark_state.operators import is_pages
from statemigrate.pages.live.families import fingerprint
from statemigrate.pages.live.rows import BUCKET
from statemigrate.pages.live.timers import FAMILY, FORMAT, read_timer
from statemigrate.pages.page.columns import NEVER
from statemigrate.pages.page.elements import elements_of
from statemigrate.pages.page.page import Page
from statemigrate.pages.page.section import Section
from statemigrate.pages.record import VARIABLE, is_large
from statemigrate.rewrite.plan.pairing.places import Place, all_places
from statemigrate.rewrite.rows.arrow.structs import (
    arrow_row,
    list_array,
    plain_array,
    retyped,
    row_type,
    value_type,
)
from statemigrate.rewrite.rows.columns import partition_of
from statemigrate.rewrite.rows.paged.encoding import stored_family
from statemigrate.rewrite.rows.reading import StateReader
from statemigrate.rewrite.rows.surveying import astray
from statemigrate.state.paged.columns import KeyColumns
from statemigrate.state.paged.reading import LARGE_VALUES, StoredPages
from statemigrate.state.telling import Telling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MANY = 10_000
Element = tuple[bytes, int]
"""A value's bytes, or those of an element, and when it expires."""


@dataclass(frozen=True)
class PagesReader:
    """Reads the variables of an operator from ``pages``, and all else as ``states`` does.

    ``operator`` is what Spark knows of the pages.
    """

    states: StateReader
    pages: StoredPages
    operator: OperatorShape

    def rows(self, operator: OperatorShape, place: Place) -> DataFrame:
        """See `statemigrate.rewrite.rows.reading.RowReader`.

        An error that it tells of is raised where the rows are used: `PageError`,
        `CorruptFileError`, and `RewriteError` for a page or a key that is not where it must be.
        """
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        if operator.number != self.operator.number:
            return self.states.rows(operator, place)
        held = next(each for each in all_places(self.operator) if is_pages(each.family.name))
        found = self.states.rows(self.operator, held)
        expected = partition_of(self.operator, held).alias("expected")
        pages = self._with_large(found.select("key.*", "value.*", "partition", expected))
        family = place.family
        schema = StructType().add("key", row_type(family.key))
        if is_timers(family.name):
            keys = pages.mapInArrow(Telling(TimersOut(self.pages, family)), schema)
            nothing = F.struct(F.lit(None).alias("nothing")).cast(value_type(family))
            rows = keys.withColumn("value", nothing)
        else:
            schema = schema.add("value", value_type(family))
            rows = pages.mapInArrow(Telling(ValuesOut(self.pages, family)), schema)
        return rows.withColumn("partition", partition_of(operator, place))

    def _with_large(self, pages: DataFrame) -> DataFrame:
        """The pages, each with its large values, which lie beside it."""
        from pyspark.sql import functions as F  # noqa: N812

        places = (each for each in all_places(self.operator) if is_large(each.family.name))
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
                    raise astray(VARIABLE, partition, 1, (str(number), expected))
                yield number, self.pages.opened(number, data, large)

    def keys(self, number: int, keys: KeyColumns, data: Sequence[bytes]) -> list[pa.Array]:
        """The keys as structs, all of which belong into the page of that number."""
        arrays = keys.arrays(data)
        found = hashed(arrays[0].flatten(), self.pages.record.pages)
        wrong = np.flatnonzero(found != number)
        if wrong.size:
            example = str(arrays[0][int(wrong[0])].as_py())
            raise astray(self.family.name, number, wrong.size, (example, int(found[wrong[0]])))
        return arrays


@dataclass(frozen=True)
class TimersOut(_Out):
    """Gives the keys of timers' rows, with the time and the grouping key in the family's order."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys of each page."""
        for number, page in self.opened(batches):
            if page.holds(FAMILY):
                yield self._batch(number, page.section(FAMILY, FORMAT))

    def _batch(self, number: int, section: Section) -> pa.RecordBatch:
        timers = [read_timer(entry) for entry, _ in section.scan(Span())]
        kind = arrow_row(self.family.key)
        (keys,) = self.keys(number, KeyColumns(self.pages.key), [key for _, key in timers])
        times = pa.array([moment for moment, _ in timers], pa.int64())
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
            if page.holds(self.family.name):
                section = page.section(stored.name, fingerprint(stored.format))
                for entries in in_blocks(iter(section.scan(Span())), _MANY, record_size):
                    yield self._batch(number, section, entries)

    def _batch(
        self, number: int, section: Section, entries: Sequence[tuple[bytes, bytes]]
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
        moments = [None if moment == NEVER else moment for _, moment in elements]
        return _struct([values, pa.array(moments, pa.int64())], arrow_row(self.family.value))


def _struct(columns: Sequence[Any], kind: pa.StructType) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns), fields=list(kind))
