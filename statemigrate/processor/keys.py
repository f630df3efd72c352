"""Keys: their columns, their bytes, and rows grouped by them.

The bytes of single key columns, type by type; see `statemigrate.processor.keys`.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError, UnsupportedError, ValueMismatchError, shown
from statemigrate.formats import MICROSECOND, aware_of, local_of, microseconds_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


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
        expected="a type whose values have distinct bytes",
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


def _local_datetime(microseconds: int) -> dt.datetime:
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
    "timestamp": _mapped(8, microseconds_of, _local_datetime),
    "timestamp_ntz": _mapped(
        8,
        lambda moment: (moment - _EPOCH_TIME) // MICROSECOND,
        lambda n: _EPOCH_TIME + n * MICROSECOND,
    ),
    "daytimeinterval": _mapped(
        8, lambda interval: interval // MICROSECOND, lambda n: n * MICROSECOND
    ),
}


# Keys as bytes: order-preserving and prefix-free, after the FoundationDB tuple layer's idea.
#
# The bytes of two keys compare as Spark sorts the keys themselves, nulls first, and no key's bytes
# are a prefix of another's, so that all entries of one grouping key form a range of their own.


_UNFIT = (TypeError, ValueError, AttributeError, OverflowError, struct.error)
"""What encoders raise for a value of another type."""


class TupleKeyCodec:
    """Encodes keys of one schema, a tuple of column values each."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        parts = [key_type(field.name, field.dataType) for field in schema.fields]
        self._encoders = tuple(encode for encode, _ in parts)
        self._decoders = tuple(decode for _, decode in parts)
        self._single = self._encoders[0] if len(parts) == 1 else None

    def encode(self, key: Sequence[Any]) -> bytes:
        """The bytes of ``key``. Raises `ValueMismatchError` naming the column that does not fit."""
        try:
            if self._single is not None:
                (value,) = key
                return NULL if value is None else self._single(value)
            return b"".join(
                NULL if value is None else encode(value)
                for encode, value in zip(self._encoders, key, strict=True)
            )
        except _UNFIT as error:
            raise ValueMismatchError(
                "SM-VALUE-009",
                f"the key {shown(key)} does not fit its columns",
                expected=self.schema.simpleString(),
                found=str(error),
                next_action="pass a key with one value a column, of the column's type",
                field="key",
            ) from error

    def encode_many(self, keys: Sequence[Sequence[Any]]) -> list[bytes]:
        """The bytes of many keys. Raises as `encode` does."""
        single = self._single
        if single is not None:
            # What does not fit is named one by one.
            with suppress(*_UNFIT):
                if single is text_encode:
                    return texts_encode([value for (value,) in keys])
                return [NULL if value is None else single(value) for (value,) in keys]
        return list(map(self.encode, keys))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The key that `encode` gave ``data`` for."""
        return self.split(data)[0]

    def split(self, data: bytes) -> tuple[tuple[Any, ...], bytes]:
        """The key at the start of ``data``, and the bytes behind it."""
        position = 0
        values: list[Any] = []
        for decode in self._decoders:
            if data[position : position + 1] == NULL:
                values.append(None)
                position += 1
            else:
                value, position = decode(data, position + 1)
                values.append(value)
        return tuple(values), data[position:]


def shown_key(keys: TupleKeyCodec, user_keys: TupleKeyCodec | None, data: bytes) -> tuple[Any, ...]:
    """A key's columns, for map state followed by those of the map's own key."""
    key, rest = keys.split(data)
    return key if user_keys is None else (*key, *user_keys.decode(rest))


# The columns that rows are grouped by, where an engine groups them itself.


def grouping_key(rows: StructType, columns: Sequence[str], *, argument: str) -> StructType:
    """The schema of the key that ``columns`` of ``rows`` make, in their order.

    ``argument`` is what names them in the user's call, for messages. Raises `StartupError` unless
    each is the name of one column, and `UnsupportedError` as `check_grouping` does.
    """
    from pyspark.sql.types import StructType

    names = rows.fieldNames()
    for column in columns:
        if names.count(column) != 1:
            raise StartupError(
                "SM-START-026",
                f"the stream cannot be grouped by {column}",
                expected=f"one of its columns: {', '.join(names)}",
                found=column,
                next_action=f"name existing columns in {argument}=",
            )
    key = StructType([rows.fields[names.index(column)] for column in columns])
    check_grouping(key)
    return key


def check_grouping(schema: StructType) -> None:
    """Raise `UnsupportedError` for a column that rows cannot be grouped by exactly.

    Of some types Spark takes several values for one key: 0.0 and -0.0, or texts that a collation
    holds equal.
    """
    for field in schema.fields:
        name, collation = field.dataType.typeName(), getattr(field.dataType, "collation", _BINARY)
        if name not in _GROUPING or collation != _BINARY:
            raise UnsupportedError(
                "SM-START-025",
                f"column {field.name} of type {field.dataType.simpleString()} cannot be a key here",
                expected="boolean, an integer type, string, binary, date, timestamp or decimal",
                found=field.dataType.simpleString(),
                next_action="group by another column, or cast it to one of these types first",
                column=field.name,
            )


_BINARY = "UTF8_BINARY"
_GROUPING = (
    *("boolean", "byte", "short", "integer", "long", "decimal"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
)


# What of a key column tells one key from another, where rows are put together by it.


def exact_values(column: Any, values: list[Any]) -> list[Any]:
    """The ``values`` of an Arrow ``column``, or what is equal only where their keys' bytes are.

    Python takes the two times of an hour that clocks run through twice for equal. Types with other
    such values are no keys, see `statemigrate.processor.keys`.
    """
    import pyarrow as pa

    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else values


def identities_of(columns: Sequence[Any], values: Sequence[list[Any]]) -> list[Any]:
    """A value for each row that is equal only where the keys' bytes are.

    ``columns`` are Arrow's, and ``values`` their plain values, of each grouping column.
    """
    exact = [exact_values(*each) for each in zip(columns, values, strict=True)]
    return exact[0] if len(exact) == 1 else list(zip(*exact, strict=True))
