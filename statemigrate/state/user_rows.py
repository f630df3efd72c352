"""The rows of Spark's own state as users know them, read without Spark.

What Spark keeps under a key with a number, a time or a list is here a row for each; a value that
expires is without its wrapping; a map's own key stands next to the grouping key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint import OperatorFamily
from statemigrate.checkpoint.operators import (
    StructJson,
    is_numbered,
    kind_of,
    row_json,
    shown_paths,
)
from statemigrate.checkpoint.rows import XXHASH64, Rows, arrow_schema, hash_of
from statemigrate.errors import ValueMismatchError, shown
from statemigrate.formats import plain_array
from statemigrate.numpy_arrays import arrow_array, numpy_array
from statemigrate.quoting import is_text

EXPIRES_AT = pa.timestamp("us", tz="UTC")
_MANY = 50_000
"""Rows in a batch that is made of others."""


@dataclass(frozen=True)
class UserRows:
    """The rows of a family. A batch has the columns of `schema`.

    These are ``key`` and ``value``, structs; ``user_key``, of a map; ``index``, of rows when a
    key has several, in their order; ``expires_at``, of values that expire; ``partition_id``. Where
    they are ``grouped``, the rows of a join are a list under each key, without the times of state
    format 4: those of one key stand together.
    """

    stored: OperatorFamily
    grouped: bool = False

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.stored.parts)

    @cached_property
    def key(self) -> StructJson:
        """The columns of a grouping key."""
        return self._of_map[0] if self._is_map else _shown(self._stored_key, self._key_indexes)

    @cached_property
    def user_key(self) -> StructJson | None:
        """The columns of a map's own key."""
        return self._of_map[1] if self._is_map else None

    @cached_property
    def value(self) -> StructJson:
        """The columns of a value, of a list those of an element."""
        content = row_json(self.stored.family.content if self._expires else self._value)
        return _shown(content, shown_paths(content))

    @property
    def has_several(self) -> bool:
        """Whether a key may have several rows: of a list, or of a side of a join."""
        return self.stored.family.is_list or self._is_numbered

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a batch."""
        columns = [pa.field("key", _struct(self.key)), pa.field("value", _struct(self.value))]
        if self.user_key is not None:
            columns.append(pa.field("user_key", _struct(self.user_key)))
        if self.has_several:
            columns.append(pa.field("index", pa.int64()))
        if self._expires:
            columns.append(pa.field("expires_at", EXPIRES_AT))
        return pa.schema([*columns, pa.field("partition_id", pa.int32())])

    @property
    def size(self) -> int:
        """About how many bytes of files are read for them."""
        names = {name for part in self.stored.parts for name in part.version.names}
        found = (self.stored.files.find(name) for name in names)
        return sum(each.size for each in found if each is not None)

    @cached_property
    def key_types(self) -> dict[str, pa.DataType]:
        """The columns of a key, a map's own included, with their types."""
        fields = [*_struct(self.key), *(_struct(self.user_key) if self.user_key else ())]
        return {each.name: each.type for each in fields}

    def reading(self, fields: Collection[str]) -> UserRows:
        """The same rows, where only these fields of `value` count, and others may be null."""
        paths = set(fields)
        if self._expires:
            first, expiry = (str(each["name"]) for each in self._value["fields"])
            paths = {expiry, *(f"{first}.{name}" for name in fields)}
        return replace(self, stored=replace(self.stored, paths=frozenset(paths)))

    def count(self, partition: int) -> int:
        """How many rows a partition has."""
        if self.stored.family.is_list:
            return sum(batch.num_rows for batch in self.batches(partition))
        return sum(len(keys) for keys, _ in self.stored.raw(partition, has_values=False))

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, some thousands at a time. Raises as `OperatorFamily.rows`."""
        found = (
            self._batch(keys, values, partition)
            for keys, values in self.stored.rows(partition)
            if len(keys)
        )
        if self.grouped:
            yield from _grouped(found)
        else:
            yield from found

    def decoded(self, partition: int, keys: Rows, values: Rows) -> pa.RecordBatch:
        """The rows of some keys and values of a partition, as the store has them."""
        return self._batch(*self.stored.decode(partition, keys, values), partition)

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of all partitions, one after the other."""
        for partition in range(self.partitions):
            yield from self.batches(partition)

    def under(self, key: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows whose keys begin with ``key``: for each column an array of one value.

        One partition is read where the columns say which, and of RocksDB no more than the blocks of
        the key where they are all that there are.
        """
        columns = [*self.key["fields"], *(self.user_key or {"fields": []})["fields"]]
        is_whole = len(key) == len(columns) and not self._is_numbered and not self._is_timed
        if is_whole:
            keys = self._stored_keys(key)
            for number in self.stored.partitions_of(keys).tolist():
                for found, values in self.stored.under(keys):
                    yield self._batch(found, values, number)
            return
        for partition in self._partitions_of(key):
            for batch in self.batches(partition):
                found = batch.filter(begins_with(batch, key))
                if found.num_rows:
                    yield found

    def _partitions_of(self, key: Sequence[pa.Array]) -> Sequence[int]:
        """The partitions in which a key can be that begins like that."""
        width = len(self.key["fields"])
        if len(key) < width or self._is_timed:
            return range(self.partitions)
        # What follows the grouping key does not say in which partition it is.
        shown = [each for each in self._stored_key["fields"] if each["type"] != "void"]
        rest = self._of_map[1] if self._is_map else {"type": "struct", "fields": shown[width:]}
        padding = [pa.nulls(1, each.type) for each in arrow_schema(rest)]
        keys = self._stored_keys([*key[:width], *padding])
        return [int(each) for each in self.stored.partitions_of(keys)]

    def _batch(self, keys: pa.StructArray, values: pa.Array, partition: int) -> pa.RecordBatch:
        index: pa.Array | None = None
        if self.stored.family.is_list:
            owners = pc.list_parent_indices(values)
            index = _indexes(values)
            keys, values = keys.take(owners), values.flatten()
        elif self._is_numbered:
            index = keys.field(keys.type.num_fields - 1)
            if not pa.types.is_integer(index.type):
                index = arrow_array(np.zeros(len(keys), np.int64))
        columns: dict[str, pa.Array] = {}
        if self._is_map:
            columns["key"], columns["user_key"] = keys.field(0), keys.field(1)
        else:
            columns["key"] = _taken(keys, self._key_indexes, _struct(self.key))
        if self._expires:
            columns["expires_at"] = timestamps(values.field(1))
            values = values.field(0)
        columns["value"] = _taken(values, shown_paths(self._content), _struct(self.value))
        if index is not None:
            columns["index"] = index.cast(pa.int64())
        columns["partition_id"] = arrow_array(np.full(len(keys), partition, np.int32))
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )

    def _stored_keys(self, columns: Sequence[pa.Array]) -> pa.StructArray:
        """Keys as Spark has them, of the columns that users know and of any behind these."""
        kind = _struct(self._stored_key)
        if self._is_map:
            width = len(self.key["fields"])
            parts = [columns[:width], columns[width:]]
            arrays = [
                pa.StructArray.from_arrays(list(part), fields=list(each.type))
                for part, each in zip(parts, kind, strict=True)
            ]
            return pa.StructArray.from_arrays(arrays, fields=list(kind))
        given = iter(columns)
        arrays = [
            pa.nulls(len(columns[0]) if columns else 1, each.type)
            if pa.types.is_null(each.type)
            else next(given)
            for each in kind
        ]
        if not arrays:
            return pa.array([{}], kind)
        return pa.StructArray.from_arrays(arrays, fields=list(kind))

    @property
    def _value(self) -> StructJson:
        return self.stored.family.value

    @cached_property
    def _content(self) -> StructJson:
        return row_json(self.stored.family.content if self._expires else self._value)

    @cached_property
    def _stored_key(self) -> StructJson:
        return row_json(self.stored.family.key)

    @cached_property
    def _of_map(self) -> tuple[StructJson, StructJson]:
        first, second = (each["type"] for each in self._stored_key["fields"])
        return first, second

    @cached_property
    def _key_indexes(self) -> list[int]:
        """Where in Spark's key the columns are that users know."""
        places = shown_paths(self._stored_key)
        is_index = self._is_numbered and (self.grouped or not self._is_timed)
        return places[:-1] if is_index else places

    @property
    def _is_map(self) -> bool:
        return self.stored.family.user_key is not None

    @property
    def _expires(self) -> bool:
        return self.stored.family.wrapping == "expiry"

    @property
    def _is_numbered(self) -> bool:
        stored = self.stored
        return is_numbered(stored.operator, stored.store, stored.family)

    @property
    def _is_timed(self) -> bool:
        """Whether the last column of a join's key is a time, as in state format 4."""
        return self._is_numbered and self.stored.family.is_list


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition with those of each key together, in their order."""
    found = list(batches)
    if not found:
        return
    rows = pa.Table.from_batches(found).combine_chunks()
    keys = rows["key"].combine_chunks()
    hashes = hash_of(list(keys.flatten()), XXHASH64)
    order = np.lexsort((np.arange(len(keys)), numpy_array(rows["index"].combine_chunks()), hashes))
    yield from rows.take(arrow_array(order)).to_batches(max_chunksize=_MANY)


def is_variable(stored: OperatorFamily) -> bool:
    """Whether a family is of a processor of ``transformWithState``."""
    return kind_of(stored.operator.name).has_variables


def _shown(struct: StructJson, places: Sequence[int]) -> StructJson:
    return {**struct, "fields": [struct["fields"][place] for place in places]}


def _struct(struct: StructJson) -> pa.StructType:
    return pa.struct(list(arrow_schema(struct)))


def _taken(structs: pa.StructArray, places: Sequence[int], kind: pa.StructType) -> pa.StructArray:
    """Structs of some of the fields, in a type that has these."""
    if structs.type == kind:
        return structs
    if not places:
        return pa.array([{}] * len(structs), kind)
    mask = structs.is_null() if structs.null_count else None
    columns = [structs.field(place) for place in places]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _indexes(lists: pa.ListArray) -> pa.Array:
    """The place of each element in its list, counted from 0. No list is null."""
    lengths = numpy_array(lists.value_lengths()).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    return arrow_array(np.arange(int(lengths.sum())) - np.repeat(starts, lengths))


def timestamps(milliseconds: pa.Array) -> pa.Array:
    """Times in milliseconds since 1970 as timestamps; what lies beyond those is null."""
    most = np.iinfo(np.int64).max // 1000
    fits = pc.less_equal(milliseconds, most)
    kept = pc.if_else(fits, milliseconds, pa.scalar(None, pa.int64()))
    return pc.multiply(kept, 1000).cast(EXPIRES_AT)


def begins_with(batch: pa.RecordBatch, key: Sequence[pa.Array]) -> Any:
    """For each row of a batch whether its key begins with ``key``."""
    columns = list(batch["key"].flatten())
    if "user_key" in batch.schema.names:
        columns += batch["user_key"].flatten()
    mask = arrow_array(np.ones(batch.num_rows, bool))
    for column, wanted in zip(columns, key, strict=False):
        mask = pc.and_(mask, is_same(column, wanted))
    return mask


def is_same(column: pa.Array, wanted: pa.Array) -> pa.Array:
    """For each value whether it is the one that ``wanted`` has, null with null alone."""
    if wanted.null_count:
        return column.is_null()
    if pa.types.is_struct(column.type):
        mask = arrow_array(np.ones(len(column), bool))
        for place in range(column.type.num_fields):
            mask = pc.and_(mask, is_same(column.field(place), wanted.field(place)))
        return pc.and_(mask, column.is_valid())
    if pa.types.is_floating(column.type) and pc.is_nan(wanted)[0].as_py():
        return pc.fill_null(pc.is_nan(column), fill_value=False)
    if pa.types.is_nested(column.type):
        text = repr(wanted[0].as_py())
        return pa.array([repr(each) == text for each in column.to_pylist()])
    return pc.fill_null(pc.equal(column, wanted[0]), fill_value=False)


def repeated(text: str, count: int) -> pa.Array:
    """A text so many times."""
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def one_value(value: Any, kind: pa.DataType, name: str) -> pa.Array:
    """An array of one value of a key's column. Raises `ValueMismatchError` for another type."""
    # Arrow takes truth values for numbers, and bytes for texts.
    is_other = (isinstance(value, bool) and pa.types.is_integer(kind)) or (
        isinstance(value, bytes) and pa.types.is_string(kind)
    )
    # Arrow loads pandas for values of Python's; texts and whole numbers go without.
    if type(value) is str and pa.types.is_string(kind) and is_text(value):
        return repeated(value, 1)
    if type(value) is int and pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        if limits.min <= value <= limits.max:
            return arrow_array(np.array([value], limits.dtype))
    try:
        return plain_array([object() if is_other else value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ValueMismatchError(
            "SM-VALUE-012",
            f"{shown(value)} is not a key of column {name}",
            expected=str(kind),
            found=type(value).__name__,
            next_action="give the key as its column has it",
            field=name,
        ) from error
