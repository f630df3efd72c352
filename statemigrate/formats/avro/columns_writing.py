"""Arrow columns as the bytes of many values, written field after field for all of them at once.

What lies between two texts is gathered in one buffer, with a few bytes to spare behind each row:
every number is written as eight bytes, and the next one of its row covers what is too much. Arrow
joins these bytes and the texts. Whatever the writer of one value might refuse, or has to convert,
raises `Irregular`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.formats.avro.column_types import longest_text, present_branch, primitive_type
from statemigrate.formats.avro.columns_reading import (
    MILLISECONDS,
    MOST_BYTES,
    Irregular,
    Numbers,
    are_distinct,
    limits_of,
    require,
)
from statemigrate.formats.schema import (
    Array,
    Decimals,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)
from statemigrate.numpy_arrays import arrow_array, numbers_in_memory, numpy_array

_U64 = np.uint64
_SPARE = 8
_MORE = np.array(
    [0x8080808080808080 & ((1 << 8 * max(size - 1, 0)) - 1) for size in range(9)]
    + [0x8080808080808080] * 2,
    _U64,
)
"""By the bytes of a number, the bits in the first eight that say that there are more."""
# Twenty-eight bits apart, then fourteen, then seven: the bytes of a number.
_APART = tuple(
    (_U64(low), _U64(high), _U64(shift))
    for low, high, shift in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)


def write_by_field(record: Record, array: Any) -> list[bytes]:
    """The bytes of each struct of an array.

    Raises `Irregular` or ``pyarrow.ArrowInvalid`` where one of them is none of the record, or has
    to be looked at by itself.
    """
    require(len(array) > 0)
    array.validate(full=True)
    writing = _ColumnWriting(len(array))
    writing.write(record, array, None)
    found: list[bytes] = writing.joined().to_pylist()
    return found


def has_nulls_only_where_allowed(node: Node, array: Any, present: Numbers | None = None) -> bool:
    """Whether each null of an array is in a field that may be None; ``present`` are rows with it.

    The types of the array are those of the record.
    """
    if isinstance(node, Union):
        _, node = present_branch(node)
        if array.null_count:
            has = valid(array)
            present = has if present is None else has & present
    elif array.null_count and (present is None or (present & ~valid(array)).any()):
        return False
    match node:
        case Record():
            return all(
                has_nulls_only_where_allowed(field.type, array.field(place), present)
                for place, field in enumerate(node.fields)
            )
        case Array():
            return has_nulls_only_where_allowed(node.items, _items(array, present))
        case Map():
            return has_nulls_only_where_allowed(node.values, _items(array, present).field(1))
    return True


def _items(array: Any, present: Numbers | None) -> Any:
    """The items of the lists or maps of those rows that are present, one after the other."""
    return listed(array, present).flatten()


def listed(array: Any, present: Numbers | None) -> Any:
    """Lists or maps as lists, null where a row is not present."""
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    if present is not None and array.null_count < int((~present).sum()):
        array = pc.if_else(arrow_array(present), array, pa.nulls(1, array.type)[0])
    return array


class _ColumnWriting:
    """Appends to each of so many rows; where ``present`` is False nothing is appended to a row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._pieces: list[Any] = []
        self._words: list[tuple[Numbers, Any]] = []

    def joined(self) -> Any:
        """All that was appended, an array of bytes."""
        self._end_piece()
        if len(self._pieces) == 1:
            return self._pieces[0]
        return pc.binary_join_element_wise(*self._pieces, _no_bytes())

    def write(self, node: Node, array: Any, present: Numbers | None) -> None:
        match node:
            case Record():
                self._record(node, array, present)
            case Union():
                self._nullable(node, array, present)
            case _:
                if array.null_count:
                    _require_present(array, present)
                self._single(node, array, present)

    def _single(self, node: Node, array: Any, present: Numbers | None) -> None:
        match node:
            case Array():
                require(pa.types.is_list(array.type))
                self._list((node.items,), listed(array, present), present)
            case Map():
                require(pa.types.is_map(array.type))
                self._list((node.keys, node.values), listed(array, present), present)
            case _:
                self._leaf(node, array, present)

    def _list(self, nodes: tuple[Node, ...], lists: Any, present: Numbers | None) -> None:
        """All items in one block, behind their number, and the end: of a map, keys and values."""
        counts = np.where(valid(lists), lengths(lists), 0)
        self._number(counts, present)
        items = lists.flatten()
        if len(items):
            writing = _ColumnWriting(len(items))
            if len(nodes) == 1:
                writing.write(nodes[0], items, None)
            else:
                require(are_distinct(items.field(0), counts))
                for place, node in enumerate(nodes):
                    writing.write(node, items.field(place), None)
            self._end_piece()
            self._pieces.append(_grouped(writing.joined(), counts))
        self._append(np.zeros(self._rows, _U64), np.minimum(counts, 1))

    def _record(self, record: Record, array: Any, present: Numbers | None) -> None:
        require(pa.types.is_struct(array.type))
        require([field.name for field in array.type] == [field.name for field in record.fields])
        if array.null_count:
            _require_present(array, present)
        for place, field in enumerate(record.fields):
            self.write(field.type, array.field(place), present)

    def _nullable(self, union: Union, array: Any, present: Numbers | None) -> None:
        place, other = present_branch(union)
        if not array.null_count:
            self._append(np.full(self._rows, 2 * place, _U64), _sizes(1, present))
            self.write(other, array, present)
            return
        has = valid(array)
        self._append(np.where(has, _U64(2 * place), _U64(2 - 2 * place)), _sizes(1, present))
        self.write(other, array, has if present is None else has & present)

    def _leaf(self, node: Node, array: Any, present: Numbers | None) -> None:
        match node:
            case Fixed(decimals=Decimals() as decimals):
                self._fixed(node.size, decimals, array, present)
            case Primitive(type="bytes", decimals=Decimals() as decimals):
                self._bytes_decimal(decimals, array, present)
            case Primitive():
                require(array.type == primitive_type(node))
                self._primitive(node, array, present)
            case Enum():
                found = symbol_places(node, array)
                unknown = found < 0
                if unknown.any():
                    require(present is not None and not (present & unknown).any())
                self._number(np.where(unknown, 0, found).astype(np.int64), present)
            case Fixed():
                require(array.type == pa.binary())
                found = pc.fill_null(array, bytes(node.size))
                if present is not None:
                    found = pc.if_else(arrow_array(present), found, _no_bytes())
                require((lengths(found) == _sizes(node.size, present)).all())
                self._end_piece()
                self._pieces.append(found)
            case _:
                raise Irregular

    def _primitive(self, node: Primitive, array: Any, present: Numbers | None) -> None:
        match node.type:
            case "string" | "bytes":
                self._text(longest_text(node), array, present)
            case "boolean":
                bits = np.frombuffer(array.buffers()[1], np.uint8)
                found = np.unpackbits(bits, bitorder="little")[array.offset :][: len(array)]
                self._append(found.astype(_U64), _sizes(1, present))
            case "double":
                self._append(numbers_in_memory(array, _U64), _sizes(8, present))
            case "float":
                self._append(numbers_in_memory(array, np.uint32).astype(_U64), _sizes(4, present))
            case _:
                self._integer(node, array, present)

    def _integer(self, node: Primitive, array: Any, present: Numbers | None) -> None:
        number = numbers_in_memory(array, f"i{array.type.bit_width // 8}").astype(
            np.int64, copy=False
        )
        if present is not None:
            number = np.where(present, number, 0)
        limits = limits_of(node)
        if limits is not None:
            require(limits[0] <= number.min() and number.max() <= limits[1])
        if node.logical in MILLISECONDS:
            number = _whole(number, 1000)
        if node.logical == "time-micros" and node.narrow is not None:
            _whole(number, 10 ** (6 - int(node.narrow[5:-1])))
        self._number(number, present)

    def _number(self, number: Numbers, present: Numbers | None) -> None:
        """Numbers of 64 bits: zigzag, seven bits a byte, the lowest first."""
        raw = ((number << 1) ^ (number >> 63)).view(_U64)
        top = int(raw.max())
        if top < 128:
            self._append(raw, _sizes(1, present))
            return
        sizes = np.ones(self._rows, np.int64)
        for bits in range(7, top.bit_length(), 7):
            sizes += raw >= _U64(1 << bits)
        word = raw & _U64((1 << 56) - 1)
        for low, high, shift in _APART:
            word = (word & low) | ((word & high) << shift)
        word |= _MORE[sizes]
        if top >> 56 == 0:
            self._append(word, _where(present, sizes))
            return
        self._append(word, _where(present, np.minimum(sizes, 8)))
        rest = (raw >> _U64(56)) & _U64(127)
        rest |= np.where(sizes > 9, _U64(0x180), _U64(0))
        self._append(rest, _where(present, np.maximum(sizes - 8, 0)))

    def _text(self, longest: int | None, array: Any, present: Numbers | None) -> None:
        if longest is not None:
            require((pc.max(pc.utf8_length(array)).as_py() or 0) <= longest)
        if pa.types.is_string(array.type):
            array = array.view(pa.binary())
        sizes = lengths(array)
        if present is not None and sizes[~present].any():
            array = pc.if_else(arrow_array(present), array, _no_bytes())
            sizes = np.where(present, sizes, 0)
        self._number(sizes, present)
        self._end_piece()
        self._pieces.append(_without_nulls(array))

    def _fixed(self, size: int, decimals: Decimals, array: Any, present: Numbers | None) -> None:
        """A decimal in bytes of one size, the highest first."""
        low, high = _decimal_words(decimals, array)
        if size > 8:
            self._append_high_first(high, size - 8, present)
            self._append_high_first(low, 8, present)
        else:
            self._append_high_first(low, size, present)

    def _append_high_first(self, word: Numbers, size: int, present: Numbers | None) -> None:
        self._append((word << _U64(64 - 8 * size)).byteswap(), _sizes(size, present))

    def _bytes_decimal(self, decimals: Decimals, array: Any, present: Numbers | None) -> None:
        """A decimal in as few bytes as it takes, behind their number."""
        word, _ = _decimal_words(decimals, array)
        number = word.view(np.int64)
        if present is not None:
            number = np.where(present, number, 0)
        magnitude = np.where(number < 0, ~number, number)
        sizes = np.ones(self._rows, np.int64)
        for size in range(1, 8):
            sizes += magnitude >= 1 << (8 * size - 1)
        self._append(2 * sizes.view(_U64), _sizes(1, present))
        unused = _U64(64) - _U64(8) * sizes.view(_U64)
        self._append((number.view(_U64) << unused).byteswap(), _where(present, sizes))

    def _append(self, word: Numbers, size: Any) -> None:
        """Append the first bytes of a word to each row: so many, or as many as a size says."""
        self._words.append((word, size))

    def _end_piece(self) -> None:
        """Make one array of the words since the last text."""
        if not self._words:
            return
        sizes = sum([size for _, size in self._words], np.zeros(self._rows, np.int64))
        ends = np.cumsum(sizes + _SPARE)
        require(ends[-1] < MOST_BYTES)
        out = np.zeros(int(ends[-1]) + _SPARE, np.uint8)
        words = np.ndarray((len(out) - 7,), "<u8", out, strides=(1,))
        start = ends - (sizes + _SPARE)
        at = start.copy()
        for word, size in self._words:
            words[at] = word
            at += size
        self._words = []
        # What is to spare is an entry between two rows.
        offsets = np.empty(2 * self._rows, np.int32)
        offsets[::2], offsets[1::2] = start, at
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
        every = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, 0)
        self._pieces.append(every.take(arrow_array(2 * np.arange(self._rows, dtype=np.int32))))


def _grouped(items: Any, counts: Numbers) -> Any:
    """The bytes of so many items each, one after the other, without copying them."""
    ends = np.frombuffer(items.buffers()[1], np.int32)[items.offset :]
    offsets = ends[np.concatenate([[0], np.cumsum(counts)])]
    buffers = [None, pa.py_buffer(offsets), items.buffers()[2]]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers, 0)


def symbol_places(node: Enum, array: Any) -> Numbers:
    """Where each text is among the symbols; -1 for a null and for a text that is none of them."""
    number = pc.index_in(array, value_set=pa.array(node.symbols, array.type))
    return np.where(valid(number), numbers_in_memory(number, np.int32), np.int32(-1))


def _require_present(array: Any, present: Numbers | None) -> None:
    """Where a row has a value there must be one."""
    require(present is not None and not (present & ~valid(array)).any())


def valid(array: Any) -> Numbers:
    """Which values are not null."""
    return numpy_array(array.is_valid())


def _no_bytes() -> Any:
    """A value of no bytes."""
    buffers = [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")]
    return pa.Array.from_buffers(pa.binary(), 1, buffers, 0)[0]


def lengths(array: Any) -> Numbers:
    """The lengths of texts, lists or maps; something or other for those that are null."""
    ends = np.frombuffer(array.buffers()[1] or bytes(4), np.int32)
    return np.diff(ends[array.offset : array.offset + len(array) + 1]).astype(np.int64)


def _without_nulls(array: Any) -> Any:
    """Texts without marks at nulls, which must have no length."""
    if not array.null_count:
        return array
    _, *buffers = array.buffers()
    return pa.Array.from_buffers(array.type, len(array), [None, *buffers], 0, array.offset)


def _decimal_words(decimals: Decimals, array: Any) -> tuple[Numbers, Numbers]:
    """The low and the high 64 bits of decimals that have been validated."""
    require(array.type == pa.decimal128(decimals.precision, decimals.scale))
    pairs = np.frombuffer(array.buffers()[1], _U64).reshape(-1, 2)
    pairs = pairs[array.offset : array.offset + len(array)]
    return pairs[:, 0], pairs[:, 1]


def _whole(number: Numbers, unit: int) -> Numbers:
    made = number // unit
    require((made * unit == number).all())
    return made


def _sizes(size: int, present: Numbers | None) -> Any:
    return size if present is None else size * present.astype(np.int64)


def _where(present: Numbers | None, sizes: Numbers) -> Numbers:
    return sizes if present is None else np.where(present, sizes, 0)
