"""Values that are too large for a page: they lie outside, and the page keeps what tells them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import NoReturn, Protocol

from statemigrate.errors import PageError

LARGEST_INSIDE = 64 << 10
"""Bytes of an encoded value that lies in its page; every visit reads and writes all of them."""
LARGEST_OUTSIDE = 256 << 20
"""Bytes that a value may have at all: Java and Python hand it to each other in one piece."""
_REFERENCE = struct.Struct("<II")
REFERENCE_SIZE = _REFERENCE.size
"""The bytes of a reference: the length of the value, and its CRC-32."""


class Outside(Protocol):
    """Where a page's large values lie, each under its family and key."""

    def get(self, family: str, key: bytes) -> bytes | None:
        """The value, or None."""

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """Write a value."""

    def delete(self, family: str, key: bytes) -> None:
        """Remove a value."""


class ReadOutside:
    """`Outside` of a page that is read where nothing is written: ``values`` by family and key."""

    def __init__(self, values: Mapping[tuple[str, bytes], bytes]) -> None:
        self._values = values

    def get(self, family: str, key: bytes) -> bytes | None:
        """See `Outside.get`."""
        return self._values.get((family, key))

    def put(self, family: str, key: bytes, value: bytes) -> NoReturn:
        """Nothing is written here."""
        raise NotImplementedError

    def delete(self, family: str, key: bytes) -> NoReturn:
        """Nothing is removed here."""
        raise NotImplementedError


def reference(value: bytes) -> bytes:
    """What the page keeps of a value that lies outside."""
    return _REFERENCE.pack(len(value), zlib.crc32(value))


def referred(outside: Outside | None, family: str, key: bytes, kept: bytes) -> bytes:
    """The value that a reference is of. Raises `PageError` where it is not there as it was."""
    if outside is None:
        raise _unread(family, key, _REFERENCE.unpack(kept)[0])
    value = outside.get(family, key)
    if value is None:
        raise _lost(family, kept, "no value")
    if reference(value) != kept:
        raise _lost(family, kept, f"{len(value):,} other bytes")
    return value


def check_size(family: str, key: bytes, value: bytes) -> None:
    """Raise `PageError` for a value that is larger than one may be."""
    if len(value) > LARGEST_OUTSIDE:
        raise PageError(
            "SM-PAGES-013",
            f"a value of {family} is larger than one may be",
            expected=f"at most {LARGEST_OUTSIDE:,} bytes",
            found=f"{len(value):,} bytes under the key {key.hex()}",
            next_action="keep less under one key: a list that is cut off, or a map in place of "
            "one large value; nothing of this batch was written",
            family=family,
        )


def _lost(family: str, kept: bytes, found: str) -> PageError:
    return PageError(
        "SM-PAGES-014",
        f"a value of {family} that lies outside of its page is not there as it was written",
        expected=f"{_REFERENCE.unpack(kept)[0]:,} bytes with their checksum",
        found=found,
        next_action="restore the checkpoint from a copy; nothing of this batch was written",
        family=family,
    )


def _unread(family: str, key: bytes, size: int) -> PageError:
    return PageError(
        "SM-PAGES-015",
        f"a value of {family} lies outside of its page, where it is not read from here",
        expected="values that lie in their pages",
        found=f"one of {size:,} bytes, of the key {key.hex()}",
        next_action="go on with the query itself, which reads it: what was called here cannot yet "
        f"with values above {LARGEST_INSIDE:,} bytes",
        family=family,
    )
