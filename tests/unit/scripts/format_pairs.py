"""Random pairs of formats, the second one made from the first by what people do to schemas."""

import json
import string
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from unit.formats.avro_strategies import PRIMITIVES, records, types

Schema = dict[str, Any]
_NAMES = [*string.ascii_lowercase[:9], "price", "prices", "amount", "class", "list", "value"]
_LEAVES = {json.dumps(schema): values for schema, values in PRIMITIVES}


@dataclass
class FormatPair:
    """Two Avro schemas, and values of each."""

    old: Schema
    new: Schema
    old_values: list[dict[str, Any]]
    new_values: list[dict[str, Any]]


@st.composite
def format_pairs(draw: st.DrawFn) -> FormatPair:
    old, _ = draw(records("old"))
    new = draw(
        changed(old, "new") if draw(st.integers(0, 3)) else records("new").map(lambda p: p[0])
    )
    if draw(st.booleans()):
        old, new = new, old
    return FormatPair(old, new, draw(_some(old)), draw(_some(new)))


def _some(schema: Schema) -> st.SearchStrategy[list[Any]]:
    return st.lists(values_of(schema), min_size=1, max_size=3)


def values_of(schema: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911  # one a kind
    match schema:
        case list():
            return st.one_of([values_of(each) for each in schema])
        case {"type": "record", "fields": fields}:
            return st.fixed_dictionaries({f["name"]: values_of(f["type"]) for f in fields})
        case {"type": "array", "items": items}:
            return st.lists(values_of(items), max_size=3)
        case {"type": "map", "values": values}:
            return st.dictionaries(st.sampled_from("abc"), values_of(values), max_size=2)
        case {"type": "enum", "symbols": symbols}:
            return st.sampled_from(symbols)
        case {"logicalType": "decimal", "precision": precision, "scale": scale}:
            highest = 10**precision - 1
            return st.integers(-highest, highest).map(lambda n: Decimal(f"{n}E-{scale}"))
        case {"type": "fixed", "size": size}:
            return st.binary(min_size=size, max_size=size)
    return _LEAVES[json.dumps(schema)]


@st.composite
def changed(draw: st.DrawFn, record: Schema, name: str) -> Schema:
    """A record that differs from another as one after some weeks of work might."""
    fields: dict[str, Any] = {}
    folded: list[Any] = []
    for field in record["fields"]:
        kind, word = field["type"], field["name"]
        match draw(st.sampled_from(["keep", "keep", "inside", "drop", "rename", "wider", "fold"])):
            case "keep":
                fields[word] = kind
            case "inside":
                fields[word] = draw(_inside(kind, f"{name}_{word}"))
            case "rename":
                fields[draw(st.sampled_from(_NAMES))] = kind
            case "wider":
                fields[word] = _wider(kind)
            case "fold":
                folded.append({"name": word, "type": kind})
    if folded:
        inner = {"type": "record", "name": f"{name}_fold", "fields": folded}
        fields["folded"] = draw(st.sampled_from([inner, ["null", inner]]))
    if draw(st.booleans()):
        added = draw(st.sampled_from(_NAMES))
        fields.setdefault(added, draw(types(f"{name}_{added}", 1))[0])
    listed = [{"name": word, "type": kind} for word, kind in fields.items()]
    return {"type": "record", "name": name, "fields": _renamed(listed, name)}


@st.composite
def _inside(draw: st.DrawFn, kind: Any, name: str) -> Any:
    match kind:
        case {"type": "record"}:
            return draw(changed(kind, name))
        case {"type": "array"}:
            return kind | {"items": draw(_inside(kind["items"], name))}
        case {"type": "map"}:
            return kind | {"values": draw(_inside(kind["values"], name))}
        case list():
            inner = [draw(_inside(each, name)) for each in kind]
            return [b if isinstance(a, list) else a for a, b in zip(inner, kind, strict=True)]
    return draw(st.sampled_from([kind, _wider(kind)]))


def _wider(kind: Any) -> Any:
    if isinstance(kind, list) or kind == "null":
        return kind
    return (
        {"int": "long", "float": "double"}.get(kind) if kind in ("int", "float") else ["null", kind]
    )


def _renamed(node: Any, place: str) -> Any:
    """A copy in which named types, moved about as they were, have names of their own."""
    node = deepcopy(node)
    if isinstance(node, list):
        return [_renamed(each, f"{place}_{number}") for number, each in enumerate(node)]
    if not isinstance(node, dict):
        return node
    for key in ("type", "items", "values", "fields"):
        if key in node:
            node[key] = _renamed(node[key], f"{place}_{key}")
    if node.get("type") in ("record", "enum", "fixed"):
        node["name"] = f"{place}_named"
    return node
