"""Keys of state as a store has them: rows, wrapped as the provider and the key's encoder do.

The HDFS-backed provider keeps the row as it is. RocksDB has a version byte before each row, divides
a key for scans into two rows, and puts the number of the column family first. Source: apache/spark
``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.operators import (
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    StructJson,
    TimestampPrefix,
)
from statemigrate.checkpoint.rows.avro_encoding import AvroPart
from statemigrate.checkpoint.rows.buffers import Bytes, Rows, joined
from statemigrate.checkpoint.rows.spark_types import Number, SparkField, arrow_schema, struct_of
from statemigrate.checkpoint.rows.unsafe_leaves import Mask, damaged, numbers, slot_values
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.checkpoint.rows.wrapping import (
    VERSION,
    RowLayout,
    RowPart,
    Spans,
    StructPart,
    length_of,
)
from statemigrate.errors import UnsupportedError, ValueMismatchError
from statemigrate.numpy_arrays import numpy_array

# Columns whose bytes sort as their values do, for scans of a range of keys.
#
# Each is a binary: a marker, 0 for a negative number, 1 for another and 2 for null, then the
# number, big-endian; all bits of a negative ``float`` or ``double`` are turned. An event time is 8
# bytes, big-endian, with the sign's bit turned. Source: apache/spark
# ``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``.


_NEGATIVE, _POSITIVE, _NULL = 0, 1, 2
_SPARK_S = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_SIGN = np.uint64(1 << 63)


class OrderedColumns:
    """The columns of a schema, and the binaries that sort as they do.

    With ``divided`` a marker and its number are two binaries, as Avro has them. Raises
    `UnsupportedError` for a type that Spark does not order so. It would take a boolean, but leaves
    its value out.
    """

    def __init__(self, schema: StructJson, *, divided: bool = False) -> None:
        self._fields = struct_of(schema).fields
        self._divided = divided
        for field in self._fields:
            if not isinstance(field.type, Number) or field.type.arrow not in _SPARK_S:
                raise UnsupportedError(
                    "SM-STATE-013",
                    f"{field.path} cannot order the keys of a range scan",
                    expected="a byte, short, integer, long, float or double",
                    found=str(field.type.arrow),
                    next_action="leave the state as it is",
                    field=field.path,
                )

    @property
    def schema(self) -> StructJson:
        """The schema of the binaries."""
        count = len(self._fields) * (2 if self._divided else 1)
        binary = {"type": "binary", "nullable": True, "metadata": {}}
        return {"type": "struct", "fields": [{"name": str(i), **binary} for i in range(count)]}

    def as_binaries(self, structs: pa.StructArray) -> pa.StructArray:
        """The binaries of columns."""
        columns = []
        for index, field in enumerate(self._fields):
            ordered = _ordered(field, structs.field(index))
            columns += [ordered[:, :1], ordered[:, 1:]] if self._divided else [ordered]
        arrays = [Rows.from_matrix(column).to_arrow() for column in columns]
        return pa.StructArray.from_arrays(arrays, [str(index) for index in range(len(arrays))])

    def from_binaries(self, structs: pa.StructArray) -> pa.StructArray:
        """The columns of binaries. Raises `CorruptFileError`."""
        rows = [Rows.from_arrow(column) for column in structs.flatten()]
        if self._divided:
            rows = [joined(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
        made = [_number(*each) for each in zip(self._fields, rows, strict=True)]
        fields = [field.arrow for field in self._fields]
        return pa.StructArray.from_arrays(made, fields=fields)


def event_times(array: pa.Array) -> Bytes:
    """Event times, none null, as the 8 bytes that sort as they do."""
    bits = array.to_numpy().view("<u8") ^ _SIGN
    return _big_endian(bits)


def event_times_of(data: Bytes) -> pa.Array:
    """The event times, a column of longs, of an array of shape ``(n, 8)``."""
    bits: npt.NDArray[Any] = data.copy().view(">u8")[:, 0].astype("<u8") ^ _SIGN
    return pa.array(bits.view("<i8"))


def _ordered(field: SparkField, array: pa.Array) -> Bytes:
    assert isinstance(field.type, Number)  # noqa: S101 - the constructor has refused the others
    nulls = numpy_array(array.is_null())
    bits = slot_values(field.type, array, nulls).bits
    negative = (bits >> bits.dtype.type(bits.itemsize * 8 - 1)).astype(bool)
    if pa.types.is_floating(field.type.arrow):
        bits = np.where(negative, ~bits, bits)
    marker = np.where(nulls, _NULL, np.where(negative, _NEGATIVE, _POSITIVE)).astype(np.uint8)
    return np.hstack([marker[:, np.newaxis], _big_endian(bits)])


def _number(field: SparkField, rows: Rows) -> pa.Array:
    assert isinstance(field.type, Number)  # noqa: S101 - the constructor has refused the others
    width = 1 + field.type.bits.itemsize
    if bool((rows.lengths != width).any()):
        raise damaged(field.path, f"{width} bytes", "another number of bytes")
    matrix = rows.matrix().reshape(-1, width)
    marker = matrix[:, 0]
    if bool((marker > _NULL).any()):
        raise damaged(field.path, "a marker from 0 to 2", f"{int(marker.max())}")
    bits = np.ascontiguousarray(matrix[:, 1:]).view(field.type.bits.newbyteorder(">"))[:, 0]
    if pa.types.is_floating(field.type.arrow):
        bits = np.where(marker == _NEGATIVE, ~bits, bits)
    nulls: Mask = marker == _NULL
    return numbers(field.type, bits.astype(field.type.bits), nulls)


def _big_endian(bits: npt.NDArray[Any]) -> Bytes:
    turned = np.ascontiguousarray(bits.astype(bits.dtype.newbyteorder(">")))
    return turned.view(np.uint8).reshape(-1, bits.itemsize)


# The forms in which RocksDB has keys: whole, divided for a scan, or with a time.


_TIME = 8


class KeyForm(Protocol):
    """Columns of keys to bytes and back, without the column family."""

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys."""
        ...

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns, in the order in which the form has them."""
        ...


@dataclass(frozen=True)
class WholeKeys:
    """One row."""

    whole: StructPart

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys."""
        return self.whole.encode(keys)

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns."""
        return columns_of(self.whole.decode(keys))


@dataclass(frozen=True)
class DividedKeys:
    """The length of a first row, that row, and a row of the ``others``.

    ``first`` and ``others`` are the columns of each; ``ordered`` is how those of the first sort.
    """

    columns: tuple[int, ...]
    first: StructPart
    rest: tuple[int, ...]
    others: StructPart
    ordered: OrderedColumns | None = None

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys."""
        first = chosen(keys, self.columns)
        begins = self.first.encode(self.ordered.as_binaries(first) if self.ordered else first)
        return joined(length_of(begins), begins, self.others.encode(chosen(keys, self.rest)))

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns, the first row's before the others."""
        begins, rest = keys.split(_KEY)
        first = self.first.decode(begins)
        if self.ordered:
            first = self.ordered.from_binaries(first)
        # Spark before 4.0 writes no second row where every column is in the first.
        if not self.rest and not rest.lengths.any():
            return columns_of(first)
        return [*columns_of(first), *columns_of(self.others.decode(rest))]


@dataclass(frozen=True)
class TimedKeys:
    """A row of all columns but the last, a time, which comes before it or behind it."""

    rest: tuple[int, ...]
    others: StructPart
    time_first: bool

    def encode(self, keys: pa.StructArray) -> Rows:
        """The bytes of keys. Raises `ValueMismatchError` for a time that is null."""
        times = keys.field(len(self.rest))
        if times.null_count:
            raise ValueMismatchError(
                "SM-VALUE-004",
                f"{times.null_count} keys have no time",
                expected="a time in every key",
                found="null",
                next_action="give every key a time",
            )
        parts = event_times(times), self.others.encode(chosen(keys, self.rest))
        return joined(*(parts if self.time_first else parts[::-1]))

    def decode(self, keys: Spans) -> Sequence[pa.Array]:
        """The columns. Raises `CorruptFileError`."""
        if keys.lengths.size and int(keys.lengths.min()) < _TIME:
            raise damaged(_KEY, f"at least {_TIME} bytes", f"{int(keys.lengths.min())} bytes")
        size = np.int64(_TIME)
        ends = keys.starts if self.time_first else keys.starts + keys.lengths - size
        times = Spans(keys.data, ends, np.full(keys.starts.size, size))
        begins = keys.starts + size if self.time_first else keys.starts
        others = self.others.decode(Spans(keys.data, begins, keys.lengths - size))
        return [*columns_of(others), event_times_of(times.matrix(_TIME, _KEY))]


def columns_of(structs: pa.StructArray) -> list[pa.Array]:
    """The columns of structs without nulls."""
    return [structs.field(index) for index in range(structs.type.num_fields)]


def chosen(structs: pa.StructArray, indices: Sequence[int]) -> pa.StructArray:
    """Structs of some of the fields."""
    columns = [structs.field(index) for index in indices]
    fields = [structs.type.field(index) for index in indices]
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), len(structs), [None], children=[])
    return pa.StructArray.from_arrays(columns, fields=fields)


FAMILY = 2
"""Bytes of a column family's number."""
_KEY = "a key"


class KeyCodec:
    """Reads and writes the keys of one column family, or of a store that has none.

    ``family`` is the family's number in its partition, None in a store without families;
    ``schema_number`` is that of the schema, which Avro notes in each key. Raises `UnsupportedError`
    for a schema that is not known.
    """

    def __init__(
        self,
        key: StructJson,
        encoder: KeyEncoder,
        layout: RowLayout,
        family: int | None = None,
        *,
        schema_number: int = 0,
    ) -> None:
        self.arrow_schema = arrow_schema(key)
        self._family = b"" if family is None else family.to_bytes(FAMILY, "little", signed=True)
        order = _order(len(key["fields"]), encoder if layout.rocksdb else NoPrefix())
        self._places = np.argsort(order, kind="stable").tolist()
        parts = _Parts(key, layout, schema_number)
        self._form = _form(parts, encoder, order) if layout.rocksdb else WholeKeys(parts.whole())

    def encode(self, keys: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of keys, as a store has them. Raises as `RowCodec.encode`."""
        structs = keys.to_struct_array() if isinstance(keys, pa.RecordBatch) else keys
        rows = self._form.encode(structs)
        return joined(self._family, rows) if self._family else rows

    def decode(self, keys: Rows) -> pa.StructArray:
        """The keys. Raises `CorruptFileError` for bytes that are none, or of another family."""
        spans = Spans.of(keys)
        columns = self._form.decode(spans.without(self._family, _KEY) if self._family else spans)
        fields = list(self.arrow_schema)
        if not fields:
            # Columns would say how many there are.
            return pa.array([{}] * len(keys), pa.struct([]))
        return pa.StructArray.from_arrays([columns[at] for at in self._places], fields=fields)


def families_of(keys: Rows) -> npt.NDArray[np.int16]:
    """The number of each key's column family, in a store with families.

    Raises `CorruptFileError` for a key without one.
    """
    return Spans.of(keys).matrix(FAMILY, _KEY).view("<i2")[:, 0]


def _order(count: int, encoder: KeyEncoder) -> list[int]:
    """The fields of a key in the order in which a store has them."""
    first = encoder.ordinals if isinstance(encoder, RangeScan) else ()
    return [*first, *(index for index in range(count) if index not in first)]


@dataclass(frozen=True)
class _Parts:
    """The rows that a key is made of."""

    key: StructJson
    layout: RowLayout
    number: int

    def whole(self) -> StructPart:
        """One row of every column."""
        return self._of(self.key, self.number)

    def first(self, indices: Sequence[int]) -> StructPart:
        """The row of the columns that a scan looks for."""
        return self._of(self.columns(indices), None)

    def others(self, indices: Sequence[int]) -> StructPart:
        """The row of the other columns."""
        return self._of(self.columns(indices), self.number)

    def ordered(self, indices: Sequence[int]) -> tuple[OrderedColumns, StructPart]:
        """The columns of a range, and the row of them."""
        ordered = OrderedColumns(self.columns(indices), divided=self.layout.avro)
        return ordered, self._of(ordered.schema, None)

    def columns(self, indices: Sequence[int]) -> StructJson:
        """The schema of some of the columns."""
        return {**self.key, "fields": [self.key["fields"][index] for index in indices]}

    def _of(self, schema: StructJson, number: int | None) -> StructPart:
        if self.layout.avro:
            return AvroPart(schema, _KEY, number)
        return RowPart(RowCodec(schema), VERSION if self.layout.rocksdb else b"", _KEY)


def _form(parts: _Parts, encoder: KeyEncoder, order: Sequence[int]) -> KeyForm:
    match encoder:
        case NoPrefix():
            return WholeKeys(parts.whole())
        case PrefixScan(columns):
            first, rest = tuple(order[:columns]), tuple(order[columns:])
            return DividedKeys(first, parts.first(first), rest, parts.others(rest))
        case RangeScan(ordinals):
            rest = tuple(order[len(ordinals) :])
            ordered, binaries = parts.ordered(ordinals)
            return DividedKeys(ordinals, binaries, rest, parts.others(rest), ordered)
        case _:
            rest = tuple(order[:-1])
            return TimedKeys(rest, parts.others(rest), isinstance(encoder, TimestampPrefix))
