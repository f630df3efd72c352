"""Floats and doubles as Spark has them in keys: one zero, and one pattern for not a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.unsafe.leaf_decoding import numbers, validity
from statemigrate.checkpoint.rows.unsafe.leaf_encoding import held
from statemigrate.checkpoint.rows.unsafe.types import Number

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
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        bits = np.dtype(f"<u{kind.bit_width // 8}")
        number = Number(kind, bits)
        return numbers(number, normalized_bits(held(number, array, nulls).bits), nulls)
    if pa.types.is_struct(kind) and kind.num_fields:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        children = [normalized(array.field(index)) for index in range(kind.num_fields)]
        buffers = [validity(nulls)]
        return pa.Array.from_buffers(kind, len(array), buffers, children=children)
    if pa.types.is_list(kind):
        return _normalized_list(array)
    return array


def _normalized_list(array: pa.ListArray) -> pa.ListArray:
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    offsets = pa.py_buffer(array.offsets.to_numpy().copy())
    buffers = [validity(nulls), offsets]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, children=[normalized(array.values)]
    )
