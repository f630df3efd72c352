"""Rows of state whose values this package encodes: of the embedded engine, pages and envelopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.blocks import in_blocks, record_size
from statemigrate.checkpoint.operators import StructJson, row_json
from statemigrate.checkpoint.rows import arrow_schema
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded import list_key
from statemigrate.formats import Format, Value, plain_array, plain_values
from statemigrate.processor import TupleKeyCodec, shown_key
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.envelopes import EnvelopesOf
from statemigrate.state.page_entries import EntryRows
from statemigrate.state.user_rows import begins_with

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MANY = 8_192


def struct_of(struct: StructJson) -> pa.StructType:
    """Arrow's type of a struct of Spark's in JSON."""
    return pa.struct(list(arrow_schema(struct)))


def value_json(fmt: Format) -> StructJson:
    """The struct of a format's values, all of whose parts may be null."""
    found: StructJson = row_json(fmt.struct_type().jsonValue())
    return found


def values_array(values: Iterable[Value | None], fmt: Format) -> pa.StructArray:
    """Plain values of a format as Arrow has them; None is a null."""
    return plain_array(list(values), struct_of(value_json(fmt)))


@dataclass(frozen=True)
class EnvelopeRows:
    """The values of one revision in envelopes; see `UserRows`."""

    envelopes: EnvelopesOf
    format: Format
    user_key: None = field(default=None, init=False)
    has_several: bool = field(default=False, init=False)

    @property
    def key(self) -> StructJson:
        """The columns of a key."""
        return self.envelopes.rows.key

    @cached_property
    def value(self) -> StructJson:
        """The columns of a value."""
        return value_json(self.format)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.envelopes.partitions

    @property
    def size(self) -> int:
        """About how many bytes of files are read for them."""
        return self.envelopes.size

    def count(self, partition: int) -> int:
        """How many rows a partition has."""
        return self.envelopes.count(partition)

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return map(self._opened, self.envelopes.batches(partition))

    def under(self, key: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows whose keys begin with ``key``."""
        return map(self._opened, self.envelopes.under(key))

    def _opened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        payloads = pc.struct_field(batch["value"], ["payload"]).to_pylist()
        values = values_array(self.format.decode_many(payloads), self.format)
        columns = [batch["key"], values, batch["partition_id"]]
        return pa.RecordBatch.from_arrays(columns, ["key", "value", "partition_id"])


class _PlainRows:
    """What families whose keys and values are bytes have in common."""

    store: StoredStore
    family: StoredFamily

    @cached_property
    def value(self) -> StructJson:
        """The columns of a value, of a list those of an element."""
        return value_json(self.family.format)

    @cached_property
    def user_key(self) -> StructJson | None:
        """The columns of a map's own key."""
        return None if self.store.user_key is None else row_json(dict(self.store.user_key))

    @property
    def has_several(self) -> bool:
        """Whether a key may have several rows."""
        return self.store.variable_kind.has_several_values


@dataclass(frozen=True)
class PageRows(_PlainRows):
    """A family in pages; see `UserRows`."""

    entries: EntryRows

    @property
    def store(self) -> StoredStore:  # type: ignore[override]
        """The store."""
        return self.entries.store

    @property
    def family(self) -> StoredFamily:  # type: ignore[override]
        """The family."""
        return self.entries.family

    @cached_property
    def key(self) -> StructJson:
        """The columns of a grouping key."""
        return row_json(dict(self.entries.files.pages.record.key))

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.entries.partitions

    @property
    def size(self) -> int:
        """About how many bytes of files are read for them."""
        return self.entries.size

    def count(self, partition: int) -> int:
        """How many rows a partition has."""
        return self.entries.count(partition)

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return self._opened(self.entries.batches(partition))

    def under(self, key: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows whose keys begin with ``key``; of a whole grouping key one page is opened."""
        return self._opened(self.entries.under(key))

    def _opened(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers: dict[str, int] = {}
        for batch in batches:
            payloads = batch["value"].field(0).to_pylist()
            columns = {
                "key": _cast(batch["key"], self.key),
                "value": values_array(self.family.format.decode_many(payloads), self.family.format),
            }
            if self.user_key is not None:
                columns["user_key"] = _cast(batch["user_key"], self.user_key)
            if self.has_several:
                columns["index"] = pa.array(_counted(map(repr, batch["key"].to_pylist()), numbers))
            columns["expires_at"] = batch["expires_at"]
            columns["partition_id"] = batch["partition_id"]
            yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


@dataclass(frozen=True)
class EmbeddedRows(_PlainRows):
    """A family of the embedded engine; see `UserRows`."""

    state: EmbeddedState
    store: StoredStore
    family: StoredFamily

    @cached_property
    def key(self) -> StructJson:
        """The columns of a grouping key."""
        return row_json(dict(self.state.committed.manifest.key_schema))

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.state.committed.manifest.partitions)

    @property
    def size(self) -> None:
        """How many bytes of files are read for them is not known."""
        return

    def count(self, partition: int) -> int:
        """How many rows a partition has."""
        return sum(1 for _ in self.state.partition(partition).records(self.family.name))

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        opened = self.state.partition(partition)
        numbers: dict[str, int] = {}
        for block in in_blocks(opened.records(self.family.name), _MANY, record_size):
            yield self._batch(partition, block, numbers)

    def under(self, key: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows whose keys begin with ``key``."""
        for partition in range(self.partitions):
            for batch in self.batches(partition):
                if (found := batch.filter(begins_with(batch, key))).num_rows:
                    yield found

    @cached_property
    def _codecs(self) -> tuple[TupleKeyCodec, TupleKeyCodec | None]:
        user_key = _struct_type(self.store.user_key)
        return TupleKeyCodec(self.state.key), None if user_key is None else TupleKeyCodec(user_key)

    def _batch(
        self, partition: int, block: list[tuple[bytes, bytes]], numbers: dict[str, int]
    ) -> pa.RecordBatch:
        encoded = [list_key(key) if self.has_several else key for key, _ in block]
        keys = [shown_key(*self._codecs, each) for each in encoded]
        width = len(self.key["fields"])
        values = self.family.format.decode_many([data for _, data in block])
        columns = {
            "key": _structs([each[:width] for each in keys], self.key),
            "value": values_array(values, self.family.format),
        }
        if self.user_key is not None:
            columns["user_key"] = _structs([each[width:] for each in keys], self.user_key)
        if self.has_several:
            columns["index"] = pa.array(_counted((each.hex() for each in encoded), numbers))
        columns["partition_id"] = pa.array(np.full(len(keys), partition, np.int32))
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _structs(keys: Sequence[tuple[Any, ...]], struct: StructJson) -> pa.StructArray:
    kind = struct_of(struct)
    names = [each.name for each in kind]
    return plain_array([dict(zip(names, key, strict=True)) for key in keys], kind)


def _cast(structs: pa.StructArray, struct: StructJson) -> pa.StructArray:
    return plain_array(plain_values(structs), struct_of(struct))


def _counted(keys: Iterable[str], numbers: dict[str, int]) -> list[int]:
    """The place of each row among those of its key, which come one after the other."""
    found: list[int] = []
    for key, same in groupby(keys):
        first = numbers.get(key, 0)
        places = [first + place for place, _ in enumerate(same)]
        found += places
        # The last key of a batch may go on in the next one.
        numbers.clear()
        numbers[key] = places[-1] + 1
    return found


def _struct_type(columns: Any) -> StructType | None:
    from pyspark.sql.types import StructType

    return None if columns is None else StructType.fromJson(dict(columns))
