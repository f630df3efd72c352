"""Plain values as JSON, and back by their schema.

Numbers, texts and booleans are JSON's own. A decimal is a text of digits, a date, time or timestamp
is ISO 8601, bytes are base64; a NaN or an infinity is written as Python's ``json`` does. A map with
other keys than strings is a list of entries, each with its ``key`` and ``value``.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from statemigrate.errors import ValueMismatchError
from statemigrate.formats.format import Format, Value
from statemigrate.formats.schema import (
    NULL,
    Array,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    accepts_none,
    type_name,
    without_none,
)
from statemigrate.formats.timestamps import MICROSECOND

_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation])


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Any plain value, or a list of them, as JSON text."""
    return json.dumps(_entries(value), default=_written, ensure_ascii=False, indent=indent)


def value_from_json(fmt: Format, document: Any) -> Value:
    """The plain value that ``document`` is in a format; the format itself still has to take it.

    Raises `ValueMismatchError`, which names the field, for what is not of its type.
    """
    if not isinstance(document, dict):
        raise _unfit("the value", "an object with the fields by name", document)
    return _record(fmt.schema, document, "")


def leaf_from_text(node: Node, text: str, path: str) -> Any:
    """A single value as a person types it: text as it is, bytes in base64, ``null`` for none.

    A record is typed as JSON.
    """
    plain = without_none(node)
    if isinstance(plain, Record):
        return _read(plain, _parsed(text, plain, path), path)
    if text == "null" and accepts_none(node):
        return None
    if isinstance(plain, Primitive) and plain.type == "string":
        return text
    if isinstance(plain, Primitive) and plain.type in ("int", "long", "boolean"):
        # A date is an int to Avro, and no JSON.
        return _read(plain, text if plain.logical else _parsed(text, plain, path), path)
    return _read(plain, text, path)


def _entries(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_entries(each) for each in value]
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _entries(each) for key, each in value.items()}
    return [{"key": _entries(key), "value": _entries(each)} for key, each in value.items()]


def _written(value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        seconds = Decimal(value // MICROSECOND).scaleb(-6, _EXACT)
        return f"PT{seconds:f}S"
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
        case Map(has_text_keys=False), list() | dict():
            found = _map(node, document, path)
        case Map(), dict():
            found = {key: _read(node.values, each, f"{path}{{}}") for key, each in document.items()}
        case (Primitive() | Fixed(), str() | int() | float()) if not isinstance(document, bool):
            found = _leaf(node, document, path)
    return found


def _map(node: Map, document: Any, path: str) -> Any:
    entries = document if isinstance(document, list) else []
    if document and not all(isinstance(e, dict) and e.keys() == {"key", "value"} for e in entries):
        raise _unfit(path, "a list of entries, each with a key and a value", document)
    return {
        _read_key(node.keys, each["key"], f"{path} key"): _read(
            node.values, each["value"], f"{path}{{}}"
        )
        for each in entries
    }


def _read_key(node: Node, document: Any, path: str) -> Any:
    plain = without_none(node)
    if isinstance(plain, Record) and isinstance(document, list):
        parts = zip(plain.fields, document, strict=False)
        return tuple([_read_key(field.type, each, path) for field, each in parts])
    if isinstance(plain, Array) and isinstance(document, list):
        return tuple([_read_key(plain.items, each, path) for each in document])
    return _read(node, document, path)


def _branch(union: Union, document: Any, path: str) -> Any:
    branches = [each for each in union.branches if each != NULL]
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


def _from_text(node: Primitive | Fixed, text: str) -> Any:  # noqa: PLR0911  # one a kind
    if node.decimals:
        return Decimal(text)
    logical = node.logical or "" if isinstance(node, Primitive) else ""
    if logical == "date":
        return dt.date.fromisoformat(text)
    if logical == "year-month-interval":
        return int(text)
    if logical == "day-time-interval":
        return _interval(text)
    if logical.startswith("time-"):
        return dt.time.fromisoformat(text)
    if "timestamp" in logical:
        return dt.datetime.fromisoformat(text)
    if isinstance(node, Fixed) or node.type == "bytes":
        return base64.b64decode(text, validate=True)
    return float(text) if node.type in ("float", "double") else text


def _interval(text: str) -> dt.timedelta:
    number = Decimal(text.removeprefix("PT").removesuffix("S")).scaleb(6, _EXACT)
    if not text.startswith("PT") or not text.endswith("S"):
        raise ValueError("no number of seconds")
    return int(number) * MICROSECOND


def _unfit(path: str, expected: str, found: Any) -> ValueMismatchError:
    return ValueMismatchError(
        "SM-VALUE-008",
        f"{path} is not {expected}",
        expected=expected,
        found=f"{found!r:.200}",
        next_action="decimals are written as text, dates and times in ISO 8601, bytes in base64",
        field=path,
    )
