"""Python's plain values as JSON documents that tell their types, and back.

What JSON has of its own is written as it is; anything else, tuples and dictionaries among them, is
an object with its type's name. What is none of these arrives as the text of its ``repr``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

_TYPE, _VALUE = "type", "value"


def typed(value: object) -> Any:
    """The document of a value."""
    if value is None or isinstance(value, bool | int | float | str):
        # A subclass, such as an enumeration's member, arrives as the plain value.
        return value
    if isinstance(value, list):
        return [typed(each) for each in value]
    for name, (kind, write, _) in _KINDS.items():
        if isinstance(value, kind):
            return {_TYPE: name, _VALUE: write(value)}
    return repr(value)


def untyped(document: Any) -> Any:
    """The value of a document. Raises `ValueError` for one that `typed` does not give."""
    if isinstance(document, list):
        return [untyped(each) for each in document]
    if not isinstance(document, dict):
        return document
    try:
        _, _, read = _KINDS[document[_TYPE]]
        return read(document[_VALUE])
    except (KeyError, TypeError, ArithmeticError) as error:
        raise ValueError(f"no value of a known type: {document!r:.200}") from error


def _time_to_json(value: dt.datetime | dt.time) -> list[Any]:
    # ISO 8601 does not tell the two times of a repeated hour apart.
    return [value.isoformat(), value.fold]


def _span(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _pairs(value: dict[Any, Any]) -> list[list[Any]]:
    return [[typed(key), typed(each)] for key, each in value.items()]


def _dict(pairs: list[list[Any]]) -> dict[Any, Any]:
    return {untyped(key): untyped(each) for key, each in pairs}


_Kind = tuple[type | tuple[type, ...], Callable[[Any], Any], Callable[[Any], Any]]
# A datetime is a date too, and comes first.
_KINDS: dict[str, _Kind] = {
    "tuple": (tuple, lambda value: typed(list(value)), lambda parts: tuple(untyped(parts))),
    "dict": (dict, _pairs, _dict),
    "decimal": (Decimal, str, Decimal),
    "bytes": ((bytes, bytearray), lambda value: bytes(value).hex(), bytes.fromhex),
    "datetime": (
        dt.datetime,
        _time_to_json,
        lambda parts: dt.datetime.fromisoformat(parts[0]).replace(fold=parts[1]),
    ),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (
        dt.time,
        _time_to_json,
        lambda parts: dt.time.fromisoformat(parts[0]).replace(fold=parts[1]),
    ),
    "timedelta": (dt.timedelta, _span, lambda parts: dt.timedelta(*parts)),
}
