"""Columns of Arrow as what slots hold of them: numbers, decimals, and where bytes are to be found.

Bytes of a decimal over 18 digits are its unscaled value, big-endian and as short as it can be.
Source: apache/spark ``sql/catalyst/.../expressions/codegen/UnsafeRowWriter.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows
from statemigrate.checkpoint.rows.unsafe.types import LARGEST_IN_SLOT, WORD, Decimal, Number

Mask = npt.NDArray[np.bool_]
_DECIMAL = 16


@dataclass(frozen=True)
class Held:
    """Values that fit into a slot: unsigned integers of their own width, 0 for null."""

    bits: npt.NDArray[Any]


@dataclass(frozen=True)
class Behind:
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


def held(kind: Number, array: pa.Array, nulls: Mask) -> Held:
    """The numbers of an array, with 0 where it is null."""
    if pa.types.is_boolean(kind.arrow):
        array = array.cast(pa.uint8())
    bits = _numbers(array, kind.bits)
    return Held(np.where(nulls, kind.bits.type(0), bits) if nulls.any() else bits)


def pieces(rows: Rows, nulls: Mask) -> Behind:
    """Rows as they lie, those left out that stand for a null."""
    sizes = np.where(nulls, 0, rows.lengths) if nulls.any() else rows.lengths
    return Behind(rows.data, rows.starts, sizes, padded(sizes), nulls)


def padded(sizes: Integers) -> Integers:
    """Sizes with what fills their last word."""
    return (sizes + (WORD - 1)) & ~np.int64(WORD - 1)


def decimals(kind: Decimal, array: pa.Array, nulls: Mask, *, reserved: bool) -> Held | Behind:
    """Decimals of either width.

    ``reserved`` is how a row has them: those over 18 digits take two words each, null or not. As
    elements of an array they take what they need.
    """
    if kind.precision <= LARGEST_IN_SLOT:
        low = _numbers(array, np.dtype("<u8"), 2)[::2]
        return Held(np.where(nulls, np.uint64(0), low))
    data, sizes = _shortest(wide_decimals(array))
    starts = np.arange(1, len(array) + 1) * _DECIMAL - sizes
    sizes = np.where(nulls, 0, sizes)
    if not reserved:
        return Behind(data, starts, sizes, padded(sizes), nulls)
    # The slot of a null keeps its offset, so that a later value can be put there.
    room = np.full(len(array), _DECIMAL)
    return Behind(data, starts, sizes, room, np.zeros(len(array), bool))


def wide_decimals(array: pa.Array) -> Bytes:
    """The unscaled value of each decimal in sixteen bytes, big-endian."""
    halves = _numbers(array, np.dtype("<u8"), 2)
    return np.ascontiguousarray(halves.view(np.uint8).reshape(-1, _DECIMAL)[:, ::-1])


def _shortest(turned: Bytes) -> tuple[Bytes, Integers]:
    """The same end to end, and how many of the last bytes of each are needed."""
    sign = turned[:, :1] >> 7
    # A byte in front may go if it repeats the sign of the one behind it.
    spare = (turned[:, :-1] == sign * np.uint8(0xFF)) & (turned[:, 1:] >> 7 == sign)
    leading = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    return turned.reshape(-1), _DECIMAL - leading.astype(np.int64)


def _numbers(array: pa.Array, kind: np.dtype[Any], each: int = 1) -> npt.NDArray[Any]:
    """``each`` numbers a value, straight from Arrow's memory."""
    content = array.buffers()[1]
    if content is None:
        return np.zeros(len(array) * each, kind)
    start = array.offset * kind.itemsize * each
    return np.frombuffer(content, kind, len(array) * each, start)
