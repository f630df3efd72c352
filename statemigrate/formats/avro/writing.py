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

import struct
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from statemigrate.formats.avro.checks import branches_in_order
from statemigrate.formats.avro.leaves import Unfit, leaf_of
from statemigrate.formats.avro.logical import MOST_ITEMS, takes_no_bytes, thawing
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
from statemigrate.formats.timestamps import EPOCH, EPOCH_DAY, LOCAL_EPOCH

# Single values as Avro binary: its specification, section "Binary Encoding".


Write = Callable[[Any, bytearray], None]
"""Appends a value to a buffer."""
_float = struct.Struct("<f").pack
_double = struct.Struct("<d").pack


def leaf_writer(node: Primitive | Fixed | Enum) -> Write:
    """The writer of a single value, which has been checked."""
    match node:
        case Fixed(decimals=Decimals() as decimals):
            return _fixed_decimal(decimals, node.size)
        case Primitive(decimals=Decimals() as decimals):
            return _bytes_decimal(decimals)
        case Fixed():
            return _raw
        case Enum():
            return _enum(node)
    return _WRITERS[node.logical or node.type]


def _raw(value: bytes, out: bytearray) -> None:
    """Append the bytes as they are."""
    out += value


# Numbers are seven bits a byte, the lowest first, and all bytes but the last one say that there is
# more. Fourteen bits at once are looked up in one of two tables: those with more behind them, and
# the last ones, of one byte or two.
_MORE = [bytes((low, high)) for high in range(128, 256) for low in range(128, 256)]
_LAST = [bytes((low,)) for low in range(128)]
_LAST += [bytes((low, high)) for high in range(1, 128) for low in range(128, 256)]
SHORT = 1 << 13
"""Numbers of at most two bytes are those from minus this to below it."""
SHORT_LONGS = _LAST[::2] + _LAST[:0:-2]
"""Their bytes, by the number: the negative ones stand where Python looks for negative indexes."""


def long_bytes(value: int) -> bytes:
    """A number of up to 64 bits: zigzag, seven bits a byte, the lowest first."""
    number = value << 1 if value >= 0 else ~(value << 1)
    if number < 1 << 28:
        if number < 1 << 14:
            return _LAST[number]
        return _MORE[number & 16383] + _LAST[number >> 14]
    if number < 1 << 42:
        return _MORE[number & 16383] + _MORE[number >> 14 & 16383] + _LAST[number >> 28]
    low = _MORE[number & 16383] + _MORE[number >> 14 & 16383] + _MORE[number >> 28 & 16383]
    if number < 1 << 56:
        return low + _LAST[number >> 42]
    return low + _MORE[number >> 42 & 16383] + _LAST[number >> 56]


def write_long(value: int, out: bytearray) -> None:
    """Append a number of up to 64 bits."""
    out += long_bytes(value)


def _bytes(value: bytes, out: bytearray) -> None:
    write_long(len(value), out)
    out += value


def _string(value: str, out: bytearray) -> None:
    _bytes(value.encode(), out)


def _boolean(value: bool, out: bytearray) -> None:
    out.append(value)


def _null(value: None, out: bytearray) -> None:
    """Nothing is written for null."""


def _write_float(value: float, out: bytearray) -> None:
    out += _float(value)


def _write_double(value: float, out: bytearray) -> None:
    out += _double(value)


def _date(value: Any, out: bytearray) -> None:
    write_long(value.toordinal() - EPOCH_DAY, out)


def _time(value: Any, out: bytearray) -> None:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    write_long(seconds * 1_000_000 + value.microsecond, out)


def _since(epoch: datetime, unit: timedelta) -> Write:
    return lambda value, out: write_long((value - epoch) // unit, out)


def _enum(node: Enum) -> Write:
    indexes = {symbol: index for index, symbol in enumerate(node.symbols)}
    return lambda value, out: write_long(indexes[value], out)


def _unscaled(decimals: Decimals) -> Callable[[Decimal], int]:
    context = Context(prec=decimals.precision, traps=[Inexact, InvalidOperation])
    scale = decimals.scale
    return lambda value: int(value.scaleb(scale, context))


def _fixed_decimal(decimals: Decimals, size: int) -> Write:
    unscaled = _unscaled(decimals)

    def write(value: Decimal, out: bytearray) -> None:
        out += unscaled(value).to_bytes(size, "big", signed=True)

    return write


def _bytes_decimal(decimals: Decimals) -> Write:
    unscaled = _unscaled(decimals)

    def write(value: Decimal, out: bytearray) -> None:
        number = unscaled(value)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        _bytes(number.to_bytes(size, "big", signed=True), out)

    return write


_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_WRITERS: dict[str, Write] = {
    "null": _null,
    "boolean": _boolean,
    "int": write_long,
    "long": write_long,
    "float": _write_float,
    "double": _write_double,
    "bytes": _bytes,
    "string": _string,
    "date": _date,
    "time-micros": _time,
    "day-time-interval": lambda value, out: write_long(value // _MICROSECOND, out),
    "year-month-interval": write_long,
    "timestamp-millis": _since(EPOCH, _MILLISECOND),
    "timestamp-micros": _since(EPOCH, _MICROSECOND),
    "local-timestamp-millis": _since(LOCAL_EPOCH, _MILLISECOND),
    "local-timestamp-micros": _since(LOCAL_EPOCH, _MICROSECOND),
}


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
