"""Plain values as JSON, and back by their schema.

Numbers, texts and booleans are JSON's own. A decimal is a text of digits, a date, time or timestamp
is ISO 8601, bytes are base64; a NaN or an infinity is written as Python's ``json`` does.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal, InvalidOperation
from typing import Any

from statemigrate.errors import ValueMismatchError
from statemigrate.formats.format import Format, Value
from statemigrate.formats.schema import Array, Fixed, Map, Node, Primitive, Record, Union, type_name


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Any plain value, or a list of them, as JSON text."""
    return json.dumps(value, default=_written, ensure_ascii=False, indent=indent)


def value_from_json(fmt: Format, document: Any) -> Value:
    """The plain value that ``document`` is in a format; the format itself still has to take it.

    Raises `ValueMismatchError`, which names the field, for what is not of its type.
    """
    if not isinstance(document, dict):
        raise _unfit("the value", "an object with the fields by name", document)
    return _record(fmt.schema, document, "")


def leaf_from_text(node: Node, text: str, path: str) -> Any:
    """A single value as a person types it: text as it is, bytes in base64, ``null`` for none."""
    plain = _without_null(node)
    if text == "null" and plain is not node:
        return None
    if isinstance(plain, Primitive) and plain.type == "string":
        return text
    if isinstance(plain, Primitive) and plain.type in ("int", "long", "boolean"):
        # A date is an int to Avro, and no JSON.
        return _read(plain, text if plain.logical else _parsed(text, plain, path), path)
    return _read(plain, text, path)


def _written(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def _parsed(text: str, node: Node, path: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise _unfit(path, type_name(node), text) from error


def _record(record: Record, document: dict[str, Any], path: str) -> Value:
    types = {field.name: field.type for field in record.fields}
    # What is missing or too much is for the format to say.
    return {
        name: _read(types[name], each, f"{path}{name}") if name in types else each
        for name, each in document.items()
    }


def _read(node: Node, document: Any, path: str) -> Any:
    if isinstance(node, Union):
        return _branch(node, document, path)
    found = document
    match node, document:
        case Record(), dict():
            found = _record(node, document, f"{path}.")
        case Array(), list():
            found = [_read(node.items, each, f"{path}[]") for each in document]
        case Map(), dict():
            found = {key: _read(node.values, each, f"{path}{{}}") for key, each in document.items()}
        case (Primitive() | Fixed(), str() | int() | float()) if not isinstance(document, bool):
            found = _leaf(node, document, path)
    return found


def _branch(union: Union, document: Any, path: str) -> Any:
    branches = [each for each in union.branches if each != Primitive("null")]
    if document is None:
        return None
    for branch in branches[:-1]:
        try:
            return _read(branch, document, path)
        except ValueMismatchError:
            continue  # one of the others may take it
    return _read(branches[-1], document, path)


def _leaf(node: Primitive | Fixed, document: Any, path: str) -> Any:
    if not isinstance(document, str):
        return Decimal(document) if node.decimals and isinstance(document, int) else document
    try:
        return _from_text(node, document)
    except (ValueError, InvalidOperation) as error:
        raise _unfit(path, type_name(node), document) from error


def _from_text(node: Primitive | Fixed, text: str) -> Any:
    if node.decimals:
        return Decimal(text)
    logical = node.logical or "" if isinstance(node, Primitive) else ""
    if logical == "date":
        return dt.date.fromisoformat(text)
    if logical.startswith("time-"):
        return dt.time.fromisoformat(text)
    if "timestamp" in logical:
        return dt.datetime.fromisoformat(text)
    if isinstance(node, Fixed) or node.type == "bytes":
        return base64.b64decode(text, validate=True)
    return float(text) if node.type in ("float", "double") else text


def _without_null(node: Node) -> Node:
    if isinstance(node, Union):
        others = [branch for branch in node.branches if branch != Primitive("null")]
        return others[0] if len(others) == 1 else node
    return node


def _unfit(path: str, expected: str, found: Any) -> ValueMismatchError:
    return ValueMismatchError(
        f"{path} is not {expected}",
        expected=expected,
        found=f"{found!r:.200}",
        next_action="decimals are written as text, dates and times in ISO 8601, bytes in base64",
        field=path,
    )
