"""Spark's own rules between Spark types and Avro types, both ways, without Spark.

They are those of ``org.apache.spark.sql.avro.SchemaConverters`` in Spark 4, with three differences:

* CHAR and VARCHAR, which Spark refuses there, are strings with a longest length.
* A union with a real choice is refused: Spark makes a struct ``member0, member1, ...`` of it, which
  is not the same plain value. Unions of int and long, and of float and double, are kept.
* What Spark cannot write is kept in a form of this package's own: maps whose keys are no strings,
  as a list of entries, and fields of any name. `check_avro` tells whether a format has such.

A VARIANT is the record of its two parts.
TINYINT and SMALLINT are written as int, and Spark leaves no mark that would bring them back.
A Spark type is given in the JSON form of ``StructType.jsonValue()``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from statemigrate.errors import FormatError
from statemigrate.formats.schema import (
    COLLATED,
    NULL,
    Array,
    Decimals,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    check_name,
    type_name,
)
from statemigrate.quoting import is_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


MAX_PRECISION = 38
_DECIMAL = re.compile(r"decimal\((\d{1,9}),\s*(\d{1,9})\)")
_BOUNDED = re.compile(r"(?:var)?char\(\d{1,10}\)")
_INTERVAL = re.compile(
    r"interval (?P<start>day|hour|minute|second|year|month)(?: to (?:hour|minute|second|month))?"
)
_TIME = re.compile(r"time\([0-6]\)")
_TO_AVRO = {
    "boolean": Primitive("boolean"),
    "byte": Primitive("int", narrow="tinyint"),
    "short": Primitive("int", narrow="smallint"),
    "integer": Primitive("int"),
    "long": Primitive("long"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "string": Primitive("string"),
    "binary": Primitive("bytes"),
    "date": Primitive("int", "date"),
    "timestamp": Primitive("long", "timestamp-micros"),
    "timestamp_ntz": Primitive("long", "local-timestamp-micros"),
    "void": NULL,
}
_TO_SPARK = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "null": "void",
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
_NARROW = {"tinyint": "byte", "smallint": "short"}
_VARIANT = ".variant"
"""The end of the name of a record that is a variant of Spark's."""
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}


def record_of(struct: dict[str, Any], name: str = "topLevelRecord", place: str = "") -> Record:
    """Return the Avro record that Spark writes for a struct type. Raises FormatError."""
    fields: list[Field] = []
    for field in struct["fields"]:
        if not is_text(field["name"]):
            _refuse(place or "the struct", "names that have a UTF-8 form", ascii(field["name"]))
        inner = f"{place}.{field['name']}" if place else field["name"]
        if any(field["name"] == other.name for other in fields):
            _refuse(inner, "each field name once in a struct", field["name"])
        node = _node(field["type"], field["nullable"], f"{name}.{field['name']}", inner)
        fields.append(Field(field["name"], node))
    return Record(name, tuple(fields))


def _node(spark: Any, nullable: bool, name: str, place: str) -> Node:
    node = _complex(spark, name, place) if isinstance(spark, dict) else _atomic(spark, name, place)
    return Union((node, NULL)) if nullable and node != NULL else node


def _complex(spark: dict[str, Any], name: str, place: str) -> Node:
    if spark["type"] == "struct":
        return record_of(spark, name, place)
    if spark["type"] == "array":
        return Array(_node(spark["elementType"], spark["containsNull"], name, f"{place}[]"))
    if spark["type"] != "map":
        _refuse(place, "a type of Spark's own, not a user-defined one", spark["type"])
    keys = _node(spark["keyType"], False, name, f"{place} key")
    return Map(_node(spark["valueType"], spark["valueContainsNull"], name, f"{place}{{}}"), keys)


def _atomic(spark: str, name: str, place: str) -> Node:  # noqa: PLR0911  # one a kind
    if spark in _TO_AVRO:
        return _TO_AVRO[spark]
    if digits := _DECIMAL.fullmatch(spark):
        return _decimal(Decimals(int(digits[1]), int(digits[2])), f"{name}.fixed", place)
    if spark == "variant":
        parts = (Field("value", Primitive("bytes")), Field("metadata", Primitive("bytes")))
        return Record(f"{name}{_VARIANT}", parts)
    if interval := _INTERVAL.fullmatch(spark):
        return _interval(interval["start"], spark)
    if _BOUNDED.fullmatch(spark) or spark.startswith(COLLATED):
        return Primitive("string", narrow=spark)
    if _TIME.fullmatch(spark):
        return Primitive("long", "time-micros", narrow=spark)
    return _refuse(place, "a type that Avro and Python both have", spark)


def _interval(start: str, spark: str) -> Primitive:
    if start in ("year", "month"):
        return Primitive("int", "year-month-interval", narrow=spark)
    return Primitive("long", "day-time-interval", narrow=spark)


def check_avro(record: Record) -> None:
    """Raise `FormatError`, naming the field, for a record that is no Avro schema."""
    for node, place in _walked(record, ""):
        if isinstance(node, Map) and not node.has_text_keys:
            found = f"{type_name(node.keys)} keys"
            _refuse(place, "a MAP with STRING keys, the only ones Avro has", found)
        for field in node.fields if isinstance(node, Record) else ():
            check_name(field.name, f"field {_below(place, field.name)}")


def _walked(node: Node, place: str) -> Iterator[tuple[Node, str]]:
    yield node, place
    match node:
        case Record():
            for field in node.fields:
                yield from _walked(field.type, _below(place, field.name))
        case Array():
            yield from _walked(node.items, f"{place}[]")
        case Map():
            yield from _walked(node.values, f"{place}{{}}")
        case Union():
            for branch in node.branches:
                yield from _walked(branch, place)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _decimal(decimals: Decimals, name: str, place: str) -> Fixed:
    if not 1 <= decimals.precision <= MAX_PRECISION or decimals.scale > decimals.precision:
        _refuse(place, f"a decimal with scale <= precision <= {MAX_PRECISION}", decimals)
    # As many bytes as hold every number of that many digits, and the sign.
    size = ((10**decimals.precision).bit_length() + 8) // 8
    return Fixed(name, size, decimals)


def spark_json(record: Record, place: str = "", *, is_struct: bool = False) -> dict[str, Any]:
    """Return the Spark struct type, in its JSON form, that Spark reads an Avro record as.

    With ``is_struct`` the record is what `record_of` made of a struct, whose variants come back.
    """
    fields = []
    for field in record.fields:
        inner = f"{place}.{field.name}" if place else field.name
        spark, nullable = _spark(field.type, inner, is_struct=is_struct)
        fields.append({"name": field.name, "type": spark, "nullable": nullable, "metadata": {}})
    return {"type": "struct", "fields": fields}


def _spark(  # noqa: PLR0911  # one a kind of node
    node: Node, place: str, *, is_struct: bool
) -> tuple[Any, bool]:
    """Return the Spark type and whether it is nullable."""
    match node:
        case Union():
            return _spark_union(node, place, is_struct=is_struct)
        case Record(name=name) if is_struct and name.endswith(_VARIANT):
            return "variant", False
        case Record():
            return spark_json(node, place, is_struct=is_struct), False
        case Array():
            spark, nullable = _spark(node.items, f"{place}[]", is_struct=is_struct)
            return {"type": "array", "elementType": spark, "containsNull": nullable}, False
        case Map():
            key, _ = _spark(node.keys, f"{place} key", is_struct=is_struct)
            spark, nullable = _spark(node.values, f"{place}{{}}", is_struct=is_struct)
            map_type = {"type": "map", "keyType": key, "valueType": spark}
            return map_type | {"valueContainsNull": nullable}, False
        case Enum():
            return "string", False
        case Fixed(decimals=Decimals() as decimals) | Primitive(decimals=Decimals() as decimals):
            return _spark_decimal(decimals, place), False
        case Primitive(narrow=str(narrow)):
            return _NARROW.get(narrow, narrow), False
        case Primitive(logical="time-micros"):
            return "time(6)", False
        case Primitive():
            return _TO_SPARK[node.logical or node.type], node == NULL
    return "binary", False


def _spark_union(union: Union, place: str, *, is_struct: bool) -> tuple[Any, bool]:
    others = [branch for branch in union.branches if branch != NULL]
    nullable = len(others) < len(union.branches)
    if not others:
        return "void", True
    if len(others) == 1:
        spark, inner_nullable = _spark(others[0], place, is_struct=is_struct)
        return spark, nullable or inner_nullable
    plain = frozenset(branch.type for branch in others if branch == Primitive(type_name(branch)))
    if len(plain) == len(others) and plain in _WIDER:
        return _WIDER[plain], nullable
    return _refuse(place, "at most one type other than null in a union", type_name(union))


def _spark_decimal(decimals: Decimals, place: str) -> str:
    if decimals.precision > MAX_PRECISION:
        _refuse(place, f"a precision of at most {MAX_PRECISION}, Spark's limit", decimals)
    return str(decimals)


def _refuse(place: str, expected: str, found: object) -> NoReturn:
    raise FormatError(
        "SM-FORMAT-014",
        f"Field {place} has no counterpart by Spark's Avro rules.",
        expected=expected,
        found=str(found),
        next_action="change the type of that field",
        field=place,
    )


# What a struct type stores, whatever it says of nullability and collations.


_IGNORED = ("nullable", "containsNull", "valueContainsNull", "metadata")


def shape_of(schema: StructType) -> Any:
    """A struct type without nullability and metadata, as JSON values: equal for equal storage."""
    return _without_nullability(schema.jsonValue())


def _without_nullability(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _without_nullability(each) for key, each in node.items() if key not in _IGNORED
        }
    return [_without_nullability(each) for each in node] if isinstance(node, list) else node
