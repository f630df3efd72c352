"""The lines that read a single value of each type, from ``data`` at the place ``p``.

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

from statemigrate.formats.generated import Source
from statemigrate.formats.moments import EPOCH, EPOCH_DAY, LOCAL_EPOCH
from statemigrate.formats.schema.nodes import Decimals, Enum, Fixed, Primitive


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


def read_raw(source: Source, target: str) -> None:
    """A number as it is written, still in zigzag, into ``target``."""
    source.line(f"{target} = data[p]; p += 1")
    with source.block(f"if {target} > 127:"):
        _read_rest(source, target)


def _read_rest(source: Source, target: str) -> None:
    """The bytes behind the first one of a number, which is in ``target``."""
    source.line("s = data[p]")
    source.line(f"if s < 128: {target} += (s << 7) - 128; p += 1")
    source.line(f"else: {target}, p = long_rest(data, p, {target})")


def _read_number(source: Source, target: str) -> None:
    source.line(f"{target} = data[p]; p += 1")
    source.line(f"if {target} < 128: {target} = numbers[{target}]")
    with source.block("else:"):
        _read_rest(source, target)
        source.line(f"{target} = ({target} >> 1) ^ -({target} & 1)")


def _read_end(source: Source) -> str:
    """The name of the place behind as many bytes as a length says."""
    end = source.name("e")
    source.line(f"{end} = data[p]; p += 1")
    source.line(f"if {end} < 128: {end} = p + sizes[{end}]")
    with source.block("else:"):
        _read_rest(source, end)
        source.line(f"if {end} & 1: raise ValueError")
        source.line(f"{end} = p + ({end} >> 1)")
    return end


def read_bytes(source: Source, target: str) -> None:
    """A length and as many bytes. What is cut off is found at the end, where ``p`` is too far."""
    end = _read_end(source)
    source.line(f"{target} = data[p:{end}]; p = {end}")


def read_text(source: Source, target: str) -> None:
    """A string."""
    end = _read_end(source)
    source.line(f"{target} = data[p:{end}].decode(); p = {end}")


def read_leaf(source: Source, node: Primitive | Fixed | Enum, target: str) -> None:
    """Any single value into ``target``."""
    match node:
        case Enum():
            _read_enum(source, node, target)
        case Fixed():
            _read_fixed(source, node, target)
        case _:
            _read_primitive(source, node, target)


def _read_enum(source: Source, node: Enum, target: str) -> None:
    read_raw(source, target)
    source.line(f"if {target} & 1: raise ValueError")
    source.line(f"{target} = {source.constant(node.symbols)}[{target} >> 1]")


def _read_fixed(source: Source, node: Fixed, target: str) -> None:
    source.line(f"{target} = data[p:p + {node.size}]; p += {node.size}")
    # A list states how many there are: it must not go on and on behind the end.
    source.line("if p > len(data): raise IndexError")
    if node.decimals:
        _convert(source, _decimal(node.decimals), target)


def _read_primitive(source: Source, node: Primitive, target: str) -> None:
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
    convert = _decimal(node.decimals) if node.decimals else _LOGICAL.get(node.logical or "")
    if convert is not None:
        _convert(source, convert, target)


def _read_float(source: Source, kind: str, target: str) -> None:
    form = struct.Struct("<f" if kind == "float" else "<d")
    unpack = source.constant(form.unpack_from)
    source.line(f"{target} = {unpack}(data, p)[0]; p += {form.size}")


def _convert(source: Source, convert: Callable[[Any], Any], target: str) -> None:
    source.line(f"{target} = {source.constant(convert)}({target})")


def _decimal(decimals: Decimals) -> Callable[[bytes], Decimal]:
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


def _moments(epoch: datetime, unit: int) -> Callable[[int], datetime]:
    return lambda number: epoch + timedelta(0, 0, number * unit)


_LOGICAL: dict[str, Callable[[Any], Any]] = {
    "date": lambda day: date.fromordinal(day + EPOCH_DAY),
    "time-micros": _time,
    "timestamp-millis": _moments(EPOCH, 1000),
    "timestamp-micros": _moments(EPOCH, 1),
    "local-timestamp-millis": _moments(LOCAL_EPOCH, 1000),
    "local-timestamp-micros": _moments(LOCAL_EPOCH, 1),
    "day-time-interval": lambda micros: timedelta(0, 0, micros),
}
