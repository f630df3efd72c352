"""Compiled decoders: a function of Python for each format, which reads its bytes.

The lines that read a single value of each type, from ``data`` at the place ``p``.

They read what is regular. Anything else raises, as a byte that is not there does, and is left to a
stricter reader: numbers of more than 64 bits, lengths below zero, a byte that is neither true nor
false, digits beyond a decimal's precision.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

from statemigrate.formats.avro.compiled_writing import Columns
from statemigrate.formats.avro.generated import GeneratedSource
from statemigrate.formats.avro.logical import freezing
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
from statemigrate.formats.timestamps import EPOCH, EPOCH_DAY, LOCAL_EPOCH


def long_rest(data: bytes, p: int, first: int) -> tuple[int, int]:
    """The rest of a number, still in zigzag, whose ``first`` byte says that there is more."""
    number, shift = first & 127, 7
    while True:
        byte = data[p]
        p += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number >> 64:
                raise ValueError("a number of more than 64 bits")
            return number, p
        shift += 7


KNOWN: dict[str, Any] = {
    "long_rest": long_rest,
    # Numbers and lengths of one byte are looked up; no length is below zero.
    "numbers": tuple((raw >> 1) ^ -(raw & 1) for raw in range(1 << 7)),
    "sizes": tuple(None if raw & 1 else raw >> 1 for raw in range(1 << 7)),
}
"""Names that the lines use."""


def read_raw(source: GeneratedSource, target: str) -> None:
    """A number as it is written, still in zigzag, into ``target``."""
    source.line(f"{target} = data[p]; p += 1")
    with source.block(f"if {target} > 127:"):
        _read_rest(source, target)


def _read_rest(source: GeneratedSource, target: str) -> None:
    """The bytes behind the first one of a number, which is in ``target``."""
    source.line("s = data[p]")
    source.line(f"if s < 128: {target} += (s << 7) - 128; p += 1")
    source.line(f"else: {target}, p = long_rest(data, p, {target})")


def _read_number(source: GeneratedSource, target: str) -> None:
    source.line(f"{target} = data[p]; p += 1")
    source.line(f"if {target} < 128: {target} = numbers[{target}]")
    with source.block("else:"):
        _read_rest(source, target)
        source.line(f"{target} = ({target} >> 1) ^ -({target} & 1)")


def _read_end(source: GeneratedSource) -> str:
    """The name of the place behind as many bytes as a length says."""
    end = source.name("e")
    source.line(f"{end} = data[p]; p += 1")
    source.line(f"if {end} < 128: {end} = p + sizes[{end}]")
    with source.block("else:"):
        _read_rest(source, end)
        source.line(f"if {end} & 1: raise ValueError")
        source.line(f"{end} = p + ({end} >> 1)")
    return end


def read_bytes(source: GeneratedSource, target: str) -> None:
    """A length and as many bytes. What is cut off is found at the end, where ``p`` is too far."""
    end = _read_end(source)
    source.line(f"{target} = data[p:{end}]; p = {end}")


def read_text(source: GeneratedSource, target: str) -> None:
    """A string."""
    end = _read_end(source)
    source.line(f"{target} = data[p:{end}].decode(); p = {end}")


def read_leaf(source: GeneratedSource, node: Primitive | Fixed | Enum, target: str) -> None:
    """Any single value into ``target``."""
    match node:
        case Enum():
            _read_enum(source, node, target)
        case Fixed():
            _read_fixed(source, node, target)
        case _:
            _read_primitive(source, node, target)


def _read_enum(source: GeneratedSource, node: Enum, target: str) -> None:
    read_raw(source, target)
    source.line(f"if {target} & 1: raise ValueError")
    source.line(f"{target} = {source.constant(node.symbols)}[{target} >> 1]")


def _read_fixed(source: GeneratedSource, node: Fixed, target: str) -> None:
    source.line(f"{target} = data[p:p + {node.size}]; p += {node.size}")
    # A list states how many there are: it must not go on and on behind the end.
    source.line("if p > len(data): raise IndexError")
    if node.decimals:
        _convert(source, decimal_reader(node.decimals), target)


def _read_primitive(source: GeneratedSource, node: Primitive, target: str) -> None:
    match node.type:
        case "null":
            source.line(f"{target} = None")
        case "boolean":
            known = source.constant({0: False, 1: True})
            source.line(f"{target} = {known}[data[p]]; p += 1")
        case "float" | "double":
            _read_float(source, node.type, target)
        case "string":
            read_text(source, target)
        case "bytes":
            read_bytes(source, target)
        case _:
            _read_number(source, target)
    convert = decimal_reader(node.decimals) if node.decimals else _LOGICAL.get(node.logical or "")
    if convert is not None:
        _convert(source, convert, target)


def _read_float(source: GeneratedSource, kind: str, target: str) -> None:
    form = struct.Struct("<f" if kind == "float" else "<d")
    unpack = source.constant(form.unpack_from)
    source.line(f"{target} = {unpack}(data, p)[0]; p += {form.size}")


def _convert(source: GeneratedSource, convert: Callable[[Any], Any], target: str) -> None:
    source.line(f"{target} = {source.constant(convert)}({target})")


def decimal_reader(decimals: Decimals) -> Callable[[bytes], Decimal]:
    """What makes a decimal of its bytes. It raises for more digits than the precision."""
    context, limit = Context(prec=decimals.precision), 10**decimals.precision
    exponent = -decimals.scale

    def read(data: bytes) -> Decimal:
        unscaled = int.from_bytes(data, "big", signed=True)
        if not -limit < unscaled < limit:
            raise ValueError("more digits than the precision")
        return Decimal(unscaled).scaleb(exponent, context)

    return read


def _time(micros: int) -> time:
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    return time(minutes // 60, minutes % 60, seconds, micros)


def _timestamps(epoch: datetime, unit: int) -> Callable[[int], datetime]:
    return lambda number: epoch + timedelta(0, 0, number * unit)


_LOGICAL: dict[str, Callable[[Any], Any]] = {
    "date": lambda day: date.fromordinal(day + EPOCH_DAY),
    "time-micros": _time,
    "timestamp-millis": _timestamps(EPOCH, 1000),
    "timestamp-micros": _timestamps(EPOCH, 1),
    "local-timestamp-millis": _timestamps(LOCAL_EPOCH, 1000),
    "local-timestamp-micros": _timestamps(LOCAL_EPOCH, 1),
    "day-time-interval": lambda micros: timedelta(0, 0, micros),
}


# One function for a format, which reads its values field after field, without asking for types.
#
# A value of three nullable fields takes 0.9 microseconds so, and took 4.7 by fastavro, most of them
# for being called. The bytes are those of Avro's specification, section "Binary Encoding"; tests
# compare every value, and every refusal, with fastavro.


_INDEXES_OF_A_BYTE = 64
_DEPTH = 8
"""Types within types that are still read in one function: Python has limits for nested blocks."""


def compiled_reader(record: Record) -> Callable[[bytes], dict[str, Any]]:
    """The reader of a record without arrays whose items take no bytes.

    It raises any `Exception` for bytes that are not regular, which may be a value all the same.
    """
    source = GeneratedSource(**KNOWN)
    with source.function("def read(data):"):
        source.line("p = 0")
        _ReadingLines(source, 0).read(record, "value")
        source.line("if p != len(data): raise ValueError")
        source.line("return value")
    read: Callable[[bytes], dict[str, Any]] = source.compiled("read")
    return read


def compiled_row_reader(record: Record, columns: Columns) -> Callable[[bytes], tuple[Any, ...]]:
    """The reader of a record as a tuple of its fields, in the order of ``columns``.

    ``columns`` and what it raises are as for `compiled_row_writer` and `compiled_reader`.
    """
    source = GeneratedSource(**KNOWN)
    with source.function("def read(data):"):
        source.line("p = 0")
        values = {field.name: source.name("v") for field in record.fields}
        for field in record.fields:
            _ReadingLines(source, 1).read(field.type, values[field.name])
        source.line("if p != len(data): raise ValueError")
        for name, converter in columns:
            source.convert(values[name], converter)
        source.line(f"return ({''.join(f'{values[name]}, ' for name, _ in columns)})")
    read: Callable[[bytes], tuple[Any, ...]] = source.compiled("read")
    return read


class _ReadingLines:
    """Writes the lines that read values, ``depth`` types within the function's own."""

    def __init__(self, source: GeneratedSource, depth: int) -> None:
        self._source = source
        self._depth = depth

    def read(self, node: Node, target: str) -> None:
        """Read a value into ``target``."""
        if isinstance(node, Record | Array | Map | Union) and self._depth > _DEPTH:
            self._read_by_function(node, target)
            return
        match node:
            case Record():
                self._record(node, target)
            case Array():
                self._array(node, target)
            case Map():
                self._map(node, target)
            case Union():
                self._union(node, target)
            case _:
                read_leaf(self._source, node, target)

    @property
    def _inner(self) -> _ReadingLines:
        return _ReadingLines(self._source, self._depth + 1)

    def _read_by_function(self, node: Node, target: str) -> None:
        name = self._source.name("f")
        with self._source.function(f"def {name}(data, p):"):
            _ReadingLines(self._source, 0).read(node, "value")
            self._source.line("return value, p")
        self._source.line(f"{target}, p = {name}(data, p)")

    def _record(self, node: Record, target: str) -> None:
        entries = []
        for field in node.fields:
            value = self._source.name("v")
            self._inner.read(field.type, value)
            entries.append(f"{self._source.constant(field.name)}: {value}")
        self._source.line(f"{target} = {{{', '.join(entries)}}}")

    def _union(self, node: Union, target: str) -> None:
        self._source.line("n = data[p]; p += 1")
        # An index above takes two bytes, the first of which looks like that of another.
        for index, branch in enumerate(node.branches[:_INDEXES_OF_A_BYTE]):
            with self._source.block(f"{'elif' if index else 'if'} n == {index * 2}:"):
                self._inner.read(branch, target)
        self._source.line("else: raise ValueError")

    def _array(self, node: Array, target: str) -> None:
        item, source = self._source.name("v"), self._source
        source.line(f"{target} = []")

        def read_item() -> None:
            self._inner.read(node.items, item)
            source.line(f"{target}.append({item})")

        self._blocks(read_item)

    def _map(self, node: Map, target: str) -> None:
        key, value, source = self._source.name("k"), self._source.name("v"), self._source
        source.line(f"{target} = {{}}")

        def read_entry() -> None:
            if node.has_text_keys:
                read_text(source, key)
            else:
                self._inner.read(node.keys, key)
                source.line(f"{key} = {source.constant(freezing(node.keys))}({key})")
            self._inner.read(node.values, value)
            source.line(f"{target}[{key}] = {value}")

        self._blocks(read_entry)

    def _blocks(self, read_item: Callable[[], None]) -> None:
        """Items come in blocks with their number; one below zero is left to the strict reader."""
        count, source = self._source.name("n"), self._source
        read_raw(source, count)
        with source.block(f"while {count}:"):
            source.line(f"if {count} & 1: raise ValueError")
            with source.block(f"for _ in range({count} >> 1):"):
                read_item()
            read_raw(source, count)
