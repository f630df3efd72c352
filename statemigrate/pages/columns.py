"""The columns of a section as they lie in its bytes, and new bytes out of stretches of them.

A visit that wants one entry of hundreds finds it in the bytes; keys are sliced out for those that
want many.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import lt
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from statemigrate.errors import PageError

# The header of a page and its list of families, in bytes; see the documentation's page format.
#
# A page comes out of a checkpoint, so every number in it is held against the bytes there are.


MAGIC = b"SMPG"
VERSION = 2
"""The newest version; a page without leaves has the first, byte for byte."""
_WITHOUT_LEAVES = 1
_FIXED = struct.Struct("<4sHI")
"""The magic, the format's version, the CRC-32 of everything behind the fixed part."""
_PAGE_ID = struct.Struct("<II16sH")
"""The number of pages, this page's number, the keys' fingerprint, how many families follow."""
_FAMILY = struct.Struct("<16sBIIIH")
"""The format's fingerprint, flags, entries, bytes of keys, bytes of values, bytes of the name."""
_LAYOUT_EXPIRES, _LAYOUT_OUTSIDE, _LAYOUT_LEAVES = 1, 2, 4
_LAYOUT_LENGTH, _TIMESTAMP_COLUMN = 4, 8


class PageId(NamedTuple):
    """Which page it is: one of ``pages``, for keys whose columns have the fingerprint ``keys``."""

    pages: int
    number: int
    keys: bytes


class Extent(NamedTuple):
    """One family in a page: how much it has, and the fingerprint of the format of its values.

    Of a family whose entries are in leaves the section is their directory, with an entry a leaf.
    """

    name: str
    format: bytes
    entries: int
    key_bytes: int
    value_bytes: int
    expires: bool
    outside: bool = False
    """Whether any value lies outside of the page."""
    in_leaves: bool = False
    """Whether the entries are in leaves, see `statemigrate.pages.page_leaves`."""

    @property
    def size(self) -> int:
        """The bytes of the family's section."""
        columns = 2 * _LAYOUT_LENGTH + (_TIMESTAMP_COLUMN if self.expires else 0)
        return self.entries * columns + self.key_bytes + self.value_bytes


def written(place: PageId, sections: Sequence[tuple[Extent, bytes]]) -> bytes:
    """The page of these sections, which are in order of their families' names."""
    parts = [_PAGE_ID.pack(place.pages, place.number, place.keys, len(sections))]
    for extent, _ in sections:
        name = extent.name.encode()
        flags = _LAYOUT_EXPIRES * extent.expires | _LAYOUT_OUTSIDE * extent.outside
        flags |= _LAYOUT_LEAVES * extent.in_leaves
        numbers = (extent.entries, extent.key_bytes, extent.value_bytes, len(name))
        parts += [_FAMILY.pack(extent.format, flags, *numbers), name]
    parts += [section for _, section in sections]
    body = b"".join(parts)
    version = VERSION if any(extent.in_leaves for extent, _ in sections) else _WITHOUT_LEAVES
    return _FIXED.pack(MAGIC, version, zlib.crc32(body)) + body


def read(data: bytes) -> tuple[PageId, list[tuple[Extent, bytes]]]:
    """Which page it is, and its sections. Raises `PageError` for one that is not a whole page."""
    known = _known_flags(data)
    try:
        pages, number, keys, families = _PAGE_ID.unpack_from(data, _FIXED.size)
        extents, position = _families(data, _FIXED.size + _PAGE_ID.size, families, known)
    except (struct.error, UnicodeDecodeError) as error:
        raise damaged(f"a list of families that cannot be read: {error}") from error
    size = sum(extent.size for extent in extents)
    if size != len(data) - position:
        raise damaged(f"{len(data) - position} bytes of entries where {size} are announced")
    names = [extent.name for extent in extents]
    if names != sorted(set(names)):
        raise damaged("families that are not in the order of their names")
    return PageId(pages, number, keys), list(_sections(data, position, extents))


def has_outside(data: bytes) -> bool:
    """Whether anything of a page lies outside of it; False too for bytes that `read` refuses."""
    try:
        *_, families = _PAGE_ID.unpack_from(data, _FIXED.size)
        known = _LAYOUT_EXPIRES | _LAYOUT_OUTSIDE | _LAYOUT_LEAVES
        extents, _ = _families(data, _FIXED.size + _PAGE_ID.size, families, known)
    except (struct.error, UnicodeDecodeError, PageError):
        return False
    return any(extent.outside or extent.in_leaves for extent in extents)


def _known_flags(data: bytes) -> int:
    """The flags that a family may have in a page of its version."""
    if len(data) < _FIXED.size or not data.startswith(MAGIC):
        raise damaged(f"{len(data)} bytes that begin with {data[:4]!r}")
    _, version, checksum = _FIXED.unpack_from(data)
    if version not in (_WITHOUT_LEAVES, VERSION):
        raise PageError(
            "SM-PAGES-011",
            "a page of state has a format that this release does not know",
            expected=f"version {_WITHOUT_LEAVES} or {VERSION}",
            found=f"version {version}",
            next_action="run the release of statemigrate that wrote it, or a later one",
            version=version,
        )
    if zlib.crc32(memoryview(data)[_FIXED.size :]) != checksum:
        raise damaged("bytes that do not have the checksum they were written with")
    known = _LAYOUT_EXPIRES | _LAYOUT_OUTSIDE
    return known if version == _WITHOUT_LEAVES else known | _LAYOUT_LEAVES


def _families(data: bytes, position: int, count: int, known: int) -> tuple[list[Extent], int]:
    extents = []
    for _ in range(count):
        fingerprint, flags, entries, keys, values, length = _FAMILY.unpack_from(data, position)
        position += _FAMILY.size
        name = data[position : position + length]
        position += length
        # A directory's own entries neither expire nor lie outside.
        is_known = not flags & ~known and flags in {flags & ~_LAYOUT_LEAVES, _LAYOUT_LEAVES}
        if len(name) != length or not is_known or not entries:
            raise damaged(f"a family of {entries} entries, flags {flags}, {length} bytes of name")
        each = (flags & flag for flag in (_LAYOUT_EXPIRES, _LAYOUT_OUTSIDE, _LAYOUT_LEAVES))
        numbers = entries, keys, values
        extents.append(Extent(name.decode(), fingerprint, *numbers, *map(bool, each)))
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


# Values that are too large for a page: they lie outside, and the page keeps what tells them.


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


def referred(
    outside: Outside | None, family: str, key: bytes, kept: bytes, *, what: str = "value"
) -> bytes:
    """The value that a reference is of, or ``what`` else it is to users.

    Raises `PageError` where it is not there as it was.
    """
    if outside is None:
        raise _unread(what, family, key, _REFERENCE.unpack(kept)[0])
    value = outside.get(family, key)
    if value is None:
        raise _lost(what, family, kept, f"no {what}")
    if reference(value) != kept:
        raise _lost(what, family, kept, f"{len(value):,} other bytes")
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


def _lost(what: str, family: str, kept: bytes, found: str) -> PageError:
    return PageError(
        "SM-PAGES-014",
        f"a {what} of {family} that lies outside of its page is not there as it was written",
        expected=f"{_REFERENCE.unpack(kept)[0]:,} bytes with their checksum",
        found=found,
        next_action="restore the checkpoint from a copy; nothing of this batch was written",
        family=family,
    )


def _unread(what: str, family: str, key: bytes, size: int) -> PageError:
    return PageError(
        "SM-PAGES-015",
        f"a {what} of {family} lies outside of its page, where it is not read from here",
        expected="values that lie in their pages",
        found=f"one of {size:,} bytes, of the key {key.hex()}",
        next_action="go on with the query itself, which reads it: what was called here cannot yet",
        family=family,
    )


NEVER = 0
"""The expiry of an entry that does not expire; others are milliseconds since the epoch."""
_LENGTH = 4
_LENGTHS = np.dtype("<u4")
_OUTSIDE = 1 << 31
"""Of a value's length: it is the one of a reference, and the value lies outside of the page."""


def is_over(expires_at: int, now: int) -> bool:
    """Whether what expires at ``expires_at`` is no longer there, as Spark has it."""
    return expires_at != NEVER and expires_at <= now


class Columns:
    """Entries in order of their keys; ``expiry_times`` is when each expires, empty where none does.

    ``outside`` has the places of those whose values are references to what lies outside.

    Raises `PageError` where lengths and bytes do not fit together.
    """

    __slots__ = (
        "_data",
        "_ends",
        "_first",
        "_keys",
        "_name",
        "count",
        "expiry_times",
        "key_lengths",
        "lengths",
        "outside",
    )

    def __init__(self, extent: Extent, data: bytes) -> None:
        self.count = count = extent.entries
        self._name, self._data = extent.name, data
        sizes: Any = np.frombuffer(data, _LENGTHS, 2 * count)
        view = memoryview(sizes)
        self.key_lengths, self.lengths = view[:count], view[count:]
        self._first = 2 * _LENGTH * count
        self.expiry_times: tuple[int, ...] = ()
        self.outside: frozenset[int] = frozenset()
        if extent.expires:
            self.expiry_times = struct.unpack_from(f"<{count}q", data, self._first)
            self._first += 8 * count
        if extent.outside:
            sizes = self._plain_sizes(extent, sizes)
        # The first value begins where the last key ends. NumPy adds up in a fraction of the time,
        # and its view has Python's own numbers.
        ends: Any = np.cumsum(sizes, dtype=np.int64)
        ends += self._first
        self._ends: Sequence[int] = memoryview(ends)
        bounds = (ends[count - 1], ends[-1]) if count else (self._first, self._first)
        if bounds != (self._first + extent.key_bytes, len(data)):
            raise damaged(f"entries of {extent.name} that are longer or shorter than announced")
        self._keys: list[bytes] | None = None

    def _plain_sizes(self, extent: Extent, sizes: Any) -> Any:
        marked = np.flatnonzero(sizes[self.count :] & _OUTSIDE).tolist()
        plain = sizes.copy()
        plain[self.count :] &= _OUTSIDE - 1
        if not marked or any(plain[self.count + at] != REFERENCE_SIZE for at in marked):
            raise damaged(f"values of {extent.name} outside of the page without a reference")
        self.outside = frozenset(marked)
        return plain

    @property
    def keys(self) -> list[bytes]:
        """All keys. Raises `PageError` where they are not in order."""
        if self._keys is None:
            # A caller that wants all keys asks for many values.
            data, self._ends = self._data, list(self._ends)
            bounds = pairwise([self._first, *self._ends[: self.count]])
            keys = [data[start:end] for start, end in bounds]
            if not all(map(lt, keys, keys[1:])):
                raise damaged(f"keys of {self._name} that are not in order")
            self._keys = keys
        return self._keys

    def key(self, at: int) -> bytes:
        """The key of an entry."""
        ends = self._ends
        return self._data[ends[at - 1] if at else self._first : ends[at]]

    def value(self, at: int) -> bytes:
        """The encoded value of an entry."""
        ends, at = self._ends, self.count + at
        return self._data[ends[at - 1] : ends[at]]

    def values_at(self, places: Sequence[int | None]) -> list[bytes | None]:
        """The encoded values of some entries; None for each None."""
        data, ends, count = self._data, self._ends, self.count
        return [
            None if at is None else data[ends[count + at - 1] : ends[count + at]] for at in places
        ]

    def values(self, first: int, end: int) -> list[bytes]:
        """The encoded values of some entries in a row."""
        if first >= end:
            return []
        data = self._data
        bounds = pairwise(self._ends[self.count + first - 1 : self.count + end])
        return [data[start:stop] for start, stop in bounds]

    def expires_at(self, at: int) -> int:
        """When an entry expires."""
        return self.expiry_times[at] if self.expiry_times else NEVER

    def index_of(self, key: bytes, first: int = 0) -> int:
        """The index at which ``key`` is or would be, from ``first`` on."""
        if self._keys is not None:
            return bisect_left(self._keys, key, first)
        return bisect_left(range(self.count), key, first, key=self.key)

    def find(self, key: bytes) -> int | None:
        """Where ``key`` is, None where it is not."""
        at = self.index_of(key)
        return at if at < self.count and self.key(at) == key else None

    def replaced(self, extent: Extent, values: list[tuple[int, bytes]]) -> tuple[Extent, bytes]:
        """The section's bytes with other values at some places, in order: the rest stays."""
        data, ends, first = self._data, self._ends, _LENGTH * self.count
        lengths = bytearray(data[first : 2 * first])
        parts: list[bytes | bytearray] = [data[:first], lengths]
        last, size = 2 * first, extent.value_bytes
        for at, value in values:
            struct.pack_into("<I", lengths, _LENGTH * at, len(value))
            start, end = ends[self.count + at - 1], ends[self.count + at]
            parts += (data[last:start], value)
            last = end
            size += len(value) - (end - start)
        parts.append(data[last:])
        return extent._replace(value_bytes=size), b"".join(parts)

    def stretches(self, size: int) -> list[tuple[int, int]]:
        """Where to cut the entries into stretches of about ``size`` bytes: first and end of each.

        None of them is larger than ``size`` and one entry.
        """
        lengths: Any = np.diff(np.asarray(self._ends, np.int64), prepend=self._first)
        so_far: Any = np.cumsum(lengths[: self.count] + lengths[self.count :] + 2 * _LENGTH)
        count = -(-int(so_far[-1]) // size)
        wanted = so_far[-1] * np.arange(1, count) // count
        cuts = np.unique(np.searchsorted(so_far, wanted, side="right")).tolist()
        return list(pairwise(sorted({0, *cuts, self.count})))

    def joined_keys(self, first: int, end: int) -> bytes:
        """The keys of some entries in a row, one behind the other."""
        return self._joined(first, end)

    def joined_values(self, first: int, end: int) -> bytes:
        """The values of some entries in a row, one behind the other."""
        return self._joined(self.count + first, self.count + end)

    def _joined(self, first: int, end: int) -> bytes:
        ends, begin = self._ends, self._first
        return self._data[ends[first - 1] if first else begin : ends[end - 1] if end else begin]


class ColumnMerge:
    """New columns out of stretches of old ones and single entries between them."""

    def __init__(self) -> None:
        self._key_lengths: list[int] = []
        self._lengths: list[int] = []
        self._expiry_times: list[int] = []
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def take(self, old: Columns, first: int, end: int) -> None:
        """Copy entries of ``old`` as they are."""
        self._key_lengths += old.key_lengths[first:end]
        self._lengths += old.lengths[first:end]
        self._expiry_times += old.expiry_times[first:end] or (NEVER,) * (end - first)
        self._keys.append(old.joined_keys(first, end))
        self._values.append(old.joined_values(first, end))

    def add(self, key: bytes, value: bytes, expires_at: int, *, is_reference: bool = False) -> None:
        """Put one entry behind what is there."""
        self._key_lengths.append(len(key))
        self._lengths.append(len(value) | (_OUTSIDE if is_reference else 0))
        self._expiry_times.append(expires_at)
        self._keys.append(key)
        self._values.append(value)

    def add_inside(self, entries: Sequence[tuple[bytes, tuple[bytes, int]]]) -> None:
        """Put several entries behind what is there: keys, values that lie inside, expiry times."""
        if not entries:
            return
        keys, changes = zip(*entries, strict=True)
        values, expiry_times = zip(*changes, strict=True)
        self._key_lengths += map(len, keys)
        self._lengths += map(len, values)
        self._expiry_times += expiry_times
        self._keys += keys
        self._values += values

    def to_bytes(self, extent: Extent) -> tuple[Extent, bytes]:
        """The section's bytes, which equal content has the same of."""
        count = len(self._lengths)
        expiry_times = self._expiry_times if any(self._expiry_times) else []
        keys, values = b"".join(self._keys), b"".join(self._values)
        data = b"".join(
            (
                struct.pack(f"<{count}I", *self._key_lengths),
                struct.pack(f"<{count}I", *self._lengths),
                struct.pack(f"<{len(expiry_times)}q", *expiry_times),
                keys,
                values,
            )
        )
        flags = bool(expiry_times), max(self._lengths, default=0) >= _OUTSIDE
        made = Extent(extent.name, extent.format, count, len(keys), len(values), *flags)
        return made, data


# A list in a page: an element behind the other, each with its length and when it expires.


_ELEMENTS_LENGTH = struct.Struct("<I")
_TIMESTAMP = struct.Struct("<q")
_EXPIRES = 1 << 31
"""In an element's length: the time at which it expires stands between length and element."""

Element = tuple[bytes, int]
"""An encoded element, and when it expires: milliseconds since the epoch, or `NEVER`."""


def joined(elements: Iterable[Element]) -> bytes:
    """The bytes of a list."""
    parts: list[bytes] = []
    for data, expires_at in elements:
        if expires_at == NEVER:
            parts += (_ELEMENTS_LENGTH.pack(len(data)), data)
        else:
            parts += (
                _ELEMENTS_LENGTH.pack(len(data) | _EXPIRES),
                _TIMESTAMP.pack(expires_at),
                data,
            )
    return b"".join(parts)


def elements_of(data: bytes) -> Iterator[Element]:
    """The elements of a list. Raises `PageError` for bytes that are no list."""
    position = 0
    while position < len(data):
        element, expires_at, position = _next(data, position)
        yield element, expires_at


def without_first_expired(data: bytes, now: int) -> bytes:
    """A list without the elements at its beginning that have expired."""
    position = 0
    while position < len(data):
        _, expires_at, end = _next(data, position)
        if not is_over(expires_at, now):
            break
        position = end
    return data[position:]


def last_to_expire(expiry_times: Iterable[int]) -> int:
    """When a list expires: with the last of its elements, if all of them do."""
    known = list(expiry_times)
    return NEVER if NEVER in known else max(known, default=NEVER)


def _next(data: bytes, position: int) -> tuple[bytes, int, int]:
    try:
        (length,) = _ELEMENTS_LENGTH.unpack_from(data, position)
        position += _ELEMENTS_LENGTH.size
        expires_at = NEVER
        if length & _EXPIRES:
            length ^= _EXPIRES
            (expires_at,) = _TIMESTAMP.unpack_from(data, position)
            position += _TIMESTAMP.size
    except struct.error as error:
        raise damaged("a list that ends within the length of an element") from error
    end = position + length
    if end > len(data):
        raise damaged("a list that ends within an element")
    return data[position:end], expires_at, end
