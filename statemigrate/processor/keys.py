"""Keys as bytes: order-preserving and prefix-free, after the FoundationDB tuple layer's idea.

The bytes of two keys compare as Spark sorts the keys themselves, nulls first, and no key's bytes
are a prefix of another's, so that all entries of one grouping key form a range of their own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from statemigrate.errors import UnsupportedError, ValueMismatchError, shown
from statemigrate.formats.moments import MICROSECOND, aware_of, local_of, microseconds_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NULL = b"\x00"
_PRESENT = b"\x01"
_END = b"\x00\x00"
_ESCAPED_ZERO = b"\x00\xff"
_EPOCH = dt.date(1970, 1, 1)
_EPOCH_TIME = dt.datetime(1970, 1, 1)
_WIDE = 16  # bytes: a decimal has at most 38 digits

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]


class KeyCodec:
    """Encodes keys of one schema, a tuple of column values each."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        parts = [_codec(field.name, field.dataType) for field in schema.fields]
        self._encoders = tuple(encode for encode, _ in parts)
        self._decoders = tuple(decode for _, decode in parts)
        self._single = self._encoders[0] if len(parts) == 1 else None

    def encode(self, key: Sequence[Any]) -> bytes:
        """The bytes of ``key``. Raises `ValueMismatchError` naming the column that does not fit."""
        try:
            if self._single is not None:
                (value,) = key
                return _NULL if value is None else self._single(value)
            return b"".join(
                _NULL if value is None else encode(value)
                for encode, value in zip(self._encoders, key, strict=True)
            )
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueMismatchError(
                f"the key {shown(key)} does not fit its columns",
                expected=self.schema.simpleString(),
                found=str(error),
                next_action="pass a key with one value a column, of the column's type",
                field="key",
            ) from error

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The key that `encode` gave ``data`` for."""
        return self.split(data)[0]

    def split(self, data: bytes) -> tuple[tuple[Any, ...], bytes]:
        """The key at the start of ``data``, and the bytes behind it."""
        position = 0
        values: list[Any] = []
        for decode in self._decoders:
            if data[position : position + 1] == _NULL:
                values.append(None)
                position += 1
            else:
                value, position = decode(data, position + 1)
                values.append(value)
        return tuple(values), data[position:]


def shown_key(keys: KeyCodec, user_keys: KeyCodec | None, data: bytes) -> tuple[Any, ...]:
    """A key's columns, for map state followed by those of the map's own key."""
    key, rest = keys.split(data)
    return key if user_keys is None else (*key, *user_keys.decode(rest))


def _codec(column: str, data_type: DataType) -> tuple[Encode, Decode]:
    name = data_type.typeName()
    if name in _INTEGERS:
        return _integer(_INTEGERS[name])
    if name == "string":
        return _text(column, data_type)
    if name == "decimal":
        return _decimal(data_type)
    if name in _OTHERS:
        return _OTHERS[name]
    raise UnsupportedError(
        f"column {column} of type {data_type.simpleString()} cannot be a key here",
        expected="boolean, an integer type, string, binary, date, timestamp or decimal",
        found=data_type.simpleString(),
        next_action="group by another column, or cast it to one of these types first",
        column=column,
    )


def _integer(size: int) -> tuple[Encode, Decode]:
    bias = 1 << (8 * size - 1)

    def encode(value: Any) -> bytes:
        return _PRESENT + int.to_bytes(value + bias, size, "big")

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        return int.from_bytes(data[at : at + size], "big") - bias, at + size

    return encode, decode


def _binary_encode(value: Any) -> bytes:
    # bytes(5) would be five zero bytes.
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return _PRESENT + bytes(value).replace(b"\x00", _ESCAPED_ZERO) + _END


def _binary_decode(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end : end + 2] == _END:
            return data[at:end].replace(_ESCAPED_ZERO, b"\x00"), end + 2
        end += 2


def _text(column: str, data_type: Any) -> tuple[Encode, Decode]:
    collation = getattr(data_type, "collation", "UTF8_BINARY")
    if collation != "UTF8_BINARY":
        raise UnsupportedError(
            f"column {column} with collation {collation} cannot be a key here",
            expected="the collation UTF8_BINARY",
            found=collation,
            next_action="cast the column to STRING COLLATE UTF8_BINARY first",
            column=column,
        )

    def encode(value: Any) -> bytes:
        data = value.encode()
        if b"\x00" in data:
            data = data.replace(b"\x00", _ESCAPED_ZERO)
        return _PRESENT + data + _END  # type: ignore[no-any-return]

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        value, end = _binary_decode(data, at)
        return value.decode(), end

    return encode, decode


def _decimal(data_type: Any) -> tuple[Encode, Decode]:
    encode_number, decode_number = _integer(_WIDE)
    scale = data_type.scale

    def encode(value: Any) -> bytes:
        sign, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int) or exponent < -scale:
            raise ValueError(f"{value} has more than {scale} decimal places")
        unscaled = int("".join(map(str, digits)) or "0") * 10 ** (exponent + scale)
        return encode_number(-unscaled if sign else unscaled)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        unscaled, end = decode_number(data, at)
        # Not by arithmetic, which would round to the 28 digits of the current context.
        sign, digits, _ = Decimal(unscaled).as_tuple()
        return Decimal((sign, digits, -scale)), end

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


def _truth(value: Any) -> int:
    if not isinstance(value, bool):
        raise TypeError(f"expected a boolean, found {type(value).__name__}")
    return int(value)


_INTEGERS = {"byte": 1, "short": 2, "integer": 4, "long": 8}
_OTHERS: dict[str, tuple[Encode, Decode]] = {
    "boolean": _mapped(1, _truth, bool),
    "binary": (_binary_encode, _binary_decode),
    "date": _mapped(4, lambda day: (day - _EPOCH).days, lambda n: _EPOCH + dt.timedelta(days=n)),
    "timestamp": _mapped(8, microseconds_of, _moment),
    "timestamp_ntz": _mapped(
        8,
        lambda moment: (moment - _EPOCH_TIME) // MICROSECOND,
        lambda n: _EPOCH_TIME + n * MICROSECOND,
    ),
}
