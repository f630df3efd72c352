"""In which partition Spark looks for a key: ``pmod(hash(columns), n)``, as in Spark SQL.

The hash of each value is the seed of the next, and a null leaves the seed as it is; a struct and an
array are their parts one after the other. Source: apache/spark
``sql/catalyst/.../expressions/hash.scala`` (``Murmur3Hash``, ``InterpretedHashFunction``) and
``plans/physical/partitioning.scala`` (``HashPartitioning``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.murmur3 import Hashes, hashed_bytes, hashed_ints, hashed_longs
from statemigrate.checkpoint.rows.unsafe.floats import normalized_bits
from statemigrate.checkpoint.rows.unsafe.leaf_encoding import Behind, Held, decimals, held
from statemigrate.checkpoint.rows.unsafe.types import Decimal, Number
from statemigrate.checkpoint.rows.wrapped.splitting import Spans
from statemigrate.errors import UnsupportedError

_SEED = 42


def partition_of(columns: Sequence[pa.Array], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, from 0, of as many ``partitions``.

    ``columns`` are what the query partitions by, as Arrow has them (`RowCodec`). Raises
    `UnsupportedError` for a type that is no key: a map.
    """
    return np.mod(hash_of(columns).view(np.int32), np.int32(partitions))


def hash_of(columns: Sequence[pa.Array]) -> Hashes:
    """Spark's ``hash`` of the columns, as its bits: the seed is 42."""
    hashes = np.full(len(columns[0]), _SEED, np.uint32)
    for column in columns:
        hashes = _hashed(column, hashes)
    return hashes


def _hashed(array: pa.Array, seeds: Hashes) -> Hashes:
    """The hashes of values that are not null, the seeds of the others."""
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    found = _present(array, nulls, seeds)
    return np.where(nulls, seeds, found) if nulls.any() else found


def _present(array: pa.Array, nulls: npt.NDArray[np.bool_], seeds: Hashes) -> Hashes:
    kind = array.type
    if pa.types.is_null(kind):
        return seeds
    if pa.types.is_struct(kind):
        return _fields(array, seeds)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _elements(array, nulls, seeds)
    if pa.types.is_decimal128(kind):
        part = Decimal(kind.precision, kind.scale)
        return _of(decimals(part, array, nulls, reserved=False), seeds)
    if kind in _BLOBS:
        rows = Rows.from_arrow(array)
        return hashed_bytes(Spans.of(rows), seeds)
    for is_kind, bits in _NUMBERS:
        if is_kind(kind):
            return _numbers(held(Number(kind, np.dtype(bits)), array, nulls), kind, seeds)
    raise UnsupportedError(
        f"a key of type {kind} has no partition",
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


def _numbers(values: Held, kind: pa.DataType, seeds: Hashes) -> Hashes:
    bits: npt.NDArray[Any] = values.bits
    if pa.types.is_floating(kind):
        # 0.0 and -0.0 have one hash, and so has whatever is not a number.
        bits = normalized_bits(bits)
    if bits.itemsize < 4:
        bits = bits.view(f"<i{bits.itemsize}").astype("<i4").view("<u4")
    return hashed_longs(bits, seeds) if bits.itemsize == 8 else hashed_ints(bits, seeds)


def _of(values: Held | Behind, seeds: Hashes) -> Hashes:
    if isinstance(values, Held):
        return hashed_longs(values.bits, seeds)
    return hashed_bytes(Spans(values.data, values.starts, values.sizes), seeds)


def _fields(array: pa.StructArray, seeds: Hashes) -> Hashes:
    for index in range(array.type.num_fields):
        seeds = _hashed(array.field(index), seeds)
    return seeds


def _elements(array: pa.Array, nulls: npt.NDArray[np.bool_], seeds: Hashes) -> Hashes:
    """The first element of every list, then the second of those that have one, and so on."""
    places = array.offsets.to_numpy().astype(np.int64)
    counts = np.where(nulls, 0, np.diff(places))
    seeds = seeds.copy()
    for step in range(int(counts.max()) if counts.size else 0):
        rows = np.flatnonzero(counts > step)
        elements = array.values.take(pa.array(places[:-1][rows] + step))
        seeds[rows] = _hashed(elements, seeds[rows])
    return seeds
