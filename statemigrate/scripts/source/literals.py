"""Plain values as Python source: the one writer of literals in generated scripts.

Names and values come from checkpoints. None may end the literal that it stands in.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from statemigrate.escapes import visible_lines


def quoted(text: str, *, readable: bool = False) -> str:
    """Return a string literal on one line, with the quotes that ``ruff format`` prefers.

    It is in ASCII; if ``readable``, letters and signs that can be seen are kept.
    """
    escaped = "".join(map(_readable, text)) if readable else _ascii(text)
    return _in_quotes(escaped, text.count('"') > text.count("'"))


def block(text: str) -> str | None:
    """Return a literal in which the lines of a text stand as they are, between blank ends.

    None for a text that would then say something else, or has what nobody sees.
    """
    if '"""' in text or not all(each.isprintable() for each in text.split("\n")):
        return None
    prefix = "r" if "\\" in text else ""
    return f'{prefix}"""\n{text}\n"""'


def in_docstring(text: str) -> str:
    """Return what, between three quotes, is a text in which an escape shows what nobody sees."""
    lines = "\n".join(visible_lines(text)).replace("\\", "\\\\").replace('"""', "'''")
    return f'{lines[:-1]}\\"' if lines.endswith('"') else lines


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


def _ascii(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _readable(character: str) -> str:
    is_kept = character.isprintable() and character != "\\"
    return character if is_kept else _ascii(character)


def _in_quotes(escaped: str, single: bool) -> str:
    quote = "'" if single else '"'
    return quote + escaped.replace(quote, f"\\{quote}") + quote
