"""Write values as Avro binary, each checked in the same step.

fastavro reads, but does not write, here. Its writer checks a value once more at every union it
stands in, and every nullable column of Spark is a union: a value of six nullable columns in three
structs, two of them decimals, took 75 microseconds against 5 here, and one of three nullable
columns 5.7 against 1.4. It also chooses a union's branch by guessing. What is written is Avro's
specification, section "Binary Encoding"; the tests read all of it back with fastavro.

A value that cannot be written as it is raises `Unfit`, without a word on why: the slow walk of
``checks`` then either makes it fit or names the field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from statemigrate.formats.avro.checks import branches_in_order
from statemigrate.formats.avro.leaf_writing import Write, leaf_writer, write_long
from statemigrate.formats.avro.leaves import leaf_of
from statemigrate.formats.avro.lifting import thawing
from statemigrate.formats.avro.zero_size import MOST_ITEMS, takes_no_bytes
from statemigrate.formats.schema.nodes import (
    INTEGER_RANGES,
    NULL,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)


class Unfit(Exception):  # noqa: N818 - a signal between two parts of this package
    """The value is not one that ``check_of`` accepts as it is."""


def writer_of(node: Node) -> Write:
    """Compile the writer of a type: it appends a value to a buffer, or raises `Unfit`."""
    match node:
        case Record():
            return _record(node)
        case Array():
            most = MOST_ITEMS if takes_no_bytes(node.items) else sys.maxsize
            return _array(writer_of(node.items), most)
        case Map():
            return _map(_key_writer(node.keys), writer_of(node.values))
        case Union():
            nullable = len(node.branches) == 2 and NULL in node.branches
            return _nullable(node) if nullable else _union(node)
    return _leaf(node)


def _leaf(node: Primitive | Fixed | Enum) -> Write:
    if node == Primitive("string"):
        return _write_string
    if isinstance(node, Primitive) and node.type in ("int", "long") and node.logical is None:
        return _integer(*INTEGER_RANGES[node.narrow or node.type])
    return _checked(leaf_of(node).accepts, leaf_writer(node))


def _checked(accepts: Callable[[Any], bool], append: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if not accepts(value):
            raise Unfit
        append(value, out)

    return write


def _integer(low: int, high: int) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Unfit
        if -64 <= value < 64:
            out.append(value << 1 if value >= 0 else ~(value << 1))
        else:
            write_long(value, out)

    return write


def _write_string(value: Any, out: bytearray) -> None:
    if type(value) is not str:
        raise Unfit
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise Unfit from error
    size = len(data)
    if size < 64:
        out.append(size << 1)
    else:
        write_long(size, out)
    out += data


def _record(record: Record) -> Write:
    fields = tuple((field.name, writer_of(field.type)) for field in record.fields)
    count = len(fields)

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict or len(value) != count:
            raise Unfit
        try:
            for name, field in fields:
                field(value[name], out)
        except KeyError as error:
            raise Unfit from error

    return write


def _array(items: Write, most: int) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if type(value) is not list or len(value) > most:
            raise Unfit
        if value:
            write_long(len(value), out)
            for item in value:
                items(item, out)
        out.append(0)

    return write


def _key_writer(node: Node) -> Write:
    write = writer_of(node)
    if not isinstance(node, Record | Array):
        return write
    thaw = thawing(node)
    return lambda key, out: write(thaw(key), out)


def _map(keys: Write, values: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise Unfit
        if value:
            write_long(len(value), out)
            for key, item in value.items():
                keys(key, out)
                values(item, out)
        out.append(0)

    return write


def _nullable(union: Union) -> Write:
    null_index = union.branches.index(NULL)
    other = writer_of(union.branches[1 - null_index])
    null, some = (0, 2) if null_index == 0 else (2, 0)

    def write(value: Any, out: bytearray) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(some)
            other(value, out)

    return write


def _union(union: Union) -> Write:
    branches = [
        (check.accepts, index, writer_of(union.branches[index]))
        for index, check in branches_in_order(union)
    ]

    def write(value: Any, out: bytearray) -> None:
        for accepts, index, branch in branches:
            if accepts(value):
                write_long(index, out)
                branch(value, out)
                return
        raise Unfit

    return write
