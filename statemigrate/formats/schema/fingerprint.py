"""The fingerprint of a format: equal exactly when the same values have the same bytes.

The layout keeps what decides the bytes or which values they can hold: field names, types, union
order, logical types, enum symbols, sizes. Record names, namespaces, docs, aliases, the order
property and defaults do not, so they are left out. It follows the idea of Avro's own Parsing
Canonical Form, which can not be used as it is: it keeps names and drops logical types.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from statemigrate.formats.schema.collations import COLLATED
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
)


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
