"""Many values between bytes and Arrow columns, in compiled code.

The package `statemigrate_codec` reads the values of each field into Arrow's buffers, and writes
them from there, a record after the other. What it refuses is left to the codec of one value.
Without the package numpy does it, a field after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from statemigrate.formats.avro.column_types import longest_text, present_branch, primitive_type
from statemigrate.formats.avro.columns_reading import (
    MILLISECONDS,
    are_distinct,
    limits_of,
    read_by_field,
    require,
)
from statemigrate.formats.avro.columns_writing import (
    lengths,
    listed,
    symbol_places,
    valid,
    write_by_field,
)
from statemigrate.formats.avro.extension import loaded
from statemigrate.formats.avro.leaves import time_digits
from statemigrate.formats.schema import (
    INTEGER_RANGES,
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

_MILLISECOND = 1000
"""Microseconds that Arrow has of one."""


def read_columns(record: Record, values: Sequence[bytes]) -> pa.StructArray:
    """The values as an array of structs, by compiled code where it is installed.

    Raises an error unless all are regular.
    """
    codec = loaded()
    if codec is None:
        return read_by_field(record, values)
    require(len(values) > 0)
    column, made = _ReadColumns(codec).column(record)
    codec.read_columns(column, list(values))
    array = made()
    # Text that is not UTF-8.
    array.validate(full=True)
    return array


def write_columns(record: Record, array: Any) -> list[bytes]:
    """The bytes of each struct of an array, by compiled code where it is installed.

    Raises an error where one of them is none of the record, or has to be looked at by itself.
    """
    codec = loaded()
    if codec is None:
        return write_by_field(record, array)
    require(len(array) > 0)
    array.validate(full=True)
    column = _WrittenColumns(codec).column(record, array)
    written: list[bytes] = codec.write_columns(column, len(array))
    return written


class _ColumnKinds:
    """The package's columns of single values."""

    def __init__(self, codec: Any) -> None:
        self.codec = codec

    def leaf(self, node: Primitive | Fixed) -> tuple[Any, Any]:
        """An empty column of a type, and the type that Arrow has for it."""
        match node:
            case Primitive(decimals=Decimals() as decimals):
                return self._decimals(decimals, -1)
            case Fixed(decimals=Decimals() as decimals):
                return self._decimals(decimals, node.size)
            case Fixed():
                return self.codec.TextColumn(size=node.size), pa.binary()
            case Primitive():
                return self._primitive(node), primitive_type(node)

    def symbols(self, node: Enum) -> Any:
        """An empty column of the places of symbols."""
        return self.codec.NumberColumn(4, 0, len(node.symbols) - 1)

    def _decimals(self, decimals: Decimals, size: int) -> tuple[Any, Any]:
        kind = pa.decimal128(decimals.precision, decimals.scale)
        return self.codec.DecimalColumn(decimals.precision, size), kind

    def _primitive(self, node: Primitive) -> Any:
        match node.type:
            case "string" | "bytes":
                longest = longest_text(node)
                return self.codec.TextColumn(-1 if longest is None else longest)
            case "boolean":
                return self.codec.BooleanColumn()
            case "float" | "double":
                return self.codec.FloatColumn(4 if node.type == "float" else 8)
        return self._integer(node)

    def _integer(self, node: Primitive) -> Any:
        width = primitive_type(node).bit_width // 8
        low, high = limits_of(node) or INTEGER_RANGES["long"]
        factor = _MILLISECOND if node.logical in MILLISECONDS else 1
        digits = time_digits(node) if node.logical == "time-micros" else 6
        return self.codec.NumberColumn(width, low, high, factor, 10 ** (6 - digits))


class _ReadColumns(_ColumnKinds):
    """Columns that are read, each with what makes an array of it afterwards."""

    def column(self, node: Node) -> tuple[Any, Callable[[], Any]]:
        match node:
            case Record():
                return self._record(node)
            case Union():
                place, other = present_branch(node)
                column, made = self.column(other)
                return self.codec.NullableColumn(column, 1 - place), made
            case Array():
                return self._list(node)
            case Map():
                return self._map(node)
            case Enum():
                return self._enum(node)
        column, kind = self.leaf(node)
        return column, lambda: _array(column, kind)

    def _record(self, record: Record) -> tuple[Any, Callable[[], Any]]:
        pairs = [self.column(field.type) for field in record.fields]
        column = self.codec.RecordColumn(tuple(each for each, _ in pairs))

        def made() -> Any:
            arrays = [make() for _, make in pairs]
            fields = [
                pa.field(field.name, array.type)
                for field, array in zip(record.fields, arrays, strict=True)
            ]
            return _array(column, pa.struct(fields), arrays)

        return column, made

    def _list(self, node: Array) -> tuple[Any, Callable[[], Any]]:
        inner, make = self.column(node.items)
        column = self.codec.ListColumn(inner)

        def made() -> Any:
            items = make()
            return _array(column, pa.list_(pa.field("element", items.type)), [items])

        return column, made

    def _map(self, node: Map) -> tuple[Any, Callable[[], Any]]:
        pairs = [self.column(node.keys), self.column(node.values)]
        column = self.codec.ListColumn(self.codec.RecordColumn(tuple(each for each, _ in pairs)))

        def made() -> Any:
            keys, values = (make() for _, make in pairs)
            fields = [pa.field("key", keys.type, nullable=False), pa.field("value", values.type)]
            entries = pa.StructArray.from_arrays([keys, values], fields=fields)
            maps = _array(column, pa.map_(keys.type, values.type), [entries])
            require(are_distinct(keys, lengths(maps)))
            return maps

        return column, made

    def _enum(self, node: Enum) -> tuple[Any, Callable[[], Any]]:
        column = self.symbols(node)
        symbols = pa.array(node.symbols, pa.string())
        return column, lambda: symbols.take(_array(column, pa.int32()))


def _array(column: Any, kind: Any, children: list[Any] | None = None) -> Any:
    """The array of a column's buffers."""
    count, nulls, *buffers = column.buffers()
    content = [each if each is None else pa.py_buffer(each) for each in buffers]
    return pa.Array.from_buffers(kind, count, content, nulls, children=children)


class _WrittenColumns(_ColumnKinds):
    """Columns that are filled with Arrow's buffers, and written."""

    def column(self, node: Node, array: Any) -> Any:
        """The column of an array, which must have the type that is read."""
        match node:
            case Record():
                return self._record(node, array)
            case Union():
                place, other = present_branch(node)
                return self.codec.NullableColumn(self.column(other, array), 1 - place)
            case Array():
                require(pa.types.is_list(array.type))
                found = self.codec.ListColumn(self.column(node.items, array.values))
            case Map():
                return self._map(node, array)
            case Enum():
                return self._enum(node, array)
            case _:
                found, kind = self.leaf(node)
                require(array.type == kind)
        found.fill(len(array), array.offset, *_own_buffers(array))
        return found

    def _record(self, record: Record, array: Any) -> Any:
        require(pa.types.is_struct(array.type))
        require([field.name for field in array.type] == [field.name for field in record.fields])
        columns = tuple(
            self.column(field.type, array.field(place)) for place, field in enumerate(record.fields)
        )
        found = self.codec.RecordColumn(columns)
        found.fill(len(array), array.offset, array.buffers()[0])
        return found

    def _map(self, node: Map, array: Any) -> Any:
        require(pa.types.is_map(array.type))
        lists = listed(array, None)
        counts = np.where(valid(lists), lengths(lists), 0)
        require(are_distinct(lists.flatten().field(0), counts))
        # Not the map's own `keys`, which are not those of entries that are a slice.
        entries = lists.values
        pair = (
            self.column(node.keys, entries.field(0)),
            self.column(node.values, entries.field(1)),
        )
        inner = self.codec.RecordColumn(pair)
        inner.fill(len(entries), 0, None)
        found = self.codec.ListColumn(inner)
        found.fill(len(lists), lists.offset, *_own_buffers(lists))
        return found

    def _enum(self, node: Enum, array: Any) -> Any:
        # A text that is no symbol is not null, and its place is refused.
        marks = np.packbits(valid(array), bitorder="little")
        found = self.symbols(node)
        found.fill(len(array), 0, marks, symbol_places(node, array))
        return found


def _own_buffers(array: Any) -> list[Any]:
    """Arrow's buffers of an array without those of what is inside."""
    nested = pa.types.is_nested(array.type)
    found: list[Any] = array.buffers()[:2] if nested else array.buffers()
    return found
