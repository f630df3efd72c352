"""Rows of variables and timers as the entries of pages: keys and values in their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import is_timers
from statemigrate.checkpoint.operators.shapes import FamilyShape
from statemigrate.deployment import StoredFamily
from statemigrate.pages.live.families import fingerprint
from statemigrate.pages.live.timers import FAMILY, FORMAT, timer_entry
from statemigrate.pages.page.columns import NEVER
from statemigrate.pages.page.elements import joined, last_to_expire
from statemigrate.pages.record import PagesRecord
from statemigrate.processor.keys.codec import KeyCodec
from statemigrate.processor.rows.codec import RowCodec
from statemigrate.state.native.rows import arrow_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_NAMES = ("page", "family", "format", "key", "value", "expiry", "origins")
Entry = tuple[bytes, bytes, int]
"""A key, a value, and when it expires."""


@dataclass(frozen=True)
class EntryTask:
    """Turns the rows of an old ``family`` into entries, each of one row."""

    record: PagesRecord
    family: FamilyShape

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `statemigrate.rewrite.rows.paged.packing.ENTRIES`, and of how many rows each."""
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
            return key, joined(elements), last_to_expire(moment for _, moment in elements)
        return key, *self._value(row["value"])

    def _timer(self, key: dict[str, Any]) -> Entry:
        (moment,) = (each for each in key.values() if isinstance(each, int))
        (grouping,) = (each for each in key.values() if isinstance(each, dict))
        return timer_entry(self._keys.encoded(grouping), moment), b"", NEVER

    def _key(self, key: dict[str, Any]) -> bytes:
        if self._user_keys is None:
            return self._keys.encoded(key)
        grouping, own = key.values()
        return self._keys.encoded(grouping) + self._user_keys.encoded(own)

    def _value(self, value: dict[str, Any]) -> tuple[bytes, int]:
        moment: int | None = NEVER
        if self.family.wrapping == "expiry":
            value, moment = value.values()
        plain = self._values.to_value(tuple(value.values()))
        return self._stored.format.encode(plain), NEVER if moment is None else moment

    @cached_property
    def _named(self) -> tuple[str, bytes]:
        if is_timers(self.family.name):
            return FAMILY, FORMAT
        return self.family.name, fingerprint(self._stored.format)

    @cached_property
    def _stored(self) -> StoredFamily:
        return stored_family(self.record, self.family.name)

    @cached_property
    def _values(self) -> RowCodec:
        return RowCodec(self._stored.format.struct_type())

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
        self._rows, self._codec = RowCodec(columns), KeyCodec(columns)

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
