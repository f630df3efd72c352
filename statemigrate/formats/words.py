"""What types are called in what people read: in DDL for a Struct, in Avro's words for an Avro."""

from __future__ import annotations

from statemigrate.formats.schema.nodes import (
    Array,
    Decimals,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    type_name,
)
from statemigrate.formats.schema.nullability import holds_none, without_none

_DDL = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
    "null": "VOID",
    "date": "DATE",
    "time-micros": "TIME",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}


def ddl_name(node: Node) -> str:
    """Return a field's type as Spark's DDL has it."""
    text = _ddl(without_none(node))
    return text if holds_none(node) else f"{text} NOT NULL"


def words(kind: str, node: Node) -> str:
    """Return what a type of a format of this kind is called."""
    return ddl_name(node) if kind == "struct" else type_name(node)


def _ddl(node: Node) -> str:  # noqa: PLR0911  # one return for each kind of node
    match node:
        case Primitive(narrow=str(narrow)):
            return narrow.upper()
        case Primitive(decimals=Decimals() as decimals) | Fixed(decimals=Decimals() as decimals):
            return str(decimals).upper()
        case Primitive():
            return _DDL.get(node.logical or node.type, type_name(node).upper())
        case Fixed():
            return "BINARY"
        case Enum():
            return "STRING"
        case Array():
            return f"ARRAY<{_ddl(without_none(node.items))}>"
        case Map():
            return f"MAP<{_ddl(without_none(node.keys))}, {_ddl(without_none(node.values))}>"
        case Record():
            fields = (f"{field.name}: {ddl_name(field.type)}" for field in node.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case Union():
            return " | ".join(_ddl(branch) for branch in node.branches)
