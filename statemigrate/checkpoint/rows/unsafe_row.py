"""Rows of one schema: Arrow to Spark's ``UnsafeRow`` and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.operators import StructJson
from statemigrate.checkpoint.rows.buffers import (
    Bytes,
    Integers,
    Rows,
    copy_ranges,
    ends,
    fill_ranges,
    joined,
    within,
)
from statemigrate.checkpoint.rows.spark_types import (
    WORD,
    Blob,
    Decimal,
    Nothing,
    Number,
    SparkArray,
    SparkField,
    SparkMap,
    SparkStruct,
    Type,
    element_width,
    reading,
    struct_of,
)
from statemigrate.checkpoint.rows.unsafe_leaves import (
    Mask,
    SlotValues,
    VariableLengthValues,
    blobs,
    checked,
    conforming,
    damaged,
    decimals,
    is_small,
    large_decimals,
    numbers,
    padded,
    pieces,
    slot_values,
    small_decimals,
    validity,
)
from statemigrate.errors import ValueMismatchError
from statemigrate.numpy_arrays import numpy_array

# Spark's ``UnsafeRow`` as columns of Arrow; `encoding` tells the layout.
#
# What a block of bytes says of itself is compared with the bytes there are before it is believed,
# at every level, and what lies behind slots may not have more bytes than the block: so no input
# leads outside its bytes, or to more memory than a few times its own.


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


def decoded_rows(
    struct: SparkStruct, data: Bytes, starts: Integers, sizes: Integers
) -> pa.StructArray:
    """The rows of a schema that lie within ``data``.

    Raises `CorruptFileError` for bytes that are none.
    """
    whole = Blocks(data, starts, sizes, np.zeros(starts.size, bool))
    return _structs(SparkField("", "", struct, nullable=False), struct, whole)


def _structs(field: SparkField, struct: SparkStruct, blocks: Blocks) -> pa.StructArray:
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
    struct: SparkStruct, index: int, slots: npt.NDArray[Any], blocks: Blocks
) -> pa.Array | Blocks:
    """One field's values, or where they are, which is within ``blocks``."""
    field = struct.fields[index]
    if not field.is_read:
        return pa.nulls(blocks.nulls.size, field.type.arrow)
    bits = slots[:, index // 64] >> np.uint64(index % 64)
    nulls = blocks.nulls | (bits & np.uint64(1)).astype(bool)
    column = slots[:, struct.bitmap_words + index]
    if _fits_a_slot(field.type):
        return _read_slots(field, column, nulls)
    parts = blocks.parts(column, nulls)
    _inside(field, parts, blocks, struct.fixed)
    return parts


def _fits_a_slot(kind: Type) -> bool:
    return isinstance(kind, Number | Nothing) or (isinstance(kind, Decimal) and is_small(kind))


def _read_slots(field: SparkField, slots: npt.NDArray[Any], nulls: Mask) -> pa.Array:
    match field.type:
        case Number() as kind:
            return checked(field, numbers(kind, slots, nulls))
        case Decimal() as kind:
            return checked(field, small_decimals(kind, slots, nulls))
    return pa.nulls(nulls.size)


def _behind(field: SparkField, blocks: Blocks) -> pa.Array:
    match field.type:
        case SparkStruct() as kind:
            return _structs(field, kind, blocks)
        case SparkArray() as kind:
            counts, elements = _elements(kind.element, blocks)
            return _nested(kind, blocks.nulls, counts, elements)
        case SparkMap() as kind:
            return _maps(field, kind, blocks)
        case Blob():
            read = blobs
        case _:
            read = large_decimals
    return checked(field, read(field, blocks.data, blocks.starts, blocks.sizes, blocks.nulls))


def _maps(field: SparkField, kind: SparkMap, blocks: Blocks) -> pa.Array:
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


def _nested(
    kind: SparkArray | SparkMap, nulls: Mask, counts: Integers, elements: pa.Array
) -> pa.Array:
    # No more elements than bytes, and Arrow's strings have allowed fewer than 2^31.
    buffers = [validity(nulls), pa.py_buffer(ends(counts).astype(np.int32))]
    return pa.Array.from_buffers(kind.arrow, nulls.size, buffers, children=[elements])


def _elements(element: SparkField, blocks: Blocks) -> tuple[Integers, pa.Array]:
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
    if _fits_a_slot(element.type):
        return counts, _read_slots(element, slots, nulls)
    outer = Blocks(blocks.data, blocks.starts[owners], blocks.sizes[owners], nulls)
    parts = outer.parts(slots, nulls)
    _inside(element, parts, outer, fixed[owners])
    total = np.bincount(owners, parts.sizes, counts.size).astype(np.int64)
    _long_enough(element, blocks, fixed + total)
    return counts, _behind(element, parts)


def _long_enough(field: SparkField, blocks: Blocks, needed: Integers) -> None:
    if bool((~blocks.nulls & (blocks.sizes < needed)).any()):
        raise damaged(field.path, "as many bytes as its parts need", "fewer")


def _inside(field: SparkField, parts: Blocks, blocks: Blocks, fixed: Integers | int) -> None:
    """Refuse parts that do not lie behind the slots of their own blocks and within these."""
    places = parts.starts - blocks.starts
    outside = (places < fixed) | (places + parts.sizes > blocks.sizes)
    if bool((~parts.nulls & outside).any()):
        raise damaged(field.path, "bytes behind the slots and within the row", "bytes elsewhere")


# Columns of Arrow as Spark's ``UnsafeRow``: a struct, an array or a map is a block of bytes.
#
# A row is a bitmap of what is null, a slot of 8 bytes a field, and behind them what has no room in
# a slot, each padded to 8 bytes; its slot then has ``offset << 32 | size``, the offset from the
# row's start. An array is its number of elements, a bitmap, the elements as wide as they are, and
# again what lies behind. A map is the size of its array of keys, that array, and the array of
# values. Source: apache/spark  # noqa: ERA001
# ``sql/catalyst/.../expressions/{UnsafeRow,UnsafeArrayData,UnsafeMapData}.java`` and
# ``codegen/Unsafe{Row,Array}Writer.java``.


def struct_rows(struct: SparkStruct, columns: Sequence[pa.Array], absent: Mask) -> Rows:
    """A row for each of ``n`` structs: bytes in multiples of 8.

    ``columns`` are the struct's fields. Where ``absent`` is true there is no struct, and the row
    there stands for nothing. Raises `ValueMismatchError` for a null that a field does not allow.
    """
    slots = np.zeros((absent.size, struct.fixed // WORD), _WORD)
    sizes = np.full(absent.size, struct.fixed, np.int64)
    parts: list[tuple[VariableLengthValues, Integers]] = []
    for index, (field, column) in enumerate(zip(struct.fields, columns, strict=True)):
        nulls = nulls_of(field, column, absent)
        slots[:, index // 64] |= nulls.astype(_WORD) << np.uint64(index % 64)
        found = _encoded(field, column, nulls, in_row=True)
        if isinstance(found, SlotValues):
            slots[:, struct.bitmap_words + index] = found.bits
            continue
        slots[:, struct.bitmap_words + index] = found.pointers(sizes)
        parts.append((found, sizes.copy()))
        sizes += found.room
    return _laid_out(slots.view(np.uint8), sizes, parts)


def _encoded(
    field: SparkField, array: pa.Array, nulls: Mask, *, in_row: bool
) -> SlotValues | VariableLengthValues:
    """What slots have of an array, and what lies behind them."""
    match field.type:
        case Number() as kind:
            return slot_values(kind, array, nulls)
        case Blob():
            return pieces(Rows.from_arrow(array), nulls)
        case Decimal() as kind:
            return decimals(kind, array, nulls, reserved=in_row)
        case Nothing():
            return SlotValues(np.zeros(len(array), _WORD))
        case kind:
            return pieces(_blocks(kind, array, nulls), nulls)


def _blocks(kind: SparkStruct | SparkArray | SparkMap, array: pa.Array, nulls: Mask) -> Rows:
    match kind:
        case SparkStruct():
            columns = [array.field(index) for index in range(len(kind.fields))]
            return struct_rows(kind, columns, nulls)
        case SparkArray():
            counts, (elements,) = flat(array, nulls, [array.values])
            return _array_rows(kind.element, elements, counts)
        case SparkMap():
            return _map_rows(kind, array, nulls)


def nulls_of(field: SparkField, array: pa.Array, absent: Mask) -> Mask:
    """Where an array has no value, or what it is part of is not there."""
    if isinstance(field.type, Nothing):
        return np.ones(len(array), bool)
    if not array.null_count:
        return absent
    found: Mask = numpy_array(array.is_null())
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


def _laid_out(
    fixed: Bytes, sizes: Integers, parts: list[tuple[VariableLengthValues, Integers]]
) -> Rows:
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


def _map_rows(kind: SparkMap, array: pa.MapArray, nulls: Mask) -> Rows:
    counts, (keys, values) = flat(array, nulls, [array.keys, array.items])
    keyed = _array_rows(kind.key, keys, counts)
    valued = _array_rows(kind.value, values, counts)
    return joined(keyed.lengths.astype("<i8").view(np.uint8).reshape(-1, WORD), keyed, valued)


def flat(array: pa.Array, nulls: Mask, children: list[pa.Array]) -> tuple[Integers, list[pa.Array]]:
    """How many elements each list has, and the elements of all, end to end."""
    places = numpy_array(array.offsets).astype(np.int64)
    counts = np.diff(places)
    if nulls.any() and bool(counts[nulls].any()):
        used = np.repeat(~nulls, counts)
        counts = np.where(nulls, 0, counts)
    else:
        used = None
    found = [child.slice(places[0], places[-1] - places[0]) for child in children]
    return counts, found if used is None else [child.filter(pa.array(used)) for child in found]


def _array_rows(element: SparkField, array: pa.Array, counts: Integers) -> Rows:
    """A block for each list of elements; ``array`` has the elements of all."""
    owners = np.repeat(np.arange(counts.size), counts)
    first = ends(counts)[:-1]
    nulls = nulls_of(element, array, np.zeros(len(array), bool))
    headers = WORD + WORD * ((counts + 63) // 64)
    width = element_width(element.type)
    sizes = headers + padded(counts * width)
    found = _encoded(element, array, nulls, in_row=False)
    places = sizes
    if isinstance(found, VariableLengthValues):
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
    if isinstance(found, VariableLengthValues):
        copy_ranges(found.data, found.starts, found.sizes, data, starts[owners] + places)
    return Rows(data, offsets)


def _set_bits(data: Bytes, bitmaps: Integers, indices: Integers, chosen: Mask) -> None:
    """Set bit ``indices[i]`` of the bitmap at ``bitmaps[i]``, where chosen."""
    if chosen.any():
        at, index = bitmaps[chosen], indices[chosen]
        bits = np.left_shift(np.uint8(1), (index % 8).astype(np.uint8))
        np.bitwise_or.at(data, at + index // 8, bits)


class RowCodec:
    """Reads and writes the rows of a schema, a batch at a time.

    With ``paths``, dotted names of fields, it reads these alone, and the other fields are null.
    Raises `UnsupportedError` for a schema with a type that it does not know.
    """

    def __init__(self, schema: StructJson, paths: Collection[str] | None = None) -> None:
        self._struct = struct_of(schema)
        self._read = self._struct if paths is None else reading(self._struct, paths)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow's schema of the rows, as Spark has it in ``mapInArrow``."""
        return pa.schema([field.arrow for field in self._struct.fields])

    def encode(self, batch: pa.RecordBatch | pa.StructArray) -> Rows:
        """The rows of a batch, or of structs without nulls.

        Raises `ValueMismatchError` for columns that are not the schema's in name, order and type,
        and for a null where the schema has none.
        """
        columns = conforming(self._struct, batch)
        return struct_rows(self._struct, columns, np.zeros(len(batch), bool))

    def decode(self, rows: Rows) -> pa.StructArray:
        """The rows' values. Raises `CorruptFileError` for bytes that are no rows of the schema."""
        return self.decode_within(rows.data, rows.starts, rows.lengths)

    def decode_within(self, data: Bytes, starts: Integers, lengths: Integers) -> pa.StructArray:
        """The values of rows that lie in ``data`` at ``starts``, of these lengths.

        Raises `CorruptFileError` for bytes that are no rows of the schema.
        """
        return decoded_rows(self._read, data, starts, lengths)
