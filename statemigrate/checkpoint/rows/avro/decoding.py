"""Avro's bytes as columns of Arrow; `encoding` tells which.

All rows are read side by side, a field at a time, and the elements of all their arrays and maps
too, first each one's first, then its second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.rows.avro.reading import Cursors
from statemigrate.checkpoint.rows.avro.types import fixed_width
from statemigrate.checkpoint.rows.buffers import Bytes, Integers, ends
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import (
    blobs,
    checked,
    damaged,
    numbers,
    wide_decimals_of,
)
from statemigrate.checkpoint.rows.unsafe.types import (
    Array,
    Blob,
    Decimal,
    Field,
    Map,
    Nothing,
    Number,
    Struct,
)
from statemigrate.checkpoint.rows.wrapped.splitting import Spans

_NULL, _THERE = 0, 2
_WIDE = 16


def decoded_structs(struct: Struct, spans: Spans) -> pa.StructArray:
    """The structs of these bytes. Raises `CorruptFileError` for bytes that are none."""
    cursors = Cursors(spans.data, spans.starts.copy(), spans.starts + spans.lengths)
    rows = np.arange(spans.starts.size)
    found = _struct(struct, cursors, rows)
    if bool(cursors.left(rows).any()):
        raise damaged("", "rows that end with their last field", "bytes behind it")
    return found


def _struct(struct: Struct, cursors: Cursors, rows: Integers) -> pa.StructArray:
    children = [_or_null(field, cursors, rows) for field in struct.fields]
    return pa.Array.from_buffers(struct.arrow, rows.size, [None], children=children)


def _or_null(field: Field, cursors: Cursors, rows: Integers) -> pa.Array:
    """What follows in each row of a union of null and a type."""
    if isinstance(field.type, Nothing):
        return pa.nulls(rows.size)
    branches = cursors.matrix(rows, 1, field.path)[:, 0]
    there = branches == _THERE
    if bool((~there & (branches != _NULL)).any()):
        raise damaged(field.path, "a branch of a union of two", "another")
    found = _present(field, cursors, rows[there])
    if there.all():
        return found
    return found.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _present(field: Field, cursors: Cursors, rows: Integers) -> pa.Array:
    match field.type:
        case Number() as kind:
            return checked(field, _numbers(field, kind, cursors, rows))
        case Blob():
            sizes = cursors.numbers(rows, field.path)
            starts = cursors.skip(rows, sizes, field.path)
            return checked(field, blobs(field, cursors.data, starts, sizes, _none(rows)))
        case Decimal() as kind:
            read = _widened(cursors.matrix(rows, fixed_width(kind), field.path))
            return checked(field, wide_decimals_of(kind.arrow, read, _none(rows)))
        case Struct() as kind:
            return _struct(kind, cursors, rows)
        case Array() as kind:
            return _nested(kind, _items(cursors, rows, [kind.element]))
        case Map() as kind:
            return _nested(kind, _items(cursors, rows, [kind.key, kind.value]))
        case Nothing():
            raise AssertionError(field.path)


def _element(field: Field) -> Callable[[Field, Cursors, Integers], pa.Array]:
    return _or_null if isinstance(field.type, Struct | Array | Map) else _present


def _numbers(field: Field, kind: Number, cursors: Cursors, rows: Integers) -> pa.Array:
    if pa.types.is_floating(kind.arrow) or pa.types.is_boolean(kind.arrow):
        read = cursors.matrix(rows, kind.bits.itemsize, field.path)
        return numbers(kind, np.ascontiguousarray(read).view(kind.bits)[:, 0], _none(rows))
    found = cursors.numbers(rows, field.path)
    most = 1 << (kind.bits.itemsize * 8 - 1)
    if bool(((found < -most) | (found > most - 1)).any()):
        raise damaged(field.path, f"numbers of {kind.bits.itemsize} bytes", "larger ones")
    return numbers(kind, found.view("<u8"), _none(rows))


def _items(
    cursors: Cursors, rows: Integers, fields: Sequence[Field]
) -> tuple[Integers, list[pa.Array]]:
    """How many items each list has, and what all have of each field, end to end."""
    totals = np.zeros(rows.size, np.int64)
    pieces: list[list[pa.Array]] = [[] for _ in fields]
    owners: list[Integers] = []
    unread = np.arange(rows.size)
    while unread.size:
        counts = cursors.numbers(rows[unread], fields[0].path)
        # Each item has a byte at least.
        if bool(((counts < 0) | (counts > cursors.left(rows[unread]))).any()):
            raise damaged(fields[0].path, "no more items than bytes", "another number")
        totals[unread] += counts
        for step in range(int(counts.max())):
            chosen = unread[counts > step]
            owners.append(chosen)
            for piece, field in zip(pieces, fields, strict=True):
                piece.append(_element(field)(field, cursors, rows[chosen]))
        unread = unread[counts > 0]
    if not owners:
        return totals, [pa.array([], field.type.arrow) for field in fields]
    order = pa.array(np.argsort(np.concatenate(owners), kind="stable"))
    return totals, [pa.concat_arrays(piece).take(order) for piece in pieces]


def _nested(kind: Array | Map, items: tuple[Integers, list[pa.Array]]) -> pa.Array:
    counts, columns = items
    if isinstance(kind, Map):
        fields = [kind.key.arrow, kind.value.arrow]
        columns = [pa.StructArray.from_arrays(columns, fields=fields)]
    buffers = [None, pa.py_buffer(ends(counts).astype(np.int32))]
    return pa.Array.from_buffers(kind.arrow, counts.size, buffers, children=columns)


def _none(rows: Integers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.zeros(rows.size, bool)


def _widened(data: Bytes) -> Bytes:
    """Numbers in sixteen bytes, big-endian, of as many or fewer."""
    whole = np.empty((data.shape[0], _WIDE), np.uint8)
    width = data.shape[1]
    whole[:, : _WIDE - width] = np.uint8(0xFF) * (data[:, :1] >> 7)
    whole[:, _WIDE - width :] = data
    return whole
