"""Decoding state rows that Spark has encoded as Avro, as columns of Arrow.

Avro's bytes as columns of Arrow; `encoding` tells which.

All rows are read side by side, a field at a time, and the elements of all their arrays and maps
too, first each one's first, then its second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows, ends, within
from statemigrate.checkpoint.rows.spark_types import (
    Blob,
    Decimal,
    Nothing,
    Number,
    SparkArray,
    SparkField,
    SparkMap,
    SparkStruct,
    Type,
)
from statemigrate.checkpoint.rows.unsafe_leaves import (
    blobs,
    checked,
    damaged,
    numbers,
    wide_decimals_of,
)
from statemigrate.checkpoint.rows.wrapping import Spans
from statemigrate.errors import UnsupportedError

# Avro's integers of variable length, many at once.
#
# The sign is moved to the lowest bit, then seven bits go into a byte, the lowest first, each byte
# but the last with its highest bit set: Avro's specification, "Binary encoding".


_LONGEST = 10
_MORE = 0x80


def varints(numbers: Integers) -> Rows:
    """The bytes of each number."""
    bits = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    shifts = np.arange(_LONGEST, dtype=np.uint64) * np.uint64(7)
    groups: npt.NDArray[Any] = (bits[:, np.newaxis] >> shifts) & np.uint64(0x7F)
    rest = bits[:, np.newaxis] >> shifts != 0
    lengths = np.maximum(rest.sum(axis=1), 1)
    used = np.arange(_LONGEST) < lengths[:, np.newaxis]
    more = np.arange(_LONGEST) < (lengths - 1)[:, np.newaxis]
    whole = (groups | np.where(more, np.uint64(_MORE), np.uint64(0))).astype(np.uint8)
    return Rows(whole[used], ends(lengths))


def read_varints(
    data: Bytes, places: Integers, limits: Integers, what: str
) -> tuple[Integers, Integers]:
    """The number at each place, and where it ends.

    Raises `CorruptFileError` for one that does not end before its limit, or is too long.
    """
    found = np.zeros(places.size, np.uint64)
    places = places.copy()
    open_rows = np.arange(places.size)
    for step in range(_LONGEST):
        if not open_rows.size:
            break
        if bool((places[open_rows] >= limits[open_rows]).any()):
            raise damaged(what, "a number that ends within its row", "none")
        read = data[places[open_rows]]
        places[open_rows] += 1
        found[open_rows] |= (read & 0x7F).astype(np.uint64) << np.uint64(7 * step)
        open_rows = open_rows[read >= _MORE]
    if open_rows.size:
        raise damaged(what, f"a number of at most {_LONGEST} bytes", "a longer one")
    signs = (found & np.uint64(1)).view(np.int64)
    return (found >> np.uint64(1)).view(np.int64) ^ -signs, places


# Many rows that are read side by side, each from where the last field of it has ended.


@dataclass(frozen=True)
class Cursors:
    """A place within each row of ``data``, up to its limit; reading moves the places on."""

    data: Bytes
    places: Integers
    limits: Integers

    def numbers(self, rows: Integers, what: str) -> Integers:
        """The next number of variable length of each of the rows."""
        found, places = read_varints(self.data, self.places[rows], self.limits[rows], what)
        self.places[rows] = places
        return found

    def matrix(self, rows: Integers, width: int, what: str) -> Bytes:
        """The next ``width`` bytes of each of the rows."""
        widths = np.full(rows.size, width)
        starts = self.skip(rows, widths, what)
        return within(self.data, starts, widths).data.reshape(rows.size, width)

    def skip(self, rows: Integers, widths: Integers, what: str) -> Integers:
        """Where the next ``widths`` bytes of each of the rows begin, which are passed over."""
        starts = self.places[rows]
        if bool(((widths < 0) | (widths > self.limits[rows] - starts)).any()):
            raise damaged(what, "bytes within the row", "more than it has")
        self.places[rows] += widths
        return starts

    def left(self, rows: Integers) -> Integers:
        """The bytes that each of the rows still has."""
        return self.limits[rows] - self.places[rows]


# Which of Spark's types its Avro encoding of state has, and how wide it has decimals.


# Spark writes bytes and shorts, but not what would read them again.
_MISSING = (pa.int8(), pa.int16(), pa.duration("us"), pa.time64("ns"))


def fixed_width(kind: Decimal) -> int:
    """The bytes of a decimal: as many as its precision needs."""
    width = 1
    while 2 ** (8 * width - 1) < 10**kind.precision:
        width += 1
    return width


def check_avro(kind: Type, path: str) -> None:
    """Refuse what Spark's Avro encoding of state does not have. Raises `UnsupportedError`."""
    match kind:
        case SparkStruct(fields):
            for field in fields:
                check_avro(field.type, field.path)
        case SparkArray(element):
            _check_inner(element)
        case SparkMap(key, value):
            if not (isinstance(key.type, Blob) and pa.types.is_string(key.type.arrow)):
                raise _no_avro(path, f"a map with keys of {key.type.arrow}")
            _check_inner(value)
        case Number(arrow, _, months) if months or arrow in _MISSING:
            raise _no_avro(path, "year-month interval" if months else str(arrow))


def _check_inner(field: SparkField) -> None:
    if isinstance(field.type, Nothing):
        raise _no_avro(field.path, "elements without a type")
    check_avro(field.type, field.path)


def _no_avro(path: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-STATE-007",
        f"{path}: Spark's Avro encoding of state has no {found}",
        expected="numbers, strings, binaries, dates, timestamps, decimals, structs, arrays, and "
        "maps of strings",
        found=found,
        next_action="keep the state as unsaferow",
        field=path,
    )


_NULL, _THERE = 0, 2
_WIDE = 16


def decoded_structs(struct: SparkStruct, spans: Spans) -> pa.StructArray:
    """The structs of these bytes. Raises `CorruptFileError` for bytes that are none."""
    cursors = Cursors(spans.data, spans.starts.copy(), spans.starts + spans.lengths)
    rows = np.arange(spans.starts.size)
    found = _struct(struct, cursors, rows)
    if bool(cursors.left(rows).any()):
        raise damaged("", "rows that end with their last field", "bytes behind it")
    return found


def _struct(struct: SparkStruct, cursors: Cursors, rows: Integers) -> pa.StructArray:
    children = [_or_null(field, cursors, rows) for field in struct.fields]
    return pa.Array.from_buffers(struct.arrow, rows.size, [None], children=children)


def _or_null(field: SparkField, cursors: Cursors, rows: Integers) -> pa.Array:
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


def _present(field: SparkField, cursors: Cursors, rows: Integers) -> pa.Array:
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
        case SparkStruct() as kind:
            return _struct(kind, cursors, rows)
        case SparkArray() as kind:
            return _nested(kind, _items(cursors, rows, [kind.element]))
        case SparkMap() as kind:
            return _nested(kind, _items(cursors, rows, [kind.key, kind.value]))
        case Nothing():
            raise AssertionError(field.path)


def _element(field: SparkField) -> Callable[[SparkField, Cursors, Integers], pa.Array]:
    return _or_null if isinstance(field.type, SparkStruct | SparkArray | SparkMap) else _present


def _numbers(field: SparkField, kind: Number, cursors: Cursors, rows: Integers) -> pa.Array:
    if pa.types.is_floating(kind.arrow) or pa.types.is_boolean(kind.arrow):
        read = cursors.matrix(rows, kind.bits.itemsize, field.path)
        return numbers(kind, np.ascontiguousarray(read).view(kind.bits)[:, 0], _none(rows))
    found = cursors.numbers(rows, field.path)
    most = 1 << (kind.bits.itemsize * 8 - 1)
    if bool(((found < -most) | (found > most - 1)).any()):
        raise damaged(field.path, f"numbers of {kind.bits.itemsize} bytes", "larger ones")
    return numbers(kind, found.view("<u8"), _none(rows))


def _items(
    cursors: Cursors, rows: Integers, fields: Sequence[SparkField]
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


def _nested(kind: SparkArray | SparkMap, items: tuple[Integers, list[pa.Array]]) -> pa.Array:
    counts, columns = items
    if isinstance(kind, SparkMap):
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


# Rows of an older schema as rows of the newest: fields by name, as Avro resolves schemas.


_PROMOTED = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}


def resolved(older: SparkStruct, newest: SparkStruct, structs: pa.StructArray) -> pa.StructArray:
    """Structs of ``older`` with the fields of ``newest``; one that they lack is null.

    Raises `UnsupportedError` for a field whose type is another in a way that is not known.
    """
    places = {field.name: index for index, field in enumerate(older.fields)}
    children = []
    for field in newest.fields:
        if field.name in places:
            index = places[field.name]
            children.append(_column(older.fields[index], field, structs.field(index)))
        else:
            children.append(pa.nulls(len(structs), field.type.arrow))
    mask = structs.is_null() if structs.null_count else None
    fields = [field.arrow for field in newest.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _column(older: SparkField, newest: SparkField, array: pa.Array) -> pa.Array:
    if older.type.arrow == newest.type.arrow:
        return array
    if isinstance(older.type, SparkStruct) and isinstance(newest.type, SparkStruct):
        return resolved(older.type, newest.type, array)
    if newest.type.arrow in _PROMOTED.get(older.type.arrow, ()):
        return array.cast(newest.type.arrow, safe=False)
    raise UnsupportedError(
        "SM-STATE-006",
        f"{newest.path} had another type in an older schema of the state",
        expected=str(newest.type.arrow),
        found=str(older.type.arrow),
        next_action="let the query rewrite these rows first, or leave the state as it is",
        field=newest.path,
    )
