"""Read an Avro schema's JSON into the tree of ``schema.py``, or say what is wrong and where."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from statemigrate.errors import FormatError
from statemigrate.formats.schema.nodes import (
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
    branch_name,
)

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
MOST_DIGITS = 1000
"""The largest precision of a decimal; Spark's own limit is 38. Each value may take as much time."""
MOST_FIXED = 1 << 24
"""The most bytes of a fixed type. Each value has all of them."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME = re.compile(r"time\([0-6]\)")
_LOGICAL = {
    "date": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}
# Spark reads these, as types whose values no Python value holds.
_REFUSED = ("timestamp-nanos", "local-timestamp-nanos")


def parse(document: object) -> Record:
    """Return the tree of a whole schema.

    Raises FormatError for what Avro forbids, for recursive records (Spark refuses them too) and
    when the top is not a record, because a state variable of Spark is a struct.
    """
    node = _Parser().node(document, "", "the schema")
    if not isinstance(node, Record):
        raise FormatError(
            "SM-FORMAT-008",
            "The schema of a store's values is a record at the top level.",
            expected='{"type": "record", "name": ..., "fields": [...]}',
            found=_short(document),
            next_action="wrap the type in a record with one field",
        )
    return node


def check_name(name: object, place: str) -> str:
    """Return ``name`` if Avro allows it for a field or a type, else raise FormatError."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise FormatError(
        "SM-FORMAT-009",
        f"{place}: not a name Avro allows.",
        expected="letters, digits and underscores, not starting with a digit",
        found=repr(name),
        next_action="rename it",
        field=place,
    )


class _Parser:
    """One parse: the named types met so far, and those still open."""

    def __init__(self) -> None:
        self.named: dict[str, Node | None] = {}

    def node(self, document: object, namespace: str, place: str) -> Node:  # noqa: PLR0911
        """Return the tree of one type, whose names belong to ``namespace``."""
        if isinstance(document, str):
            return self._by_name(document, namespace, place)
        if isinstance(document, list):
            return self._union(document, namespace, place)
        if not isinstance(document, dict):
            _fail(place, "a type name, an object or a list of types", document)
        kind = document.get("type")
        if isinstance(kind, (dict, list)):
            return self.node(kind, namespace, place)
        if kind in _NAMED:
            return self._definition(document, namespace, place)
        if kind == "array":
            return Array(self.node(document.get("items"), namespace, f"{place}[]"))
        if kind == "map":
            return Map(self.node(document.get("values"), namespace, f"{place}{{}}"))
        if kind in PRIMITIVES:
            return _primitive(document, place)
        if isinstance(kind, str):
            return self._by_name(kind, namespace, place)
        return _fail(place, 'an object with a "type"', document)

    def _by_name(self, name: str, namespace: str, place: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.named:
            _fail(place, "a type Avro has, or one defined earlier in this schema", name)
        node = self.named[full]
        if node is None:
            raise FormatError(
                "SM-FORMAT-010",
                f"{place}: the record {full} contains itself.",
                expected="a schema without recursion (Spark has no type for one)",
                found=f"{full} inside {full}",
                next_action="keep the nested values in a list with explicit levels",
                field=place,
            )
        return node

    def _union(self, document: list[Any], namespace: str, place: str) -> Union:
        branches = tuple(self.node(branch, namespace, place) for branch in document)
        names = [branch_name(branch) for branch in branches]
        if not branches or "union" in names or len(set(names)) != len(names):
            _fail(place, "a union of different types, none of them a union", document)
        return Union(branches)

    def _definition(self, document: dict[str, Any], namespace: str, place: str) -> Node:
        full = _full_name(document, namespace, place)
        if full in self.named:
            _fail(place, f"each named type defined once ({full} is defined twice)", document)
        self.named[full] = None
        node = self._named(document, full, place)
        self.named[full] = node
        return node

    def _named(self, document: dict[str, Any], full: str, place: str) -> Node:
        if document["type"] == "enum":
            return _enum(document, full, place)
        if document["type"] == "fixed":
            return _fixed(document, full, place)
        fields = document.get("fields")
        if not isinstance(fields, list):
            _fail(place, 'a record with a list of "fields"', document)
        parsed = tuple(self._field(field, full, place) for field in fields)
        names = [field.name for field in parsed]
        if len(set(names)) != len(names):
            _fail(place, "each field name once", ", ".join(names))
        return Record(full, parsed, _aliases(document, place))

    def _field(self, document: object, record: str, place: str) -> Field:
        if not isinstance(document, dict) or "type" not in document:
            _fail(place, 'fields with a "name" and a "type"', document)
        name = document.get("name")
        inner = f"{name}" if place == "the schema" else f"{place}.{name}"
        check_name(name, f"field {inner}")
        node = self.node(document["type"], record.rpartition(".")[0], inner)
        return Field(
            str(name),
            node,
            "default" in document,
            document.get("default"),
            _aliases(document, inner),
        )


def _primitive(document: dict[str, Any], place: str) -> Primitive:
    kind, logical = document["type"], document.get("logicalType")
    catalyst = document.get("spark.sql.catalyst.type")
    if logical in _REFUSED or (catalyst and not _TIME.fullmatch(str(catalyst))):
        _fail(place, "a type whose values Python holds exactly", catalyst or logical)
    if logical == "decimal" and kind == "bytes":
        return Primitive(kind, "decimal", _decimals(document, place))
    if _LOGICAL.get(str(logical)) == kind:
        return Primitive(kind, logical, narrow=catalyst if logical == "time-micros" else None)
    return NULL if kind == "null" else Primitive(kind)


def _fixed(document: dict[str, Any], full: str, place: str) -> Fixed:
    size = document.get("size")
    if type(size) is not int or not 0 <= size <= MOST_FIXED:
        _fail(place, f'a "size" of at most {MOST_FIXED:,} bytes', document)
    if document.get("logicalType") != "decimal":
        return Fixed(full, size)
    decimals = _decimals(document, place)
    if decimals.precision > int((8 * size - 1) * math.log10(2)):
        _fail(place, f"a precision that {size} bytes can hold", decimals)
    return Fixed(full, size, decimals)


def _decimals(document: dict[str, Any], place: str) -> Decimals:
    match document.get("precision"), document.get("scale", 0):
        case int(precision), int(scale) if (
            not {bool} & {type(precision), type(scale)}
            and 0 <= scale <= precision
            and 0 < precision <= MOST_DIGITS
        ):
            return Decimals(precision, scale)
    wanted = f"a decimal with 0 <= scale <= precision, precision from 1 to {MOST_DIGITS:,}"
    return _fail(place, wanted, document)


def _enum(document: dict[str, Any], full: str, place: str) -> Enum:
    symbols = document.get("symbols")
    if not isinstance(symbols, list) or not symbols or len(set(symbols)) != len(symbols):
        _fail(place, 'a list of different "symbols"', document)
    checked = tuple(check_name(symbol, f"symbol of {full}") for symbol in symbols)
    default = document.get("default")
    if default is not None and default not in checked:
        _fail(place, f"a default out of {', '.join(checked)}", default)
    return Enum(full, checked, default)


def _full_name(document: dict[str, Any], namespace: str, place: str) -> str:
    name = document.get("name")
    if not isinstance(name, str):
        _fail(place, 'a named type with a "name"', document)
    space = document.get("namespace", namespace)
    full = name if "." in name or not space else f"{space}.{name}"
    for part in full.split("."):
        check_name(part, f"type {full}")
    return full


def _aliases(document: dict[str, Any], place: str) -> tuple[str, ...]:
    aliases = document.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        _fail(place, "aliases as a list of names", aliases)
    return tuple(aliases)


def _fail(place: str, expected: str, found: object) -> NoReturn:
    raise FormatError(
        "SM-FORMAT-011",
        f"{place}: not a valid Avro schema.",
        expected=expected,
        found=_short(found),
        next_action="correct the schema at that place",
        field=place,
    )


def _short(found: object) -> str:
    text = found if isinstance(found, str) else repr(found)
    return text if len(text) <= 120 else f"{text[:117]}..."


# A string's collation in the JSON of a Spark type: next to the type, or within it.
#
# Spark writes ``string`` for every string, and the collations of a column's strings into the
# column's metadata, by the way to each: ``tags.element``, ``prices.key``. Within this package a
# type says it itself, as ``string collate UNICODE_CI``.


_KEY = "__COLLATIONS"
COLLATED = "string collate "


def with_collations(struct: Any) -> Any:
    """A struct type in Spark's JSON form with each string's collation in its type, no metadata."""
    fields = []
    for field in struct["fields"]:
        found = (field.get("metadata") or {}).get(_KEY, {})
        type_ = _with_known_collations(field["type"], field["name"], found)
        fields.append({**field, "type": type_, "metadata": {}})
    return {**struct, "fields": fields}


def as_spark_writes(struct: Any) -> Any:
    """The other way round: collations in the columns' metadata, and no other metadata."""
    fields = []
    for field in struct["fields"]:
        found: dict[str, str] = {}
        plain = _plain(field["type"], field["name"], found)
        fields.append({**field, "type": plain, "metadata": {_KEY: found} if found else {}})
    return {**struct, "fields": fields}


def _with_known_collations(spark: Any, path: str, found: dict[str, str]) -> Any:
    if spark == "string" and path in found:
        return COLLATED + found[path].rpartition(".")[2]
    return _inside(
        spark,
        lambda each, step: _with_known_collations(each, f"{path}.{step}", found),
        with_collations,
    )


def _plain(spark: Any, path: str, found: dict[str, str]) -> Any:
    if isinstance(spark, str) and spark.startswith(COLLATED):
        name = spark.removeprefix(COLLATED)
        # As PySpark tells the two libraries of collations apart.
        found[path] = f"{'spark' if name.startswith('UTF8') else 'icu'}.{name}"
        return "string"
    return _inside(spark, lambda each, step: _plain(each, f"{path}.{step}", found), as_spark_writes)


def _inside(spark: Any, change: Any, change_struct: Any) -> Any:
    match spark:
        case {"type": "struct"}:
            return change_struct(spark)
        case {"type": "array"}:
            return {**spark, "elementType": change(spark["elementType"], "element")}
        case {"type": "map"}:
            keys, values = change(spark["keyType"], "key"), change(spark["valueType"], "value")
            return {**spark, "keyType": keys, "valueType": values}
    return spark
