"""The header of a page and its list of families, in bytes; see the documentation's page format.

A page comes out of a checkpoint, so every number in it is held against the bytes there are.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from statemigrate.errors import PageError

MAGIC = b"SMPG"
VERSION = 1
_FIXED = struct.Struct("<4sHI")
"""The magic, the format's version, the CRC-32 of everything behind the fixed part."""
_PLACE = struct.Struct("<II16sH")
"""The number of pages, this page's number, the keys' fingerprint, how many families follow."""
_FAMILY = struct.Struct("<16sBIIIH")
"""The format's fingerprint, flags, entries, bytes of keys, bytes of values, bytes of the name."""
_EXPIRES, _OUTSIDE = 1, 2
_LENGTH, _MOMENT = 4, 8


class Place(NamedTuple):
    """Which page it is: one of ``pages``, for keys whose columns have the fingerprint ``keys``."""

    pages: int
    number: int
    keys: bytes


class Extent(NamedTuple):
    """One family in a page: how much it has, and the fingerprint of the format of its values."""

    name: str
    format: bytes
    entries: int
    key_bytes: int
    value_bytes: int
    expires: bool
    outside: bool = False
    """Whether any value lies outside of the page."""

    @property
    def size(self) -> int:
        """The bytes of the family's section."""
        columns = 2 * _LENGTH + (_MOMENT if self.expires else 0)
        return self.entries * columns + self.key_bytes + self.value_bytes


def written(place: Place, sections: Sequence[tuple[Extent, bytes]]) -> bytes:
    """The page of these sections, which are in order of their families' names."""
    parts = [_PLACE.pack(place.pages, place.number, place.keys, len(sections))]
    for extent, _ in sections:
        name = extent.name.encode()
        flags = _EXPIRES * extent.expires | _OUTSIDE * extent.outside
        numbers = (extent.entries, extent.key_bytes, extent.value_bytes, len(name))
        parts += [_FAMILY.pack(extent.format, flags, *numbers), name]
    parts += [section for _, section in sections]
    body = b"".join(parts)
    return _FIXED.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def read(data: bytes) -> tuple[Place, list[tuple[Extent, bytes]]]:
    """Which page it is, and its sections. Raises `PageError` for one that is not a whole page."""
    _check_fixed(data)
    try:
        pages, number, keys, families = _PLACE.unpack_from(data, _FIXED.size)
        extents, position = _families(data, _FIXED.size + _PLACE.size, families)
    except (struct.error, UnicodeDecodeError) as error:
        raise damaged(f"a list of families that cannot be read: {error}") from error
    size = sum(extent.size for extent in extents)
    if size != len(data) - position:
        raise damaged(f"{len(data) - position} bytes of entries where {size} are announced")
    names = [extent.name for extent in extents]
    if names != sorted(set(names)):
        raise damaged("families that are not in the order of their names")
    return Place(pages, number, keys), list(_sections(data, position, extents))


def _check_fixed(data: bytes) -> None:
    if len(data) < _FIXED.size or not data.startswith(MAGIC):
        raise damaged(f"{len(data)} bytes that begin with {data[:4]!r}")
    _, version, checksum = _FIXED.unpack_from(data)
    if version != VERSION:
        raise PageError(
            "SM-PAGES-011",
            "a page of state has a format that this release does not know",
            expected=f"version {VERSION}",
            found=f"version {version}",
            next_action="run the release of statemigrate that wrote it, or a later one",
            version=version,
        )
    if zlib.crc32(memoryview(data)[_FIXED.size :]) != checksum:
        raise damaged("bytes that do not have the checksum they were written with")


def _families(data: bytes, position: int, count: int) -> tuple[list[Extent], int]:
    extents = []
    for _ in range(count):
        fingerprint, flags, entries, keys, values, length = _FAMILY.unpack_from(data, position)
        position += _FAMILY.size
        name = data[position : position + length]
        position += length
        if len(name) != length or flags > (_EXPIRES | _OUTSIDE) or not entries:
            raise damaged(f"a family of {entries} entries, flags {flags}, {length} bytes of name")
        expires, outside = bool(flags & _EXPIRES), bool(flags & _OUTSIDE)
        numbers = entries, keys, values
        extents.append(Extent(name.decode(), fingerprint, *numbers, expires, outside))
    return extents, position


def _sections(
    data: bytes, position: int, extents: Sequence[Extent]
) -> Iterator[tuple[Extent, bytes]]:
    for extent in extents:
        yield extent, data[position : position + extent.size]
        position += extent.size


def damaged(found: str) -> PageError:
    """The error for bytes that no release has written."""
    return PageError(
        "SM-PAGES-012",
        "a page of state is damaged",
        expected="a page as it was written, with its checksum",
        found=found,
        next_action="restore the checkpoint from a copy; nothing of this batch was written",
    )
