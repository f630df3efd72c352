"""Many values' bytes as Arrow columns, read field after field for all of them at once.

Each value has a place in the bytes of all, and a field is read at every place in a few steps of
numpy. What is regular is read: any doubt about a single value raises `Irregular`, or another error,
and the readers of one value decide. The bytes are those of Avro's specification, section "Binary
Encoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.formats.avro.column_types import present_branch, primitive_type
from statemigrate.formats.schema import (
    INTEGER_RANGES,
    Array,
    Decimals,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)
from statemigrate.formats.timestamps import EPOCH, EPOCH_DAY, LOCAL_EPOCH, MICROSECOND
from statemigrate.numpy_arrays import arrow_array, numpy_array

Numbers = npt.NDArray[Any]
_BEHIND = bytes(32)
"""Bytes behind the last value, so that eight at any place of one, and a few further, are there."""
MOST_BYTES = 1 << 30
"""Bytes of values that are read or written at once: Arrow's offsets have 31 bits."""
_U64 = np.uint64
_ONE = _U64(1)
_SEVEN, _BYTE = _U64(7), _U64(56)
_STOPS = _U64(0x8080808080808080)
_PLACES = _U64(0x0102030405060708)
# The seven bits of two bytes side by side, then of four, then of eight.
_TOGETHER = tuple(
    (_U64(low), _U64(high), _U64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_DAYS = (date.min.toordinal() - EPOCH_DAY, date.max.toordinal() - EPOCH_DAY)
_MOMENTS = tuple(
    (each.replace(tzinfo=UTC) - EPOCH) // MICROSECOND for each in (datetime.min, datetime.max)
)
_STEPS = 16
"""Items of a list that are read one after the other, whatever other rows have."""
_ROWS_A_STEP = 64
"""Items that a step has to read on average where there are more: as dear as one by one."""
_SEVERAL = 8
"""Places to count in for each entry of a map: with more of them sorting is cheaper."""
_INFINITY, _NAN = 0x7F800000, 0x7FC00000
_DAY = 24 * 3600 * 1_000_000
MILLISECONDS = ("timestamp-millis", "local-timestamp-millis")
"""Logical types in milliseconds; Arrow has them in microseconds."""
LIMITS = {
    "date": _DAYS,
    "time-micros": (0, _DAY - 1),
    "timestamp-millis": _MOMENTS,
    "timestamp-micros": _MOMENTS,
    "local-timestamp-millis": _MOMENTS,
    "local-timestamp-micros": _MOMENTS,
}
"""By logical type, the least and the greatest number of days or microseconds that Python has."""
assert LOCAL_EPOCH.replace(tzinfo=UTC) == EPOCH  # noqa: S101  # so that both have one limit


class Irregular(Exception):  # noqa: N818 - a signal between two parts of this package
    """Something about one of the values is not as usual; the codec of one value decides."""


def require(holds: Any) -> None:
    """Raise `Irregular` unless something is true."""
    if not holds:
        raise Irregular


def read_by_field(record: Record, values: Sequence[bytes]) -> pa.StructArray:
    """The values as an array of structs.

    Raises `Irregular`, IndexError or ``pyarrow.ArrowInvalid`` unless all are regular.
    """
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(sizes)
    require(len(values) > 0 and ends[-1] < MOST_BYTES)
    reading = _ColumnReading(b"".join(chain(values, (_BEHIND,))))
    array, at = reading.read(record, _PresentRows(len(values), ends - sizes, ends))
    require(np.array_equal(at, ends))
    # Text that is not UTF-8, and digits beyond the precision.
    array.validate(full=True)
    return array


@dataclass
class _PresentRows:
    """The rows that have a value at this point, among ``count`` of the block.

    ``at`` is the place of each in the bytes, ``ends`` where the whole value ends. ``places`` are
    their numbers among all rows, None for every one, and ``validity`` is Arrow's form of that.
    """

    count: int
    at: Numbers
    ends: Numbers
    places: Numbers | None = None
    validity: Any = None

    def behind(self, at: Numbers) -> _PresentRows:
        """The same rows at other places of their bytes."""
        return _PresentRows(self.count, at, self.ends, self.places, self.validity)

    def those(self, chosen: Numbers, at: Numbers) -> _PresentRows:
        """Some of them, which are from now ``at`` these places."""
        places = chosen if self.places is None else self.places[chosen]
        has = np.zeros(self.count, np.bool_)
        has[places] = True
        validity = pa.py_buffer(np.packbits(has, bitorder="little"))
        return _PresentRows(self.count, at, self.ends[chosen], places, validity)

    def array(self, kind: Any, numbers: Numbers) -> Any:
        """An array of all rows with the numbers of these."""
        return self._array(kind, self._spread(numbers))

    def booleans(self, numbers: Numbers) -> Any:
        """The same of numbers that are 0 or 1."""
        return self._array(pa.bool_(), np.packbits(self._spread(numbers), bitorder="little"))

    def lists(self, kind: Any, counts: Numbers, children: list[Any]) -> Any:
        """Lists or maps of so many items each, all of which are in one array."""
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(self._spread(counts), out=offsets[1:])
        buffers = [self.validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, self.count, buffers, self._nulls, children=children)

    def struct(self, names: list[str], arrays: list[Any]) -> Any:
        """Structs of the arrays of all rows."""
        fields = [pa.field(name, each.type) for name, each in zip(names, arrays, strict=True)]
        return pa.StructArray.from_buffers(
            pa.struct(fields), self.count, [self.validity], self._nulls, children=arrays
        )

    @property
    def _nulls(self) -> int:
        return self.count - len(self.at)

    def _array(self, kind: Any, content: Numbers) -> Any:
        buffers = [self.validity, pa.py_buffer(content)]
        return pa.Array.from_buffers(kind, self.count, buffers, self._nulls)

    def _spread(self, numbers: Numbers) -> Numbers:
        if self.places is None:
            return np.ascontiguousarray(numbers)
        every = np.zeros((self.count, *numbers.shape[1:]), numbers.dtype)
        every[self.places] = numbers
        return every


class _ColumnReading:
    """Reads types at places of ``data``; each way returns an array and the places behind."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        # Eight bytes, and four, from each place on.
        self._words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
        self._halves = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))

    def read(self, node: Node, rows: _PresentRows) -> tuple[Any, Numbers]:
        match node:
            case Record():
                return self._record(node, rows)
            case Union():
                return self._nullable(node, rows)
            case Fixed(decimals=Decimals() as decimals):
                return self._fixed(node.size, decimals, rows)
            case Primitive():
                return self._primitive(node, rows)
        return self._of_several_sizes(node, rows)

    def _of_several_sizes(self, node: Node, rows: _PresentRows) -> tuple[Any, Numbers]:
        match node:
            case Array():
                counts, items, at = self._items(node.items, rows)
                kind = pa.list_(pa.field("element", items.type))
                return rows.lists(kind, counts, [items]), at
            case Map():
                return self._map(node, rows)
            case Enum():
                number, at = self._number(rows.at)
                _require_between(number, 0, len(node.symbols) - 1)
                symbols = pa.array(node.symbols, pa.string())
                return symbols.take(rows.array(pa.int64(), number)), at
            case Fixed():
                end = rows.at + node.size
                require(not (end > rows.ends).any())
                return self._slices(pa.binary(), rows.at, end, rows), end
        raise Irregular

    def _map(self, node: Map, rows: _PresentRows) -> tuple[Any, Numbers]:
        entry = Record("entry", (Field("key", node.keys), Field("value", node.values)))
        counts, entries, at = self._items(entry, rows)
        keys, values = entries.field(0), entries.field(1)
        require(are_distinct(keys, counts))
        fields = [pa.field("key", keys.type, nullable=False), pa.field("value", values.type)]
        children = [pa.StructArray.from_arrays([keys, values], fields=fields)]
        return rows.lists(pa.map_(keys.type, values.type), counts, children), at

    def _items(self, node: Node, rows: _PresentRows) -> tuple[Numbers, Any, Numbers]:
        """How many items each row has, all of them in one array, and the places behind.

        One item of every row is read at a time. They stand in one block, as they are written here.
        """
        counts, at = self._number(rows.at)
        _require_between(counts, 0, len(self._data))
        number, most = int(counts.sum()), int(counts.max(initial=0))
        require(most <= _STEPS or most * _ROWS_A_STEP <= number)
        starts = np.cumsum(counts) - counts
        here = np.flatnonzero(counts)
        arrays, places = [], []
        for step in range(most or 1):
            array, at[here] = self.read(node, _PresentRows(len(here), at[here], rows.ends[here]))
            arrays.append(array)
            places.append(starts[here] + step)
            here = here[counts[here] > step + 1]
        # Behind the block there is another one, of no items.
        end = np.flatnonzero(counts)
        require(not self._bytes[at[end]].any())
        at[end] += 1
        if len(arrays) == 1:
            return counts, arrays[0], at
        order = np.empty(number, np.int64)
        order[np.concatenate(places)] = np.arange(number)
        return counts, pa.concat_arrays(arrays).take(arrow_array(order)), at

    def _record(self, record: Record, rows: _PresentRows) -> tuple[Any, Numbers]:
        arrays = []
        for field in record.fields:
            array, at = self.read(field.type, rows)
            arrays.append(array)
            rows = rows.behind(at)
        return rows.struct([field.name for field in record.fields], arrays), rows.at

    def _nullable(self, union: Union, rows: _PresentRows) -> tuple[Any, Numbers]:
        place, other = present_branch(union)
        tags, behind = self._bytes[rows.at], rows.at + 1
        has = tags == 2 * place
        if has.all():
            return self.read(other, rows.behind(behind))
        require((has | (tags == 2 - 2 * place)).all())
        chosen = np.flatnonzero(has)
        array, at = self.read(other, rows.those(chosen, behind[chosen]))
        behind[chosen] = at
        return array, behind

    def _primitive(self, node: Primitive, rows: _PresentRows) -> tuple[Any, Numbers]:
        match node.type:
            case "string" | "bytes" if node.decimals is None:
                return self._text(primitive_type(node), rows)
            case "bytes":
                return self._bytes_decimal(node, rows)
            case "boolean":
                found = self._bytes[rows.at]
                require(not (found > 1).any())
                return rows.booleans(found), rows.at + 1
            case "double":
                return rows.array(pa.float64(), self._words[rows.at]), rows.at + 8
            case "float":
                return self._float(rows)
        return self._integer(node, rows)

    def _float(self, rows: _PresentRows) -> tuple[Any, Numbers]:
        found = self._halves[rows.at]
        # Python makes a double of it and back, and a NaN need not stay the same one.
        magnitude = found & np.uint32(0x7FFFFFFF)
        require(not ((magnitude > np.uint32(_INFINITY)) & (magnitude != np.uint32(_NAN))).any())
        return rows.array(pa.float32(), found), rows.at + 4

    def _integer(self, node: Primitive, rows: _PresentRows) -> tuple[Any, Numbers]:
        number, at = self._number(rows.at)
        kind, limits = primitive_type(node), limits_of(node)
        if node.logical in MILLISECONDS:
            low, high = LIMITS[node.logical]
            _require_between(number, -(-low // 1000), high // 1000)
            number = number * 1000
        elif limits is not None:
            _require_between(number, *limits)
        return rows.array(kind, number.astype(f"i{kind.bit_width // 8}", copy=False)), at

    def _text(self, kind: Any, rows: _PresentRows) -> tuple[Any, Numbers]:
        start, end = self._extent(rows)
        return self._slices(kind, start, end, rows), end

    def _slices(self, kind: Any, start: Numbers, end: Numbers, rows: _PresentRows) -> Any:
        # What is between two of them is an entry too: so the bytes are copied only once, by Arrow.
        offsets = np.empty(2 * len(start), np.int32)
        offsets[::2], offsets[1::2] = start, end
        entries = max(len(offsets) - 1, 0)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        every = pa.Array.from_buffers(kind, entries, buffers, 0)
        return every.take(rows.array(pa.int32(), 2 * np.arange(len(start), dtype=np.int32)))

    def _extent(self, rows: _PresentRows) -> tuple[Numbers, Numbers]:
        """From where to where there are as many bytes as a length says, within each value."""
        size, start = self._number(rows.at)
        require(not (size < 0).any() and not (size > len(self._data)).any())
        end = start + size
        require(not (end > rows.ends).any())
        return start, end

    def _number(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """Numbers of up to 64 bits."""
        first = self._bytes[at]
        if not (first > 127).any():
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1), at + 1
        words = self._words[at]
        stops = ~words & _STOPS
        # The first byte that says that there is no more; none for a number of nine bytes or ten.
        stop = stops & (~stops + _ONE)
        sizes = ((stop >> _SEVEN) * _PLACES) >> _BYTE
        number = words & (stop - _ONE) & ~_STOPS
        for low, high, shift in _TOGETHER:
            number = (number & low) | ((number & high) >> shift)
        longer = np.flatnonzero(sizes == 0)
        if len(longer):
            number[longer], sizes[longer] = self._long(number[longer], at[longer])
        plain = (number >> _ONE).view(np.int64) ^ -(number & _ONE).view(np.int64)
        return plain, at + sizes.view(np.int64)

    def _long(self, number: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        ninth, tenth = self._bytes[at + 8].astype(_U64), self._bytes[at + 9].astype(_U64)
        more = ninth > 127
        require(not (more & (tenth > 1)).any())
        number |= (ninth & _U64(127)) << _BYTE
        number |= np.where(more, tenth << _U64(63), _U64(0))
        return number, np.where(more, _U64(10), _U64(9))

    def _fixed(self, size: int, decimals: Decimals, rows: _PresentRows) -> tuple[Any, Numbers]:
        """A decimal in bytes of one size, the highest first."""
        pairs = np.empty((len(rows.at), 2), np.int64)
        low = min(size, 8)
        pairs[:, 0] = self._high_first(rows.at + (size - low), 64 - 8 * low)
        if size > 8:
            pairs[:, 1] = self._high_first(rows.at, 64 - 8 * (size - 8))
        else:
            pairs[:, 1] = pairs[:, 0] >> 63
        kind = pa.decimal128(decimals.precision, decimals.scale)
        return rows.array(kind, pairs), rows.at + size

    def _bytes_decimal(self, node: Primitive, rows: _PresentRows) -> tuple[Any, Numbers]:
        assert node.decimals is not None, "asked before"  # noqa: S101
        start, end = self._extent(rows)
        sizes = end - start
        require(not ((sizes > 8) | (sizes < 1)).any())
        pairs = np.empty((len(start), 2), np.int64)
        pairs[:, 0] = self._high_first(start, 64 - 8 * sizes)
        pairs[:, 1] = pairs[:, 0] >> 63
        kind = pa.decimal128(node.decimals.precision, node.decimals.scale)
        return rows.array(kind, pairs), end

    def _high_first(self, at: Numbers, unused: Any) -> Numbers:
        """Signed numbers whose highest byte is first, ``unused`` bits less than 64."""
        found: Numbers = self._words[at].byteswap().view(np.int64) >> unused
        return found


def are_distinct(keys: Any, counts: Numbers) -> bool:
    """Whether no key is twice among the entries of one map, which are so many each."""
    codes = numpy_array(keys.dictionary_encode().indices).astype(np.int64)
    different = int(codes.max(initial=0)) + 1
    both = np.repeat(np.arange(len(counts)), counts) * different + codes
    if len(counts) * different <= _SEVERAL * len(both):
        return bool(np.bincount(both).max(initial=0) <= 1)
    return len(np.unique(both)) == len(both)


def limits_of(node: Primitive) -> tuple[int, int] | None:
    """The least and the greatest number of a type as Arrow has it; None for any of 64 bits."""
    if node.logical in LIMITS:
        low, high = LIMITS[node.logical]
        return low, high
    if primitive_type(node).bit_width == 64:
        return None
    return INTEGER_RANGES[node.narrow if node.narrow in INTEGER_RANGES else "int"]


def _require_between(number: Numbers, low: int, high: int) -> None:
    if len(number):
        require(low <= number.min() and number.max() <= high)
