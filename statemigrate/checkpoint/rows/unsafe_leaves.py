"""The leaf types of `UnsafeRow`: slots to columns of Arrow and back.

What slots hold, as columns of Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows, copy_ranges, within
from statemigrate.checkpoint.rows.spark_types import (
    LARGEST_IN_SLOT,
    WORD,
    Blob,
    Decimal,
    Number,
    SparkArray,
    SparkField,
    SparkMap,
    SparkStruct,
)
from statemigrate.errors import CorruptFileError, UnsupportedError, ValueMismatchError
from statemigrate.numpy_arrays import numbers_in_memory, numpy_array

# Columns of Arrow as what slots hold of them: numbers, decimals, and where bytes are to be found.
#
# Bytes of a decimal over 18 digits are its unscaled value, big-endian and as short as it can be.
# Source: apache/spark ``sql/catalyst/.../expressions/codegen/UnsafeRowWriter.java``.


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SlotValues:
    """Values that fit into a slot: unsigned integers of their own width, 0 for null."""

    bits: npt.NDArray[Any]


@dataclass(frozen=True)
class VariableLengthValues:
    """Values behind the slots: where their bytes are, how many, and the room each takes there.

    A slot is left 0 where ``unset`` is true.
    """

    data: Bytes
    starts: Integers
    sizes: Integers
    room: Integers
    unset: Mask

    def pointers(self, places: Integers) -> npt.NDArray[Any]:
        """The slots of values that lie at ``places``."""
        return np.where(self.unset, np.int64(0), (places << 32) | self.sizes)


def slot_values(kind: Number, array: pa.Array, nulls: Mask) -> SlotValues:
    """The numbers of an array, with 0 where it is null."""
    if pa.types.is_boolean(kind.arrow):
        array = array.cast(pa.uint8())
    bits = numbers_in_memory(array, kind.bits)
    return SlotValues(np.where(nulls, kind.bits.type(0), bits) if nulls.any() else bits)


def pieces(rows: Rows, nulls: Mask) -> VariableLengthValues:
    """Rows as they lie, those left out that stand for a null."""
    sizes = np.where(nulls, 0, rows.lengths) if nulls.any() else rows.lengths
    return VariableLengthValues(rows.data, rows.starts, sizes, padded(sizes), nulls)


def padded(sizes: Integers) -> Integers:
    """Sizes with what fills their last word."""
    return (sizes + (WORD - 1)) & ~np.int64(WORD - 1)


def decimals(
    kind: Decimal, array: pa.Array, nulls: Mask, *, reserved: bool
) -> SlotValues | VariableLengthValues:
    """Decimals of either width.

    ``reserved`` is how a row has them: those over 18 digits take two words each, null or not. As
    elements of an array they take what they need.
    """
    if kind.precision <= LARGEST_IN_SLOT:
        low = numbers_in_memory(array, np.dtype("<u8"), 2)[::2]
        return SlotValues(np.where(nulls, np.uint64(0), low))
    data, sizes = _shortest(wide_decimals(array))
    starts = np.arange(1, len(array) + 1) * _DECIMAL - sizes
    sizes = np.where(nulls, 0, sizes)
    if not reserved:
        return VariableLengthValues(data, starts, sizes, padded(sizes), nulls)
    # The slot of a null keeps its offset, so that a later value can be put there.
    room = np.full(len(array), _DECIMAL)
    return VariableLengthValues(data, starts, sizes, room, np.zeros(len(array), bool))


def wide_decimals(array: pa.Array) -> Bytes:
    """The unscaled value of each decimal in sixteen bytes, big-endian."""
    halves = numbers_in_memory(array, np.dtype("<u8"), 2)
    return np.ascontiguousarray(halves.view(np.uint8).reshape(-1, _DECIMAL)[:, ::-1])


def _shortest(turned: Bytes) -> tuple[Bytes, Integers]:
    """The same end to end, and how many of the last bytes of each are needed."""
    sign = turned[:, :1] >> 7
    # A byte in front may go if it repeats the sign of the one behind it.
    spare = (turned[:, :-1] == sign * np.uint8(0xFF)) & (turned[:, 1:] >> 7 == sign)
    leading = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    return turned.reshape(-1), _DECIMAL - leading.astype(np.int64)


_DECIMAL = 16
_MOST = 2**31 - 1


def validity(nulls: Mask) -> pa.Buffer | None:
    """Arrow's bitmap of what is there."""
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def numbers(kind: Number, slots: npt.NDArray[Any], nulls: Mask) -> pa.Array:
    """Numbers, each in the low bytes of its slot."""
    bits = slots.astype(kind.bits, copy=False)
    if pa.types.is_boolean(kind.arrow):
        bits = np.packbits(bits != 0, bitorder="little")
    content = pa.py_buffer(np.ascontiguousarray(bits))
    return pa.Array.from_buffers(kind.arrow, nulls.size, [validity(nulls), content])


def small_decimals(kind: Decimal, slots: npt.NDArray[Any], nulls: Mask) -> pa.Array:
    """Decimals that are kept as a long."""
    low = slots.astype("<i8", copy=False)
    content = pa.py_buffer(np.stack([low, low >> 63], axis=1))
    return pa.Array.from_buffers(kind.arrow, nulls.size, [validity(nulls), content])


def large_decimals(
    field: SparkField, data: Bytes, starts: Integers, sizes: Integers, nulls: Mask
) -> pa.Array:
    """Decimals that are kept as bytes, big-endian and as short as can be."""
    there = ~nulls
    if bool((there & ((sizes < 1) | (sizes > _DECIMAL))).any()):
        raise damaged(field.path, f"a decimal in {_DECIMAL} bytes or fewer", "another size")
    turned = np.zeros((nulls.size, _DECIMAL), np.uint8)
    starts, sizes = np.where(there, starts, 0), np.where(there, sizes, 0)
    first = np.zeros(nulls.size, np.uint8)
    first[there] = data[starts[there]]
    turned[:] = (np.uint8(0xFF) * (first >> 7))[:, np.newaxis]
    places = np.arange(1, nulls.size + 1) * _DECIMAL - sizes
    copy_ranges(data, starts, sizes, turned.reshape(-1), places)
    return wide_decimals_of(field.type.arrow, turned, nulls)


def wide_decimals_of(kind: pa.DataType, turned: Bytes, nulls: Mask) -> pa.Array:
    """Decimals of sixteen bytes each, big-endian."""
    content = pa.py_buffer(np.ascontiguousarray(turned[:, ::-1]))
    return pa.Array.from_buffers(kind, nulls.size, [validity(nulls), content])


def blobs(
    field: SparkField, data: Bytes, starts: Integers, sizes: Integers, nulls: Mask
) -> pa.Array:
    """Strings or binaries."""
    rows = within(data, np.where(nulls, 0, starts), sizes)
    if int(rows.offsets[-1]) > _MOST:
        raise UnsupportedError(
            "SM-STATE-010",
            f"{field.path} has more than 2 GiB in one batch of {nulls.size} rows",
            expected="at most 2 GiB in a batch, as Arrow's strings and binaries can have",
            found=f"{int(rows.offsets[-1])} bytes",
            next_action="decode fewer rows at a time",
            field=field.path,
        )
    offsets = pa.py_buffer(rows.offsets.astype(np.int32))
    buffers = [validity(nulls), offsets, pa.py_buffer(rows.data)]
    return pa.Array.from_buffers(field.type.arrow, nulls.size, buffers)


def checked(field: SparkField, array: pa.Array) -> pa.Array:
    """The array, if its values are such as its type allows; otherwise `CorruptFileError`.

    A decimal has to have no more digits than its type, a time to be within a day. Text may be any
    bytes: Spark takes what ``CAST(binary AS STRING)`` gives as it is.
    """
    if not isinstance(field.type, Decimal) and not pa.types.is_time(array.type):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise damaged(field.path, f"values of {array.type}", str(error)) from error
    return array


def is_small(kind: Decimal) -> bool:
    """Whether a decimal is kept as a long."""
    return kind.precision <= LARGEST_IN_SLOT


def damaged(field: str, expected: str, found: str) -> CorruptFileError:
    """The error for bytes that are not a row of the schema."""
    return CorruptFileError(
        "SM-STATE-011",
        f"rows of state are damaged, or of another schema: {field or 'the row'}",
        expected=expected,
        found=found,
        next_action="compare the schema with that of the query that wrote the state; "
        "restore the checkpoint from a copy if it was altered",
        field=field,
    )


# Floats and doubles as Spark has them in keys: one zero, and one pattern for not a number.


_NOT_A_NUMBER = {4: 0x7FC00000, 8: 0x7FF8000000000000}


def normalized_bits(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of ``float`` or ``double``, with 0.0 for -0.0 and one pattern for not a number."""
    number = bits.view(f"<f{bits.itemsize}")
    bits = np.where(number == 0, bits.dtype.type(0), bits)
    return np.where(np.isnan(number), bits.dtype.type(_NOT_A_NUMBER[bits.itemsize]), bits)


def normalized(array: pa.Array) -> pa.Array:
    """A column of a key as Spark normalizes it, within whatever it holds.

    It does so for aggregations, joins, session windows and ``dropDuplicates``; the functions of
    ``groupBy`` that work on Python's values get a key as it came. Maps are no keys.

    Source: apache/spark ``sql/catalyst/.../optimizer/NormalizeFloatingNumbers.scala``.
    """
    kind = array.type
    if pa.types.is_floating(kind):
        nulls = numpy_array(array.is_null())
        bits = np.dtype(f"<u{kind.bit_width // 8}")
        number = Number(kind, bits)
        return numbers(number, normalized_bits(slot_values(number, array, nulls).bits), nulls)
    if pa.types.is_struct(kind) and kind.num_fields:
        nulls = numpy_array(array.is_null())
        children = [normalized(array.field(index)) for index in range(kind.num_fields)]
        buffers = [validity(nulls)]
        return pa.Array.from_buffers(kind, len(array), buffers, children=children)
    if pa.types.is_list(kind):
        return _normalized_list(array)
    return array


def _normalized_list(array: pa.ListArray) -> pa.ListArray:
    nulls = numpy_array(array.is_null())
    offsets = pa.py_buffer(numpy_array(array.offsets).copy())
    buffers = [validity(nulls), offsets]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, children=[normalized(array.values)]
    )


# Whether columns of Arrow are those of a schema.


def conforming(struct: SparkStruct, batch: pa.RecordBatch | pa.StructArray) -> list[pa.Array]:
    """The columns of a batch, or of structs without nulls, that are the struct's.

    Raises `ValueMismatchError` for others in name, order or type. Nullability is the values'
    affair, and what Arrow has in two widths, strings, binaries and lists, may have either.
    """
    if not isinstance(batch, pa.StructArray):
        _conform_all(struct, list(batch.schema), "")
        return list(batch.columns)
    _conform_all(struct, list(batch.type.fields), "")
    if batch.null_count:
        raise _differs("the row", "fields that may be null", "rows that are null")
    return [batch.field(index) for index in range(len(struct.fields))]


def _conform_all(struct: SparkStruct, fields: Sequence[pa.Field], path: str) -> None:
    names = [field.name for field in fields]
    wanted = [field.name for field in struct.fields]
    if names != wanted:
        raise _differs(path or "the row", f"the fields {wanted}", f"the fields {names}")
    for field, found in zip(struct.fields, fields, strict=True):
        _conform(field, found.type)


def _conform(field: SparkField, found: pa.DataType) -> None:
    match field.type:
        case SparkStruct() as kind if pa.types.is_struct(found):
            _conform_all(kind, list(found.fields), field.path)
        case SparkArray() as kind if pa.types.is_list(found) or pa.types.is_large_list(found):
            _conform(kind.element, found.value_type)
        case SparkMap() as kind if pa.types.is_map(found):
            _conform(kind.key, found.key_type)
            _conform(kind.value, found.item_type)
        case Blob(arrow) if found in (arrow, _LARGE[arrow]):
            pass
        case kind if found == kind.arrow or _both_timestamps(kind.arrow, found):
            pass
        case kind:
            raise _differs(field.path, str(kind.arrow), str(found))


_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def _both_timestamps(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether both are moments of the same unit; their time zones only say how they are shown."""
    if not (pa.types.is_timestamp(one) and pa.types.is_timestamp(other)):
        return False
    return one.unit == other.unit and (one.tz is None) == (other.tz is None)


def _differs(path: str, expected: str, found: str) -> ValueMismatchError:
    return ValueMismatchError(
        "SM-VALUE-002",
        f"{path} is not what the schema says",
        expected=expected,
        found=found,
        next_action="give the columns the names, the order and the types of the schema",
        field=path,
    )
