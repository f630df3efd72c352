"""Notes written short: ``"one"`` as it was first written, ``"one+2-1"`` after transforms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from statemigrate.formats import Value
from support.notes import FIELDS, note

_SHORT = re.compile(r"(?P<text>[^+-]+)(\+(?P<ups>\d+))?(-(?P<downs>\d+))?")


def long(revision: str, text: str) -> Value:
    """The value of ``revision`` that ``text`` stands for."""
    parts = _SHORT.fullmatch(text)
    assert parts is not None, text
    return note(revision, parts["text"], int(parts["ups"] or 0), int(parts["downs"] or 0))


def short(value: Any) -> Any:
    """A value, or a list of them, written short, whatever revision it has."""
    if value is None or isinstance(value, list):
        return value if value is None else [short(element) for element in value]
    (text,) = (value[name] for name in FIELDS.values() if name in value)
    ups, downs = value["ups"], value["downs"]
    return f"{text}{f'+{ups}' if ups else ''}{f'-{downs}' if downs else ''}"


def key(number: int) -> bytes:
    """A key that sorts as its number does."""
    return b"key-%d" % number


def entries(revision: str, texts: Mapping[int, str]) -> dict[bytes, Value]:
    """The entries of a family of single values."""
    return {key(number): long(revision, text) for number, text in texts.items()}
