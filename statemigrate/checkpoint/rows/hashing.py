"""Spark's hashes of columns: ``hash`` and ``xxhash64``, of values as Arrow has them.

The hash of each value is the seed of the next, and a null leaves the seed as it is; a struct and an
array are their parts one after the other. Source: apache/spark
``sql/catalyst/.../expressions/hash.scala`` (``HashExpression``, ``InterpretedHashFunction``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.spark_types import Decimal, Number
from statemigrate.checkpoint.rows.unsafe_leaves import (
    SlotValues,
    VariableLengthValues,
    decimals,
    normalized_bits,
    slot_values,
)
from statemigrate.checkpoint.rows.wrapping import Spans
from statemigrate.errors import UnsupportedError
from statemigrate.numpy_arrays import numpy_array

Hashes = npt.NDArray[Any]
"""Unsigned integers of the width of a function's hashes."""
SEED = 42
"""What Spark begins with."""


@dataclass(frozen=True)
class HashFunction:
    """What hashes of this ``kind`` are of numbers of 32 and 64 bits, and of bytes.

    Each takes the values and a seed for each of them.
    """

    kind: type[np.unsignedinteger[Any]]
    ints: Callable[[Any, Any], Hashes]
    longs: Callable[[Any, Any], Hashes]
    bytes: Callable[[Spans, Any], Hashes]


def hash_of(columns: Sequence[pa.Array], function: HashFunction) -> Hashes:
    """Spark's hash of the columns, as its bits: the seed is 42.

    Raises `UnsupportedError` for a type that Spark takes no hash of: a map.
    """
    hashes = np.full(len(columns[0]), SEED, function.kind)
    for column in columns:
        hashes = _hashed(column, hashes, function)
    return hashes


def longest_first(spans: Spans) -> npt.NDArray[np.int64]:
    """The indices of runs of bytes, so that those which still have bytes are the first ones."""
    shortage = spans.lengths.max(initial=0) - spans.lengths
    # Numbers of 16 bits are sorted without comparing them.
    few = int(shortage.max(initial=0)) < 1 << 16
    return np.argsort(shortage.astype(np.uint16) if few else shortage, kind="stable")


def _hashed(array: pa.Array, seeds: Hashes, function: HashFunction) -> Hashes:
    """The hashes of values that are not null, the seeds of the others."""
    nulls = numpy_array(array.is_null())
    found = _present(array, nulls, seeds, function)
    return np.where(nulls, seeds, found) if nulls.any() else found


def _present(
    array: pa.Array, nulls: npt.NDArray[np.bool_], seeds: Hashes, function: HashFunction
) -> Hashes:
    kind = array.type
    if pa.types.is_null(kind):
        return seeds
    if pa.types.is_struct(kind):
        return _fields(array, seeds, function)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _elements(array, nulls, seeds, function)
    if pa.types.is_decimal128(kind):
        part = Decimal(kind.precision, kind.scale)
        return _of(decimals(part, array, nulls, reserved=False), seeds, function)
    if kind in _BLOBS:
        rows = Rows.from_arrow(array)
        return function.bytes(Spans.of(rows), seeds)
    for is_kind, bits in _NUMBERS:
        if is_kind(kind):
            return _numbers(
                slot_values(Number(kind, np.dtype(bits)), array, nulls), kind, seeds, function
            )
    raise UnsupportedError(
        "SM-STATE-008",
        f"Spark takes no hash of the type {kind}, so a key of it has no partition",
        expected="numbers, decimals, strings, binaries, moments, structs and arrays of them",
        found=str(kind),
        next_action="leave the state as it is; Spark does not group by such a type either",
    )


_BLOBS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_NUMBERS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "u1"),
    (pa.types.is_int8, "u1"),
    (pa.types.is_int16, "<u2"),
    (pa.types.is_int32, "<u4"),
    (pa.types.is_date32, "<u4"),
    (pa.types.is_float32, "<u4"),
    (pa.types.is_int64, "<u8"),
    (pa.types.is_float64, "<u8"),
    (pa.types.is_timestamp, "<u8"),
    (pa.types.is_duration, "<u8"),
    (pa.types.is_time64, "<u8"),
)


def _numbers(
    values: SlotValues, kind: pa.DataType, seeds: Hashes, function: HashFunction
) -> Hashes:
    bits: npt.NDArray[Any] = values.bits
    if pa.types.is_floating(kind):
        # 0.0 and -0.0 have one hash, and so has whatever is not a number.
        bits = normalized_bits(bits)
    if bits.itemsize < 4:
        bits = bits.view(f"<i{bits.itemsize}").astype("<i4").view("<u4")
    return function.longs(bits, seeds) if bits.itemsize == 8 else function.ints(bits, seeds)


def _of(values: SlotValues | VariableLengthValues, seeds: Hashes, function: HashFunction) -> Hashes:
    if isinstance(values, SlotValues):
        return function.longs(values.bits, seeds)
    return function.bytes(Spans(values.data, values.starts, values.sizes), seeds)


def _fields(array: pa.StructArray, seeds: Hashes, function: HashFunction) -> Hashes:
    for index in range(array.type.num_fields):
        seeds = _hashed(array.field(index), seeds, function)
    return seeds


def _elements(
    array: pa.Array, nulls: npt.NDArray[np.bool_], seeds: Hashes, function: HashFunction
) -> Hashes:
    """The first element of every list, then the second of those that have one, and so on."""
    places = numpy_array(array.offsets).astype(np.int64)
    counts = np.where(nulls, 0, np.diff(places))
    seeds = seeds.copy()
    for step in range(int(counts.max()) if counts.size else 0):
        rows = np.flatnonzero(counts > step)
        elements = array.values.take(pa.array(places[:-1][rows] + step))
        seeds[rows] = _hashed(elements, seeds[rows], function)
    return seeds


# Murmur3 as Spark computes it, of many values at once, each with a seed of its own.
#
# Bytes behind the last whole word are mixed in one at a time, signed, unlike in other Murmur3s.
# Source: apache/spark ``common/unsafe/.../unsafe/hash/Murmur3_x86_32.java`` (``hashUnsafeBytes``).


Murmur3Hashes = npt.NDArray[np.uint32]
_WORD = 4


def hashed_ints(values: npt.NDArray[np.uint32], seeds: Murmur3Hashes) -> Murmur3Hashes:
    """The hashes of integers of 32 bits."""
    return _finished(_mixed(seeds, values), np.uint32(4))


def hashed_longs(values: npt.NDArray[np.uint64], seeds: Murmur3Hashes) -> Murmur3Hashes:
    """The hashes of integers of 64 bits."""
    low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), np.uint32(8))


def hashed_bytes(spans: Spans, seeds: Murmur3Hashes) -> Murmur3Hashes:
    """The hashes of runs of bytes."""
    order = longest_first(spans)
    starts, lengths, found = spans.starts[order], spans.lengths[order], seeds[order]
    words = lengths // _WORD
    for step in range(int(words[0]) if words.size else 0):
        rows = int(np.searchsorted(-words, -step))
        found[:rows] = _mixed(found[:rows], _words(spans)[starts[:rows] + step * _WORD])
    rest = lengths % _WORD
    for step in range(_WORD - 1):
        chosen = np.flatnonzero(rest > step)
        read = spans.data[starts[chosen] + words[chosen] * _WORD + step].view(np.int8)
        found[chosen] = _mixed(found[chosen], read.astype(np.int32).view(np.uint32))
    hashes = np.empty_like(found)
    hashes[order] = _finished(found, lengths.astype(np.uint32))
    return hashes


def _words(spans: Spans) -> npt.NDArray[Any]:
    """Every four bytes of the data: those at index ``i`` begin at byte ``i``."""
    return np.ndarray((spans.data.size - _WORD + 1,), "<u4", spans.data, strides=(1,))


def _mixed(hashes: Murmur3Hashes, words: npt.NDArray[Any]) -> Murmur3Hashes:
    mixed = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(hashes ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _turned(words: npt.NDArray[Any], bits: int) -> Murmur3Hashes:
    turned: Murmur3Hashes = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return turned


def _finished(hashes: Murmur3Hashes, lengths: npt.NDArray[np.uint32] | np.uint32) -> Murmur3Hashes:
    found = hashes ^ lengths
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return found ^ (found >> np.uint32(16))


MURMUR3 = HashFunction(np.uint32, hashed_ints, hashed_longs, hashed_bytes)
"""Spark's ``hash``, which says where a key lies."""


# In which partition Spark looks for a key: ``pmod(hash(columns), n)``, as in Spark SQL.
#
# Source: apache/spark ``plans/physical/partitioning.scala`` (``HashPartitioning``).


def partition_of(columns: Sequence[pa.Array], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, from 0, of as many ``partitions``.

    ``columns`` are what the query partitions by, as Arrow has them (`RowCodec`). Raises
    `UnsupportedError` for a type that is no key: a map.
    """
    return np.mod(hash_of(columns, MURMUR3).view(np.int32), np.int32(partitions))
