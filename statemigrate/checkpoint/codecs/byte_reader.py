"""Reading exactly so many bytes of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

PIECE = 4 << 20
"""Bytes that are handled at once."""


def exactly(source: BinaryIO, size: int) -> bytes:
    """The next ``size`` bytes. Raises ValueError where the file ends before them."""
    data = up_to(source, size)
    if len(data) < size:
        raise ValueError("the file ends too early")
    return data


def up_to(source: BinaryIO, size: int) -> bytes:
    """The next ``size`` bytes, or what is left; nothing at the end of the file.

    Memory is taken as bytes come, whatever ``size`` a damaged file has led to.
    """
    parts = []
    while size > 0 and (part := source.read(min(size, PIECE))):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def joined_in_pieces(contents: Iterable[bytes]) -> Iterator[bytes]:
    """What many small blocks hold, in pieces; blocks of nothing cost nothing."""
    found = bytearray()
    for content in contents:
        found += content
        if len(found) >= PIECE:
            yield bytes(found)
            found.clear()
    yield bytes(found)
