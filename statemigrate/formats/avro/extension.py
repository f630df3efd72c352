"""The codec in compiled code, where the package `statemigrate_codec` is installed.

A format becomes a tree of that package's nodes. What they refuse, and what they have no node for,
goes by the codec in Python, so both give the same bytes, values and errors.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from statemigrate.formats.avro.compiled_reading import decimal_reader
from statemigrate.formats.avro.compiled_writing import (
    Columns,
    Encode,
    checked_writer,
    writer_by_type,
)
from statemigrate.formats.avro.leaves import longest_text, time_digits
from statemigrate.formats.avro.logical import MOST_ITEMS, freezing, takes_no_bytes
from statemigrate.formats.schema import (
    INTEGER_RANGES,
    NULL,
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

INTERFACE = 2
"""The number of the interface between the two packages that this module speaks."""
PURE_CODEC = "STATEMIGRATE_PURE_CODEC"
"""The environment variable that leaves the compiled codec out."""
_MOST_DIGITS = 38
_UNITS = {"millis": 1000, "micros": 1}
Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class StructConverter:
    """What converts the values of a struct, with the conversion of each of its columns.

    ``convert`` is the conversion. ``columns`` are the struct's, as `Columns` are. A tuple that is
    made is of the class ``row``, which has ``fields`` as its ``__fields__``, or a plain one.
    """

    convert: Callable[[Any], Any]
    columns: Columns
    row: type[tuple[Any, ...]] | None = None
    fields: Any = None


def in_python(columns: Columns) -> Columns:
    """The same columns, each struct with its conversion alone."""
    return [
        (name, each.convert if isinstance(each, StructConverter) else each)
        for name, each in columns
    ]


@cache
def loaded() -> Any | None:
    """The package, or None where it is not installed, not wanted, or of another interface."""
    if os.environ.get(PURE_CODEC, "").lower() not in ("", "0", "false", "no"):
        return None
    try:
        import statemigrate_codec
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        _log.warning("the package statemigrate-codec is left out, as it does not load: %s", error)
        return None
    found = statemigrate_codec.INTERFACE
    if found != INTERFACE:
        _log.warning(
            "the package statemigrate-codec is left out, as its interface is %s and not %s: "
            "install statemigrate[codec]",
            found,
            INTERFACE,
        )
        return None
    return statemigrate_codec


def from_fastest(
    compiled: Callable[[], Callable[[Any], Any] | None],
    pure: Callable[[], Callable[[Any], Any]],
    strict: Callable[[Any], Any],
) -> tuple[Callable[[Any], Any], Callable[[Sequence[Any]], list[Any]]]:
    """What converts one value, and many, by the fastest function that takes it.

    ``compiled`` makes one in compiled code, or None, and ``pure`` one in Python. Both raise for
    what is not regular. ``strict`` takes the rest, or says what is wrong.
    """
    # Made when they are needed: most formats of a lineage never read or write a value.
    in_pure = cache(pure)
    fastest = cache(lambda: compiled() or in_pure())

    def one(value: Any) -> Any:
        try:
            return fastest()(value)
        except Exception:
            # Something about this value is not as usual.
            return irregular(value)

    def irregular(value: Any) -> Any:
        if fastest() is not in_pure():
            with suppress(Exception):
                return in_pure()(value)
        return strict(value)

    def many(values: Sequence[Any]) -> list[Any]:
        convert = fastest()
        try:
            return [convert(value) for value in values]
        except Exception:
            return [one(value) for value in values]

    return one, many


def extension_writer(record: Record) -> Encode | None:
    """The writer of a record, or None without the package. It raises for what is not regular."""
    codec = loaded()
    write: Encode | None = codec and codec.writer(_Tree(codec).node(record))
    return write


def extension_reader(record: Record) -> Decode | None:
    """The reader of a record; as `extension_writer`."""
    codec = loaded()
    read: Decode | None = codec and codec.reader(_Tree(codec).node(record))
    return read


def extension_row_writer(record: Record, columns: Columns) -> Encode | None:
    """The writer of a tuple of ``columns``, which are the record's fields; as above."""
    codec = loaded()
    write: Encode | None = codec and codec.writer(_Tree(codec).columns(record, columns))
    return write


def extension_row_reader(record: Record, columns: Columns) -> Decode | None:
    """The reader of a tuple of ``columns``; as above."""
    codec = loaded()
    read: Decode | None = codec and codec.reader(_Tree(codec).columns(record, columns))
    return read


class _Tree:
    """Makes the nodes of a format's types."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec

    def node(self, node: Node) -> Any:
        """The node that reads and writes a type."""
        match node:
            case Record():
                names = tuple(field.name for field in node.fields)
                return self._codec.Record(names, tuple(self.node(f.type) for f in node.fields))
            case Array():
                return self._array(node)
            case Map():
                return self._map(node)
            case Union():
                return self._union(node)
        return self._leaf(node)

    def columns(
        self, record: Record, columns: Columns, struct: StructConverter | None = None
    ) -> Any:
        """The node of a record as a tuple of its columns; in a ``struct`` as a dictionary too."""
        names = tuple(name for name, _ in columns)
        converters = dict(columns)
        nodes, left = [], []
        for field in record.fields:
            convert = converters[field.name]
            nested = isinstance(convert, StructConverter)
            node = self._struct(field.type, convert) if nested else None
            nodes.append(self.node(field.type) if node is None else node)
            given = convert.convert if isinstance(convert, StructConverter) else convert
            left.append(given if node is None else None)
        places = [names.index(field.name) for field in record.fields]
        row, fields = (struct.row, struct.fields) if struct else (None, None)
        return self._codec.Columns(
            names, tuple(nodes), tuple(left), places, row, fields, struct is not None
        )

    def _struct(self, node: Node, struct: StructConverter) -> Any | None:
        """The node of a struct that is a tuple, if its columns are a record's fields."""
        if isinstance(node, Union) and _is_nullable(node):
            null = node.branches.index(NULL)
            inner = self._struct(node.branches[1 - null], struct)
            return inner and self._codec.Nullable(inner, null)
        if not isinstance(node, Record) or not are_fields_of(node, struct.columns):
            return None
        return self.columns(node, struct.columns, struct)

    def _array(self, node: Array) -> Any:
        most = MOST_ITEMS if takes_no_bytes(node.items) else sys.maxsize
        return self._codec.Array(self.node(node.items), most)

    def _map(self, node: Map) -> Any:
        keys, values = self.node(node.keys), self.node(node.values)
        if node.has_text_keys:
            return self._codec.Map(keys, values, None)
        found = self._codec.Map(keys, values, freezing(node.keys))
        return self._codec.Converted(found, None, writer_by_type(node))

    def _union(self, node: Union) -> Any:
        if _is_nullable(node):
            null = node.branches.index(NULL)
            return self._codec.Nullable(self.node(node.branches[1 - null]), null)
        branches = tuple(self.node(branch) for branch in node.branches)
        return self._codec.Converted(self._codec.Union(branches), None, writer_by_type(node))

    def _leaf(self, node: Primitive | Fixed | Enum) -> Any:
        match node:
            case Enum():
                return self._codec.Enum(node.symbols)
            case Fixed(size=size) if node.decimals is None:
                return self._codec.Fixed(size)
            case Fixed(size=size, decimals=Decimals() as decimals):
                return self._decimals(node, decimals, size)
            case Primitive(decimals=Decimals() as decimals):
                return self._decimals(node, decimals, -1)
        return self._primitive(node)

    def _primitive(self, node: Any) -> Any:
        match node:
            case Primitive(logical=str(logical)):
                return self._logical(node, logical)
            case Primitive(type="string"):
                longest = longest_text(node)
                return self._codec.Text(-1 if longest is None else longest)
            case Primitive(type="int" | "long"):
                return self._codec.Integer(*INTEGER_RANGES[node.narrow or node.type])
        return getattr(self._codec, _PLAIN[node.type])()

    def _decimals(self, node: Primitive | Fixed, decimals: Decimals, size: int) -> Any:
        precision, scale = decimals.precision, decimals.scale
        if size != 0 and precision <= _MOST_DIGITS and 0 <= scale <= precision:
            return self._codec.Decimals(precision, scale, size)
        data = self._codec.Bytes() if size < 0 else self._codec.Fixed(size)
        return self._codec.Converted(data, decimal_reader(decimals), checked_writer(node))

    def _logical(self, node: Primitive, logical: str) -> Any:
        match logical:
            case "date":
                return self._codec.Day()
            case "time-micros":
                return self._codec.Time(10 ** (6 - time_digits(node)))
            case "day-time-interval":
                return self._codec.Interval()
            case "year-month-interval":
                return self._codec.Integer(*INTEGER_RANGES["int"])
        kind, _, unit = logical.rpartition("-")
        return self._codec.Moment(_UNITS[unit], kind == "timestamp")


_PLAIN = {
    "null": "Null",
    "boolean": "Boolean",
    "float": "Float",
    "double": "Double",
    "bytes": "Bytes",
}


def _is_nullable(node: Union) -> bool:
    return len(node.branches) == 2 and NULL in node.branches


def are_fields_of(record: Record, columns: Columns) -> bool:
    """Whether the columns are a record's fields, in any order."""
    fields = {field.name for field in record.fields}
    names = {name for name, _ in columns}
    return bool(fields) and len(columns) == len(fields) and names == fields


_log = logging.getLogger("statemigrate.formats")
