"""Columns whose bytes sort as their values do, for scans of a range of keys.

Each is a binary: a marker, 0 for a negative number, 1 for another and 2 for null, then the number,
big-endian; all bits of a negative ``float`` or ``double`` are turned. An event time is 8 bytes,
big-endian, with the sign's bit turned. Source: apache/spark
``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import StructJson
from statemigrate.checkpoint.rows.buffers import Bytes, Rows, joined, numpy_array
from statemigrate.checkpoint.rows.spark_types import Field, Number, struct_of
from statemigrate.checkpoint.rows.unsafe_leaves import Mask, damaged, numbers, slot_values
from statemigrate.errors import UnsupportedError

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


def _ordered(field: Field, array: pa.Array) -> Bytes:
    assert isinstance(field.type, Number)  # noqa: S101 - the constructor has refused the others
    nulls = numpy_array(array.is_null())
    bits = slot_values(field.type, array, nulls).bits
    negative = (bits >> bits.dtype.type(bits.itemsize * 8 - 1)).astype(bool)
    if pa.types.is_floating(field.type.arrow):
        bits = np.where(negative, ~bits, bits)
    marker = np.where(nulls, _NULL, np.where(negative, _NEGATIVE, _POSITIVE)).astype(np.uint8)
    return np.hstack([marker[:, np.newaxis], _big_endian(bits)])


def _number(field: Field, rows: Rows) -> pa.Array:
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
