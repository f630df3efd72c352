"""The fingerprint of a format: equal exactly when the same values have the same bytes.

The layout keeps what decides the bytes or which values they can hold: field names, types, union
order, logical types, enum symbols, sizes. Record names, namespaces, docs, aliases, the order
property and defaults do not, so they are left out. It follows the idea of Avro's own Parsing
Canonical Form, which can not be used as it is: it keeps names and drops logical types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from statemigrate.errors import FormatError
from statemigrate.formats.schema.nodes import (
    INTEGER_RANGES,
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
from statemigrate.formats.schema.parsing import COLLATED


def fingerprint(node: Node) -> str:
    """Return the SHA-256 of the canonical layout, as 64 hex characters."""
    text = json.dumps(layout(node), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def layout(node: Node) -> Any:  # noqa: PLR0911  # one return for each kind of node
    """Return the canonical layout as JSON values."""
    match node:
        case Primitive():
            return _primitive(node)
        case Fixed():
            return {"type": "fixed", "size": node.size} | _digits(node.decimals)
        case Enum():
            return {"type": "enum", "symbols": list(node.symbols)}
        case Array():
            return {"type": "array", "items": layout(node.items)}
        case Map():
            keys = {} if layout(node.keys) == "string" else {"keys": layout(node.keys)}
            return {"type": "map", **keys, "values": layout(node.values)}
        case Union():
            return [layout(branch) for branch in node.branches]
        case Record():
            fields = [{"name": field.name, "type": layout(field.type)} for field in node.fields]
            return {"type": "record", "fields": fields}


def _primitive(node: Primitive) -> Any:
    document: dict[str, Any] = {"type": node.type} | _digits(node.decimals)
    if node.logical:
        document["logicalType"] = node.logical
    # time(6) is all that time-micros can hold, and a collation only compares: they add nothing.
    if node.narrow and node.narrow != "time(6)" and not node.narrow.startswith(COLLATED):
        document["narrow"] = node.narrow
    return node.type if len(document) == 1 else document


def _digits(decimals: Decimals | None) -> dict[str, Any]:
    if decimals is None:
        return {}
    return {
        "logicalType": "decimal",
        "precision": decimals.precision,
        "scale": decimals.scale,
    }


# A field's default in an Avro schema, from the JSON it is written in to a plain value.


_EPOCH = datetime(1970, 1, 1)  # local timestamps have no zone


def plain_default(node: Node, default: Any) -> Any:  # noqa: PLR0911  # one a kind of node
    """Return the plain value that ``default`` stands for, or raise FormatError.

    In a union it belongs to the first branch it fits, as Avro 1.12 has it.
    """
    match node:
        case Array() if isinstance(default, list):
            return [plain_default(node.items, item) for item in default]
        case Map() if isinstance(default, dict):
            return {key: plain_default(node.values, item) for key, item in default.items()}
        case Record() if isinstance(default, dict):
            return _record(node, default)
        case Union():
            return _union(node, default)
        case Enum() if default in node.symbols:
            return default
        case Fixed() if isinstance(default, str) and len(default) == node.size:
            return _from_bytes(default, node.decimals)
        case Primitive() if _fits(node, default):
            return _defaults_primitive(node, default)
    raise FormatError(
        "SM-FORMAT-001",
        "A field's default is not of the field's type.",
        expected=f"a default for {type_name(node)}",
        found=repr(default),
        next_action="correct the default in the schema",
    )


def _record(node: Record, default: dict[str, Any]) -> dict[str, Any]:
    return {
        field.name: plain_default(field.type, default.get(field.name, field.default))
        for field in node.fields
    }


def _union(node: Union, default: Any) -> Any:
    for branch in node.branches[:-1]:
        try:
            return plain_default(branch, default)
        except FormatError:
            continue  # the next branch may fit; the last one raises
    return plain_default(node.branches[-1], default)


def _fits(node: Primitive, default: Any) -> bool:
    if node.type in ("int", "long"):
        low, high = INTEGER_RANGES[node.type]
        return type(default) is int and low <= default <= high
    if node.type in ("float", "double"):
        return isinstance(default, (int, float)) and not isinstance(default, bool)
    return isinstance(default, _JSON_TYPES[node.type])


def _defaults_primitive(node: Primitive, default: Any) -> Any:
    if node.logical in _LOGICAL:
        return _LOGICAL[node.logical](default)
    if node.type == "bytes":
        return _from_bytes(default, node.decimals)
    return float(default) if node.type in ("float", "double") else default


def _from_bytes(default: str, decimals: Decimals | None) -> bytes | Decimal:
    # Avro writes bytes in JSON as one character for each byte.
    data = default.encode("latin-1")
    if decimals is None:
        return data
    number = int.from_bytes(data, "big", signed=True)
    return Decimal(f"{number}E-{decimals.scale}")


_JSON_TYPES: dict[str, type] = {
    "null": type(None),
    "boolean": bool,
    "bytes": str,
    "string": str,
}
_LOGICAL: dict[str | None, Callable[[int], Any]] = {
    "date": lambda days: date(1970, 1, 1) + timedelta(days=days),
    "time-micros": lambda micros: (datetime.min + timedelta(microseconds=micros)).time(),
    "timestamp-millis": lambda n: _EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=n),
    "timestamp-micros": lambda n: _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=n),
    "local-timestamp-millis": lambda n: _EPOCH + timedelta(milliseconds=n),
    "local-timestamp-micros": lambda n: _EPOCH + timedelta(microseconds=n),
}
