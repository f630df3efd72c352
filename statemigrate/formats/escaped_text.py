"""Text that is not UTF-8, as Spark's strings may be: each byte that fits nowhere, escaped.

Spark takes the bytes of ``CAST(binary AS STRING)`` as they are. A Python str holds such a byte as a
lone surrogate from U+DC80 to U+DCFF, as Python does for names of files (PEP 383), and gives it back
unchanged. Only text that is carried along is written in that form; a script is never given it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_ESCAPED = re.compile("[\udc80-\udcff]")


def is_escaped(text: str) -> bool:
    """Whether a text stands for bytes that are not UTF-8."""
    return not text.isascii() and _ESCAPED.search(text) is not None


def text_of(data: bytes) -> str:
    """The text of any bytes."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The bytes that `text_of` was given. Raises UnicodeEncodeError for another lone surrogate."""
    return text.encode("utf-8", "surrogateescape")


def visible(value: Any) -> Any:
    r"""A plain value to be shown: each byte that is not UTF-8 as ``\xff``, at any depth."""
    match value:
        case str():
            return (
                value
                if value.isascii()
                else _ESCAPED.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", value)
            )
        case dict():
            return {visible(key): visible(each) for key, each in value.items()}
        case list():
            return [visible(each) for each in value]
        case tuple():
            return tuple(visible(each) for each in value)
    return value


def first_escaped(value: Any, path: str = "") -> tuple[str, str] | None:
    """Where the first text in a plain value is that is not UTF-8, and it; None where all are."""
    return next(_escaped(value, path), None)


def _escaped(value: Any, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            if is_escaped(value):
                yield path, value
        case dict():
            for key, each in value.items():
                inside = f"{path}.{visible(key)}".lstrip(".")
                yield from _escaped(key, inside)
                yield from _escaped(each, inside)
        case list() | tuple():
            for index, each in enumerate(value):
                yield from _escaped(each, f"{path}[{index}]")
