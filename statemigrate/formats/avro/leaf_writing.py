"""Single values as Avro binary: its specification, section "Binary Encoding"."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from statemigrate.formats.moments import EPOCH, EPOCH_DAY, LOCAL_EPOCH
from statemigrate.formats.schema.nodes import Decimals, Enum, Fixed, Primitive

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


def write_long(value: int, out: bytearray) -> None:
    """Append a number of up to 64 bits: zigzag, seven bits a byte, the lowest first."""
    number = (value << 1) ^ (value >> 63)
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


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
