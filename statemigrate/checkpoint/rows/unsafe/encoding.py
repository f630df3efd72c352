"""Columns of Arrow as Spark's ``UnsafeRow``: a struct, an array or a map is a block of bytes.

A row is a bitmap of what is null, a slot of 8 bytes a field, and behind them what has no room in a
slot, each padded to 8 bytes; its slot then has ``offset << 32 | size``, the offset from the row's
start. An array is its number of elements, a bitmap, the elements as wide as they are, and again
what lies behind. A map is the size of its array of keys, that array, and the array of values.
Source: apache/spark ``sql/catalyst/.../expressions/{UnsafeRow,UnsafeArrayData,UnsafeMapData}.java``
and ``codegen/Unsafe{Row,Array}Writer.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows, ends, joined
from statemigrate.checkpoint.rows.copying import copy_ranges, fill_ranges
from statemigrate.checkpoint.rows.unsafe.leaf_encoding import (
    Behind,
    Held,
    Mask,
    decimals,
    held,
    padded,
    pieces,
)
from statemigrate.checkpoint.rows.unsafe.types import (
    WORD,
    Array,
    Blob,
    Decimal,
    Field,
    Map,
    Nothing,
    Number,
    Struct,
    element_width,
)
from statemigrate.errors import ValueMismatchError

_WORD = np.dtype("<u8")


def struct_rows(struct: Struct, columns: Sequence[pa.Array], absent: Mask) -> Rows:
    """A row for each of ``n`` structs: bytes in multiples of 8.

    ``columns`` are the struct's fields. Where ``absent`` is true there is no struct, and the row
    there stands for nothing. Raises `ValueMismatchError` for a null that a field does not allow.
    """
    slots = np.zeros((absent.size, struct.fixed // WORD), _WORD)
    sizes = np.full(absent.size, struct.fixed, np.int64)
    parts: list[tuple[Behind, Integers]] = []
    for index, (field, column) in enumerate(zip(struct.fields, columns, strict=True)):
        nulls = nulls_of(field, column, absent)
        slots[:, index // 64] |= nulls.astype(_WORD) << np.uint64(index % 64)
        found = _encoded(field, column, nulls, in_row=True)
        if isinstance(found, Held):
            slots[:, struct.bitmap_words + index] = found.bits
            continue
        slots[:, struct.bitmap_words + index] = found.pointers(sizes)
        parts.append((found, sizes.copy()))
        sizes += found.room
    return _laid_out(slots.view(np.uint8), sizes, parts)


def _encoded(field: Field, array: pa.Array, nulls: Mask, *, in_row: bool) -> Held | Behind:
    """What slots have of an array, and what lies behind them."""
    match field.type:
        case Number() as kind:
            return held(kind, array, nulls)
        case Blob():
            return pieces(Rows.from_arrow(array), nulls)
        case Decimal() as kind:
            return decimals(kind, array, nulls, reserved=in_row)
        case Nothing():
            return Held(np.zeros(len(array), _WORD))
        case kind:
            return pieces(_blocks(kind, array, nulls), nulls)


def _blocks(kind: Struct | Array | Map, array: pa.Array, nulls: Mask) -> Rows:
    match kind:
        case Struct():
            columns = [array.field(index) for index in range(len(kind.fields))]
            return struct_rows(kind, columns, nulls)
        case Array():
            counts, (elements,) = flat(array, nulls, [array.values])
            return _array_rows(kind.element, elements, counts)
        case Map():
            return _map_rows(kind, array, nulls)


def nulls_of(field: Field, array: pa.Array, absent: Mask) -> Mask:
    """Where an array has no value, or what it is part of is not there."""
    if isinstance(field.type, Nothing):
        return np.ones(len(array), bool)
    if not array.null_count:
        return absent
    found: Mask = array.is_null().to_numpy(zero_copy_only=False)
    if not field.nullable and bool((found & ~absent).any()):
        raise ValueMismatchError(
            "SM-VALUE-003",
            f"{field.path} is null in {int((found & ~absent).sum())} rows, which it cannot be",
            expected=f"a value of {field.type.arrow} in every row",
            found="null",
            next_action="give the field a value, or let it be null in the new schema",
            field=field.path,
        )
    return found | absent


def _laid_out(fixed: Bytes, sizes: Integers, parts: list[tuple[Behind, Integers]]) -> Rows:
    """Rows of these sizes: a row of ``fixed`` first, and each part at its place in the row."""
    if not parts:
        return Rows.from_matrix(fixed)
    offsets = ends(sizes)
    data = np.zeros(offsets[-1], np.uint8)
    starts = offsets[:-1]
    fill_ranges(fixed, data, starts)
    for part, at in parts:
        copy_ranges(part.data, part.starts, part.sizes, data, starts + at)
    return Rows(data, offsets)


def _map_rows(kind: Map, array: pa.MapArray, nulls: Mask) -> Rows:
    counts, (keys, values) = flat(array, nulls, [array.keys, array.items])
    keyed = _array_rows(kind.key, keys, counts)
    valued = _array_rows(kind.value, values, counts)
    return joined(keyed.lengths.astype("<i8").view(np.uint8).reshape(-1, WORD), keyed, valued)


def flat(array: pa.Array, nulls: Mask, children: list[pa.Array]) -> tuple[Integers, list[pa.Array]]:
    """How many elements each list has, and the elements of all, end to end."""
    places = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(places)
    if nulls.any() and bool(counts[nulls].any()):
        used = np.repeat(~nulls, counts)
        counts = np.where(nulls, 0, counts)
    else:
        used = None
    found = [child.slice(places[0], places[-1] - places[0]) for child in children]
    return counts, found if used is None else [child.filter(pa.array(used)) for child in found]


def _array_rows(element: Field, array: pa.Array, counts: Integers) -> Rows:
    """A block for each list of elements, of which ``array`` has those of all."""
    owners = np.repeat(np.arange(counts.size), counts)
    first = ends(counts)[:-1]
    nulls = nulls_of(element, array, np.zeros(len(array), bool))
    headers = WORD + WORD * ((counts + 63) // 64)
    width = element_width(element.type)
    sizes = headers + padded(counts * width)
    found = _encoded(element, array, nulls, in_row=False)
    places = sizes
    if isinstance(found, Behind):
        # Where each element begins in its own block: behind those of the same list before it.
        before = ends(found.room)
        within = before[:-1] - before[first][owners]
        places, sizes = sizes[owners] + within, sizes + (before[first + counts] - before[first])
        bits = found.pointers(places)
    else:
        bits = found.bits
    offsets = ends(sizes)
    data = np.zeros(offsets[-1], np.uint8)
    starts = offsets[:-1]
    fill_ranges(counts.astype("<i8").view(np.uint8).reshape(-1, WORD), data, starts)
    _set_bits(data, starts[owners] + WORD, np.arange(len(array)) - first[owners], nulls)
    fixed = np.ascontiguousarray(bits).view(np.uint8)
    copy_ranges(fixed, first * width, counts * width, data, starts + headers)
    if isinstance(found, Behind):
        copy_ranges(found.data, found.starts, found.sizes, data, starts[owners] + places)
    return Rows(data, offsets)


def _set_bits(data: Bytes, bitmaps: Integers, indices: Integers, chosen: Mask) -> None:
    """Set bit ``indices[i]`` of the bitmap at ``bitmaps[i]``, where chosen."""
    if chosen.any():
        at, index = bitmaps[chosen], indices[chosen]
        bits = np.left_shift(np.uint8(1), (index % 8).astype(np.uint8))
        np.bitwise_or.at(data, at + index // 8, bits)
