"""The bytes of single key columns, type by type; see `statemigrate.processor.keys.codec`."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from statemigrate.errors import UnsupportedError, shown
from statemigrate.formats.moments import MICROSECOND, aware_of, local_of, microseconds_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

NULL = b"\x00"
PRESENT = b"\x01"
_MORE = b"\x01"
_END = b"\x00\x00"
_ESCAPED_ZERO = b"\x00\xff"
_EPOCH = dt.date(1970, 1, 1)
_EPOCH_TIME = dt.datetime(1970, 1, 1)
_WIDE = 16  # bytes: a decimal has at most 38 digits

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]


def key_type(column: str, data_type: DataType) -> tuple[Encode, Decode]:
    """How a column's values that are not null become bytes, and back.

    Raises `UnsupportedError` for a type that Spark takes for no key either, or knows no value of.
    """
    name = data_type.typeName()
    if name in _INTEGERS:
        return _integer(_INTEGERS[name])
    if name in _MADE:
        return _MADE[name](column, data_type)
    if name in _OTHERS:
        return _OTHERS[name]
    raise UnsupportedError(
        "SM-START-025",
        f"column {column} of type {data_type.simpleString()} cannot be a key here",
        expected="a type whose values can be told apart by their bytes",
        found=data_type.simpleString(),
        next_action="take another column as the key, or cast it to a type with values of its own",
        column=column,
    )


def nullable(codec: tuple[Encode, Decode]) -> tuple[Encode, Decode]:
    """The codec of a column that may be null."""
    encode_value, decode_value = codec

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        return (None, at + 1) if data[at : at + 1] == NULL else decode_value(data, at + 1)

    return lambda value: NULL if value is None else encode_value(value), decode


def _integer(size: int) -> tuple[Encode, Decode]:
    bias = 1 << (8 * size - 1)

    def encode(value: Any) -> bytes:
        return PRESENT + int.to_bytes(value + bias, size, "big")

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        return int.from_bytes(data[at : at + size], "big") - bias, at + size

    return encode, decode


def _floating(form: str) -> tuple[Encode, Decode]:
    """Bits as they are, so that 0.0 and -0.0 are two keys, as in Spark's state; in their order."""
    size = struct.calcsize(form)
    sign, every = 1 << (8 * size - 1), (1 << (8 * size)) - 1

    def encode(value: Any) -> bytes:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"expected a float, found {type(value).__name__}")
        if float(value) != value and value == value:  # noqa: PLR0124 - NaN is a key
            raise ValueError("a number that a float does not hold")
        bits = int.from_bytes(struct.pack(form, value), "big")
        return PRESENT + (bits ^ (every if bits & sign else sign)).to_bytes(size, "big")

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        found = int.from_bytes(data[at : at + size], "big")
        bits = found ^ (sign if found & sign else every)
        return struct.unpack(form, bits.to_bytes(size, "big"))[0], at + size

    return encode, decode


def _binary_encode(value: Any) -> bytes:
    # bytes(5) would be five zero bytes.
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return PRESENT + bytes(value).replace(b"\x00", _ESCAPED_ZERO) + _END


def _binary_decode(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end : end + 2] == _END:
            return data[at:end].replace(_ESCAPED_ZERO, b"\x00"), end + 2
        end += 2


def text_encode(value: Any) -> bytes:
    """A text's bytes; raises `AttributeError` for what is none."""
    data = value.encode()
    if b"\x00" in data:
        data = data.replace(b"\x00", _ESCAPED_ZERO)
    return PRESENT + data + _END  # type: ignore[no-any-return]


def texts_encode(values: Sequence[Any]) -> list[bytes]:
    """The bytes of many texts, as `text_encode` makes them; None is `NULL`."""
    if None in values or "\x00" in "".join(values):
        return [NULL if value is None else text_encode(value) for value in values]
    return [PRESENT + value.encode() + _END for value in values]


def _text_decode(data: bytes, at: int) -> tuple[Any, int]:
    value, end = _binary_decode(data, at)
    return value.decode(), end


def _decimal(column: str, data_type: Any) -> tuple[Encode, Decode]:  # noqa: ARG001
    encode_number, decode_number = _integer(_WIDE)
    scale = data_type.scale

    def encode(value: Any) -> bytes:
        sign, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int) or exponent < -scale:
            raise ValueError(f"{shown(value)} has more than {scale} decimal places")
        unscaled = int("".join(map(str, digits)) or "0") * 10 ** (exponent + scale)
        return encode_number(-unscaled if sign else unscaled)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        unscaled, end = decode_number(data, at)
        # Not by arithmetic, which would round to the 28 digits of the current context.
        sign, digits, _ = Decimal(unscaled).as_tuple()
        return Decimal((sign, digits, -scale)), end

    return encode, decode


def _struct(column: str, data_type: Any) -> tuple[Encode, Decode]:
    from pyspark.sql import Row

    fields = [
        nullable(key_type(f"{column}.{field.name}", field.dataType)) for field in data_type.fields
    ]
    make = Row(*data_type.fieldNames())

    def encode(value: Any) -> bytes:
        parts = zip(fields, value, strict=True)
        return PRESENT + b"".join([encode_part(part) for (encode_part, _), part in parts])

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        parts = []
        for _, decode_part in fields:
            part, at = decode_part(data, at)
            parts.append(part)
        return make(*parts), at

    return encode, decode


def _array(column: str, data_type: Any) -> tuple[Encode, Decode]:
    encode_item, decode_item = nullable(key_type(f"{column}[]", data_type.elementType))

    def encode(value: Any) -> bytes:
        if not isinstance(value, list | tuple):
            raise TypeError(f"expected a list, found {type(value).__name__}")
        return PRESENT + b"".join([_MORE + encode_item(item) for item in value]) + NULL

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        items = []
        while data[at : at + 1] == _MORE:
            item, at = decode_item(data, at + 1)
            items.append(item)
        return items, at + 1

    return encode, decode


def _mapped(size: int, into: Callable[[Any], int], back: Callable[[int], Any]) -> Any:
    encode_number, decode_number = _integer(size)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        number, end = decode_number(data, at)
        return back(number), end

    return lambda value: encode_number(into(value)), decode


def _moment(microseconds: int) -> dt.datetime:
    # PySpark hands timestamps to Python as naive local time.
    return local_of(aware_of(microseconds))


def _of_day(value: dt.time) -> int:
    if value.tzinfo is not None:
        raise TypeError("expected a time without a zone")
    return (dt.datetime.combine(_EPOCH, value.replace(fold=0)) - _EPOCH_TIME) // MICROSECOND


def _truth(value: Any) -> int:
    if not isinstance(value, bool):
        raise TypeError(f"expected a boolean, found {type(value).__name__}")
    return int(value)


_INTEGERS = {"byte": 1, "short": 2, "integer": 4, "long": 8}
_MADE: dict[str, Callable[[str, Any], tuple[Encode, Decode]]] = {
    "decimal": _decimal,
    "struct": _struct,
    "array": _array,
}
_OTHERS: dict[str, tuple[Encode, Decode]] = {
    "boolean": _mapped(1, _truth, bool),
    "float": _floating(">f"),
    "double": _floating(">d"),
    "string": (text_encode, _text_decode),
    "binary": (_binary_encode, _binary_decode),
    "date": _mapped(4, lambda day: (day - _EPOCH).days, lambda n: _EPOCH + dt.timedelta(days=n)),
    "time": _mapped(8, _of_day, lambda n: (_EPOCH_TIME + n * MICROSECOND).time()),
    "timestamp": _mapped(8, microseconds_of, _moment),
    "timestamp_ntz": _mapped(
        8,
        lambda moment: (moment - _EPOCH_TIME) // MICROSECOND,
        lambda n: _EPOCH_TIME + n * MICROSECOND,
    ),
    "daytimeinterval": _mapped(
        8, lambda interval: interval // MICROSECOND, lambda n: n * MICROSECOND
    ),
}
