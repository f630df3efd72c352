"""Spark's ``UnsafeRow`` as columns of Arrow; `encoding` tells the layout.

What a block of bytes says of itself is compared with the bytes there are before it is believed, at
every level, and what lies behind slots may not have more bytes than the block: so no input leads
outside its bytes, or to more memory than a few times its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, ends, within
from statemigrate.checkpoint.rows.copying import copy_ranges
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import (
    blobs,
    checked,
    damaged,
    is_small,
    large_decimals,
    numbers,
    small_decimals,
    validity,
)
from statemigrate.checkpoint.rows.unsafe.leaf_encoding import Mask, padded
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
    Type,
    element_width,
)

_WORD = np.dtype("<u8")
_SIZE = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Blocks:
    """``n`` blocks of bytes within ``data``; where ``nulls`` is true there is none."""

    data: Bytes
    starts: Integers
    sizes: Integers
    nulls: Mask

    def words(self, count: int) -> npt.NDArray[Any]:
        """The first ``count`` words of each block, of shape ``(n, count)``; 0 where there is none.

        Every block has to have as many.
        """
        found = np.zeros((self.nulls.size, count * WORD), np.uint8)
        there = np.flatnonzero(~self.nulls)
        widths = np.full(there.size, count * WORD)
        copy_ranges(self.data, self.starts[there], widths, found.reshape(-1), there * count * WORD)
        return found.view(_WORD)

    def parts(self, slots: npt.NDArray[Any], nulls: Mask) -> Blocks:
        """What slots of these blocks, one a block, point to."""
        places = np.where(nulls, _WORD.type(0), slots)
        sizes = (places & _SIZE).astype(np.int64)
        return Blocks(
            self.data, self.starts + (places >> np.uint64(32)).astype(np.int64), sizes, nulls
        )


def decoded_rows(struct: Struct, data: Bytes, starts: Integers, sizes: Integers) -> pa.StructArray:
    """The rows of a schema that lie within ``data``.

    Raises `CorruptFileError` for bytes that are none.
    """
    whole = Blocks(data, starts, sizes, np.zeros(starts.size, bool))
    return _structs(Field("", "", struct, nullable=False), struct, whole)


def _structs(field: Field, struct: Struct, blocks: Blocks) -> pa.StructArray:
    _long_enough(field, blocks, np.full(blocks.nulls.size, struct.fixed))
    slots = blocks.words(struct.fixed // WORD)
    columns = [_column(struct, index, slots, blocks) for index in range(len(struct.fields))]
    used = np.full(blocks.nulls.size, struct.fixed)
    for column in columns:
        if isinstance(column, Blocks):
            used += column.sizes
    _long_enough(field, blocks, used)
    children = [
        _behind(each, column) if isinstance(column, Blocks) else column
        for each, column in zip(struct.fields, columns, strict=True)
    ]
    buffers = [validity(blocks.nulls)]
    return pa.Array.from_buffers(struct.arrow, blocks.nulls.size, buffers, children=children)


def _column(
    struct: Struct, index: int, slots: npt.NDArray[Any], blocks: Blocks
) -> pa.Array | Blocks:
    """One field's values, or where they are, which is within ``blocks``."""
    field = struct.fields[index]
    bits = slots[:, index // 64] >> np.uint64(index % 64)
    nulls = blocks.nulls | (bits & np.uint64(1)).astype(bool)
    column = slots[:, struct.bitmap_words + index]
    if _is_held(field.type):
        return _held(field, column, nulls)
    parts = blocks.parts(column, nulls)
    _inside(field, parts, blocks, struct.fixed)
    return parts


def _is_held(kind: Type) -> bool:
    return isinstance(kind, Number | Nothing) or (isinstance(kind, Decimal) and is_small(kind))


def _held(field: Field, slots: npt.NDArray[Any], nulls: Mask) -> pa.Array:
    match field.type:
        case Number() as kind:
            return checked(field, numbers(kind, slots, nulls))
        case Decimal() as kind:
            return checked(field, small_decimals(kind, slots, nulls))
    return pa.nulls(nulls.size)


def _behind(field: Field, blocks: Blocks) -> pa.Array:
    match field.type:
        case Struct() as kind:
            return _structs(field, kind, blocks)
        case Array() as kind:
            counts, elements = _elements(kind.element, blocks)
            return _nested(kind, blocks.nulls, counts, elements)
        case Map() as kind:
            return _maps(field, kind, blocks)
        case Blob():
            read = blobs
        case _:
            read = large_decimals
    return checked(field, read(field, blocks.data, blocks.starts, blocks.sizes, blocks.nulls))


def _maps(field: Field, kind: Map, blocks: Blocks) -> pa.Array:
    _long_enough(field, blocks, np.full(blocks.nulls.size, WORD))
    first = blocks.words(1)[:, 0].view("<i8")
    rest = np.where(blocks.nulls, 0, blocks.sizes - WORD)
    if bool(((first < 0) | (first > rest)).any()):
        raise damaged(field.path, "an array of keys within the map", "one that is not")
    keyed = Blocks(blocks.data, blocks.starts + WORD, first, blocks.nulls)
    valued = Blocks(blocks.data, keyed.starts + first, rest - first, blocks.nulls)
    counts, keys = _elements(kind.key, keyed)
    others, values = _elements(kind.value, valued)
    if keys.null_count or not np.array_equal(counts, others):
        raise damaged(field.path, "a map with a value for each key, no key null", "another")
    entries = pa.StructArray.from_arrays([keys, values], fields=[kind.key.arrow, kind.value.arrow])
    return _nested(kind, blocks.nulls, counts, entries)


def _nested(kind: Array | Map, nulls: Mask, counts: Integers, elements: pa.Array) -> pa.Array:
    # No more elements than bytes, of which Arrow's strings have allowed fewer than 2^31.
    buffers = [validity(nulls), pa.py_buffer(ends(counts).astype(np.int32))]
    return pa.Array.from_buffers(kind.arrow, nulls.size, buffers, children=[elements])


def _elements(element: Field, blocks: Blocks) -> tuple[Integers, pa.Array]:
    """How many elements each array has, and those of all, end to end."""
    _long_enough(element, blocks, np.full(blocks.nulls.size, WORD))
    counts = blocks.words(1)[:, 0].view("<i8").copy()
    width = element_width(element.type)
    if bool(((counts < 0) | (counts > np.where(blocks.nulls, 0, blocks.sizes))).any()):
        raise damaged(element.path, "no more elements than bytes", "another number of elements")
    headers = WORD + WORD * ((counts + 63) // 64)
    fixed = headers + padded(counts * width)
    _long_enough(element, blocks, fixed)
    owners = np.repeat(np.arange(counts.size), counts)
    indices = np.arange(owners.size) - ends(counts)[:-1][owners]
    bitmaps = blocks.starts[owners] + WORD
    nulls = (blocks.data[bitmaps + indices // 8] >> (indices % 8).astype(np.uint8)) & 1 == 1
    content = within(
        blocks.data, np.where(blocks.nulls, 0, blocks.starts + headers), counts * width
    )
    slots = content.data.view(f"<u{width}")
    if _is_held(element.type):
        return counts, _held(element, slots, nulls)
    outer = Blocks(blocks.data, blocks.starts[owners], blocks.sizes[owners], nulls)
    parts = outer.parts(slots, nulls)
    _inside(element, parts, outer, fixed[owners])
    total = np.bincount(owners, parts.sizes, counts.size).astype(np.int64)
    _long_enough(element, blocks, fixed + total)
    return counts, _behind(element, parts)


def _long_enough(field: Field, blocks: Blocks, needed: Integers) -> None:
    if bool((~blocks.nulls & (blocks.sizes < needed)).any()):
        raise damaged(field.path, "as many bytes as its parts need", "fewer")


def _inside(field: Field, parts: Blocks, blocks: Blocks, fixed: Integers | int) -> None:
    """Refuse parts that do not lie behind the slots of their own blocks and within these."""
    places = parts.starts - blocks.starts
    outside = (places < fixed) | (places + parts.sizes > blocks.sizes)
    if bool((~parts.nulls & outside).any()):
        raise damaged(field.path, "bytes behind the slots and within the row", "bytes elsewhere")
