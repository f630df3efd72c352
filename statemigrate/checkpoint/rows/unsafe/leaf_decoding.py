"""What slots hold, as columns of Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, within
from statemigrate.checkpoint.rows.copying import copy_ranges
from statemigrate.checkpoint.rows.unsafe.leaf_encoding import Mask
from statemigrate.checkpoint.rows.unsafe.types import LARGEST_IN_SLOT, Decimal, Field, Number
from statemigrate.errors import CorruptFileError, UnsupportedError

_DECIMAL = 16
_MOST = 2**31 - 1


def validity(nulls: Mask) -> pa.Buffer | None:
    """Arrow's bitmap of what is there."""
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def numbers(kind: Number, slots: npt.NDArray[Any], nulls: Mask) -> pa.Array:
    """Numbers of which each slot's low bytes are one."""
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
    field: Field, data: Bytes, starts: Integers, sizes: Integers, nulls: Mask
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
    """Decimals of which each has sixteen bytes, big-endian."""
    content = pa.py_buffer(np.ascontiguousarray(turned[:, ::-1]))
    return pa.Array.from_buffers(kind, nulls.size, [validity(nulls), content])


def blobs(field: Field, data: Bytes, starts: Integers, sizes: Integers, nulls: Mask) -> pa.Array:
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


def checked(field: Field, array: pa.Array) -> pa.Array:
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
