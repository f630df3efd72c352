"""Spark's types as a schema's JSON names them, how wide each is in a row, and Arrow's for each.

Arrow's types are those with which Spark itself hands rows to Python. A year-month interval, for
which Spark has none there, is its number of months as ``int32``.
Source: apache/spark ``python/pyspark/sql/pandas/types.py`` (``to_arrow_type``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators import StructJson
from statemigrate.errors import UnsupportedError
from statemigrate.formats.schema import COLLATED, with_collations

WORD = 8
"""Bytes of a slot of a row, and what everything in a row is padded to."""
LARGEST_IN_SLOT = 18
"""Digits of a decimal that is kept as a long."""
DEEPEST = 64
"""How many types may stand one within another."""


@dataclass(frozen=True)
class Number:
    """A value that a slot holds itself; ``bits`` is the unsigned integer of its width.

    ``months`` says that the number is a year-month interval.
    """

    arrow: pa.DataType
    bits: np.dtype[Any]
    months: bool = False


@dataclass(frozen=True)
class Decimal:
    """Kept as a long up to 18 digits, else as bytes."""

    precision: int
    scale: int

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type of it."""
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True)
class Blob:
    """A string or binary: bytes behind the slots."""

    arrow: pa.DataType


@dataclass(frozen=True)
class Nothing:
    """The type whose only value is null."""

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type of it."""
        return pa.null()


@dataclass(frozen=True)
class SparkArray:
    """A list; ``element`` is named ``element``."""

    element: SparkField

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type of it."""
        return pa.list_(self.element.arrow)


@dataclass(frozen=True)
class SparkMap:
    """Keys that are never null, in the order in which they were put, and a value for each."""

    key: SparkField
    value: SparkField

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type of it."""
        return pa.map_(self.key.arrow, self.value.arrow)


@dataclass(frozen=True)
class SparkStruct:
    """Fields in order; a row is one."""

    fields: tuple[SparkField, ...]

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type of it."""
        return pa.struct([field.arrow for field in self.fields])

    @property
    def bitmap_words(self) -> int:
        """Words in which a row notes which fields are null."""
        return (len(self.fields) + 63) // 64

    @property
    def fixed(self) -> int:
        """Bytes in front of what lies behind the slots."""
        return WORD * (self.bitmap_words + len(self.fields))


Type = Number | Decimal | Blob | Nothing | SparkArray | SparkMap | SparkStruct


@dataclass(frozen=True)
class SparkField:
    """A struct's field, an array's element or a map's key or value; ``path`` is its dotted name.

    A struct's field that is not to be read is null in each row, whatever the row has.
    """

    name: str
    path: str
    type: Type
    nullable: bool
    is_read: bool = True

    @property
    def arrow(self) -> pa.Field:
        """Arrow's field of it."""
        return pa.field(self.name, self.type.arrow, nullable=self.nullable)


def reading(struct: SparkStruct, paths: Collection[str]) -> SparkStruct:
    """The same struct, of which only the fields at ``paths`` are to be read, each as a whole."""
    return SparkStruct(tuple(_read_at(each, paths) for each in struct.fields))


def _read_at(field: SparkField, paths: Collection[str]) -> SparkField:
    if field.path in paths:
        return field
    if not any(each.startswith(f"{field.path}.") for each in paths):
        return replace(field, is_read=False)
    kind = field.type
    return replace(field, type=reading(kind, paths)) if isinstance(kind, SparkStruct) else field


def element_width(kind: Type) -> int:
    """Bytes that an element has in the fixed part of an array."""
    return kind.bits.itemsize if isinstance(kind, Number) else WORD


def struct_of(schema: StructJson) -> SparkStruct:
    """The types of a schema.

    Raises `UnsupportedError` for one whose rows cannot be read or written: collated strings,
    variants, user-defined types, calendar intervals and whatever Spark may add.
    """
    try:
        return _struct(with_collations(schema), "", 0)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unknown("the schema", f"a {type(error).__name__} in reading it") from error


def arrow_schema(schema: StructJson) -> pa.Schema:
    """Arrow's schema of a schema's rows, as `struct_of`, which see for errors."""
    return pa.schema([field.arrow for field in struct_of(schema).fields])


def schema_json(schema: pa.Schema) -> StructJson:
    """The schema of Spark's whose rows have these columns: `arrow_schema` backwards.

    Raises `UnsupportedError` for a type that Spark's rows do not have.
    """
    return {"type": "struct", "fields": [_field_json(each) for each in schema]}


def _field_json(field: pa.Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": _json_of(field.type, field.name),
        "nullable": field.nullable,
        "metadata": {},
    }


def _json_of(kind: pa.DataType, path: str) -> Any:
    if pa.types.is_struct(kind):
        return schema_json(pa.schema(list(kind)))
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _json_of(kind.key_type, path),
            "valueType": _json_of(kind.item_type, path),
            "valueContainsNull": kind.item_field.nullable,
        }
    if pa.types.is_list(kind):
        element = _json_of(kind.value_type, path)
        nullable = kind.value_field.nullable
        return {"type": "array", "elementType": element, "containsNull": nullable}
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    name = _BY_ARROW.get(kind)
    if name is None:
        raise _unknown(path, f"the type {kind}")
    return name


def _struct(spark: Any, path: str, depth: int) -> SparkStruct:
    if spark["type"] != "struct":
        raise _unknown(path or "the schema", f"{spark!r:.200}")
    return SparkStruct(tuple(_field(each, path, depth) for each in spark["fields"]))


def _field(spark: Any, path: str, depth: int) -> SparkField:
    name = str(spark["name"])
    return _named(name, _under(path, name), spark["type"], bool(spark["nullable"]), depth)


def _named(name: str, path: str, spark: Any, nullable: bool, depth: int) -> SparkField:
    if depth > DEEPEST:
        raise _unknown(path[:200], f"more than {DEEPEST} types one within another")
    kind = _type(spark, path, depth + 1)
    # Spark says of an empty array without a type that none of its elements is null.
    return SparkField(name, path, kind, nullable or isinstance(kind, Nothing))


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type(spark: Any, path: str, depth: int) -> Type:
    if isinstance(spark, dict):
        kind = _NESTED.get(spark["type"])
        if kind is None:
            raise _unknown(path, f"the type {spark['type']!r:.100}")
        return kind(spark, path, depth)
    text = str(spark)
    found = _NAMED.get(text) or _lettered(text)
    if found is None:
        what = "a collated string" if text.startswith(COLLATED) else "the type"
        raise _unknown(path, f"{what} {text!r:.100}")
    return found


def _array(spark: Any, path: str, depth: int) -> SparkArray:
    nullable = bool(spark["containsNull"])
    within = _under(path, "element")
    return SparkArray(_named("element", within, spark["elementType"], nullable, depth))


def _map(spark: Any, path: str, depth: int) -> SparkMap:
    nullable = bool(spark["valueContainsNull"])
    key = _named("key", _under(path, "key"), spark["keyType"], False, depth)
    if isinstance(key.type, Nothing):
        raise _unknown(path, "a map without a type of its keys")
    value = _named("value", _under(path, "value"), spark["valueType"], nullable, depth)
    return SparkMap(key, value)


_NESTED: dict[str, Callable[[Any, str, int], Type]] = {
    "struct": _struct,
    "array": _array,
    "map": _map,
}


def _lettered(text: str) -> Type | None:
    """A type with numbers in brackets, or an interval with its units."""
    if found := re.fullmatch(r"decimal\((\d{1,2}),(\d{1,2})\)", text):
        precision, scale = int(found[1]), int(found[2])
        return Decimal(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    if re.fullmatch(r"(var)?char\(\d+\)", text):
        return Blob(pa.string())
    if re.fullmatch(r"time\(\d\)", text):
        return Number(pa.time64("ns"), np.dtype("<u8"))
    if re.fullmatch(r"interval (day|hour|minute|second)( to (hour|minute|second))?", text):
        return Number(pa.duration("us"), np.dtype("<u8"))
    if re.fullmatch(r"interval (year|month)( to month)?", text):
        return Number(pa.int32(), np.dtype("<u4"), months=True)
    return None


_NAMED: dict[str, Type] = {
    "boolean": Number(pa.bool_(), np.dtype("u1")),
    "byte": Number(pa.int8(), np.dtype("u1")),
    "short": Number(pa.int16(), np.dtype("<u2")),
    "integer": Number(pa.int32(), np.dtype("<u4")),
    "long": Number(pa.int64(), np.dtype("<u8")),
    "float": Number(pa.float32(), np.dtype("<u4")),
    "double": Number(pa.float64(), np.dtype("<u8")),
    "date": Number(pa.date32(), np.dtype("<u4")),
    "timestamp": Number(pa.timestamp("us", tz="UTC"), np.dtype("<u8")),
    "timestamp_ntz": Number(pa.timestamp("us"), np.dtype("<u8")),
    "string": Blob(pa.string()),
    "binary": Blob(pa.binary()),
    "string collate UTF8_BINARY": Blob(pa.string()),
    "void": Nothing(),
    "null": Nothing(),
}


_BY_ARROW: dict[pa.DataType, str] = {
    # Of several names the first one counts.
    **{kind.arrow: name for name, kind in reversed(_NAMED.items())},
    pa.time64("ns"): "time(6)",
    pa.duration("us"): "interval day to second",
}


def _unknown(path: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-STATE-012",
        f"{path}: rows with {found} cannot be read or written",
        expected="strings without a collation, numbers, decimals, binaries, dates, timestamps, "
        "day-time and year-month intervals, structs, arrays and maps of them",
        found=found,
        next_action="leave the state as it is, or have the query keep the value in another type",
        field=path,
    )
