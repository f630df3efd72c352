"""What a field gets that has no value yet: None, the Avro default, or a zero of its type."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from statemigrate.formats.schema.defaults import plain_default
from statemigrate.formats.schema.nodes import (
    Array,
    Decimals,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
)
from statemigrate.formats.schema.nullability import holds_none, without_none
from statemigrate.scripts.source.expressions import Entry, dict_literal, list_literal
from statemigrate.scripts.source.layout import Doc
from statemigrate.scripts.source.literals import leaf_literal

_LEAVES: dict[str, Any] = {
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
    "null": None,
    "date": date(1970, 1, 1),
    "time-micros": time(),
    "day-time-interval": timedelta(0),
    "year-month-interval": 0,
    "timestamp-millis": datetime(1970, 1, 1, tzinfo=UTC),
    "timestamp-micros": datetime(1970, 1, 1, tzinfo=UTC),
    "local-timestamp-millis": datetime(1970, 1, 1),
    "local-timestamp-micros": datetime(1970, 1, 1),
}


def default_of(field: Field) -> Doc:
    """Return a field's Avro default, or None if it holds that, or a zero value."""
    return literal(filling(field))


def zero_of(field: Field) -> Doc:
    """Return what stands in for None in a field that does not hold it."""
    return literal(_default(field) if field.has_default else _zero(without_none(field.type)))


def zero_item(node: Node) -> Doc:
    """Return what stands in for None among the items of a list or map."""
    return literal(_zero(node))


def literal(value: Any) -> Doc:
    """Return a plain value as source; dicts and lists take one line an item."""
    if isinstance(value, dict):
        return dict_literal([Entry(name, literal(each)) for name, each in value.items()])
    if isinstance(value, list):
        return list_literal([literal(each) for each in value])
    return leaf_literal(value)


def filling(field: Field) -> Any:
    """Return the plain value that `default_of` is the source of."""
    if field.has_default:
        return _default(field)
    return None if holds_none(field.type) else _zero(field.type)


def _default(field: Field) -> Any:
    return plain_default(field.type, field.default)


def _zero(node: Node) -> Any:  # noqa: PLR0911  # one a kind of node
    match without_none(node):
        case Record() as record:
            return {field.name: filling(field) for field in record.fields}
        case Array():
            return []
        case Map():
            return {}
        case Enum() as enum:
            return enum.default or enum.symbols[0]
        case Primitive(decimals=Decimals() as d) | Fixed(decimals=Decimals() as d):
            return Decimal(0).scaleb(-d.scale)
        case Fixed() as fixed:
            return bytes(fixed.size)
        case Primitive() as leaf:
            return _LEAVES[leaf.logical or leaf.type]
        case union:
            return _zero(union.branches[0])
