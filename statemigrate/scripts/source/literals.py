"""Plain values as Python source."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any


def quoted(text: str) -> str:
    """Return a string literal in ASCII, with the quotes that ``ruff format`` prefers."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return _in_quotes(escaped, text.count('"') > text.count("'"))


def leaf_literal(value: Any) -> str:  # noqa: PLR0911  # one a kind of value
    """Return the literal, or the call, that makes a plain value with no values inside."""
    match value:
        case str():
            return quoted(value)
        case bytes():
            return _bytes(value)
        case float() if not isfinite(value):
            return f'float("{value}")'
        case Decimal():
            return f"Decimal({value})" if value == 0 == value.as_tuple().exponent else _text(value)
        case datetime():
            return _datetime(value)
        case date():
            return f"date({value.year}, {value.month}, {value.day})"
        case timedelta():
            return f"timedelta({value.days}, {value.seconds}, {value.microseconds})"
        case time():
            return f'time.fromisoformat("{value}")' if value != time() else "time()"
    return repr(value)


def _text(value: Decimal) -> str:
    return f'Decimal("{value:f}")'


def _bytes(value: bytes) -> str:
    if value and not any(value):
        return f"bytes({len(value)})"
    return f"b{quoted(value.decode('ascii'))}" if value.isascii() else _hex(value)


def _hex(value: bytes) -> str:
    return f'bytes.fromhex("{value.hex()}")'


def _datetime(value: datetime) -> str:
    zone = "" if value.tzinfo is None else "tzinfo=UTC"
    if value.time() == time():
        parts = [str(value.year), str(value.month), str(value.day), zone]
        return f"datetime({', '.join(part for part in parts if part)})"
    return f'datetime.fromisoformat("{value.isoformat()}")'


def _in_quotes(escaped: str, single: bool) -> str:
    quote = "'" if single else '"'
    return quote + escaped.replace(quote, f"\\{quote}") + quote
