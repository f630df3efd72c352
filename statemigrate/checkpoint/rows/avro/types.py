"""Which of Spark's types its Avro encoding of state has, and how wide it has decimals."""

from __future__ import annotations

import pyarrow as pa

from statemigrate.checkpoint.rows.unsafe.types import (
    Array,
    Blob,
    Decimal,
    Field,
    Map,
    Nothing,
    Number,
    Struct,
    Type,
)
from statemigrate.errors import UnsupportedError

# Spark writes bytes and shorts, but not what would read them again.
_MISSING = (pa.int8(), pa.int16(), pa.duration("us"), pa.time64("ns"))


def fixed_width(kind: Decimal) -> int:
    """The bytes of a decimal: as many as its precision needs."""
    width = 1
    while 2 ** (8 * width - 1) < 10**kind.precision:
        width += 1
    return width


def check_avro(kind: Type, path: str) -> None:
    """Refuse what Spark's Avro encoding of state does not have. Raises `UnsupportedError`."""
    match kind:
        case Struct(fields):
            for field in fields:
                check_avro(field.type, field.path)
        case Array(element):
            _check_inner(element)
        case Map(key, value):
            if not (isinstance(key.type, Blob) and pa.types.is_string(key.type.arrow)):
                raise _no_avro(path, f"a map with keys of {key.type.arrow}")
            _check_inner(value)
        case Number(arrow, _, months) if months or arrow in _MISSING:
            raise _no_avro(path, "year-month interval" if months else str(arrow))


def _check_inner(field: Field) -> None:
    if isinstance(field.type, Nothing):
        raise _no_avro(field.path, "elements without a type")
    check_avro(field.type, field.path)


def _no_avro(path: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-STATE-007",
        f"{path}: Spark's Avro encoding of state has no {found}",
        expected="numbers, strings, binaries, dates, timestamps, decimals, structs, arrays, and "
        "maps of strings",
        found=found,
        next_action="keep the state as unsaferow",
        field=path,
    )
