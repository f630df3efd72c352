"""The entries of a family that are too many for one section: in leaves, next to the page.

A page is read and written as a whole, so it must stay small however many keys come. Where a family
has more than 256 KiB in a page, its entries are cut into *leaves* of some 16 KiB with neighbouring
keys, as in a B+ tree with two levels. Leaves are in the same map of Spark's state as large values,
and the page has their directory. A visit reads and writes the leaves whose keys are asked for. They
are cut in two when they grow, and joined when they shrink.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from typing import Any, NamedTuple

import numpy as np

from statemigrate.families import Span
from statemigrate.pages.columns import (
    NEVER,
    ColumnMerge,
    Columns,
    Extent,
    Outside,
    PageId,
    damaged,
    last_to_expire,
    read,
    referred,
    written,
)
from statemigrate.pages.section import Section

PREFIX = "@leaves/"
"""What a family's name follows where its leaves are written, each under its number."""
_LEAF = np.dtype(
    [
        *((name, "<u4") for name in ("number", "entries", "size", "checksum")),
        ("expires_at", "<i8"),
    ]
)
"""A leaf in the directory, under its first key."""
_NUMBER = struct.Struct(">I")
_LEAVES_A_SEARCH = 16
"""One look into the directory's bytes for so many leaves, before all first keys are sliced out."""
_FEWEST = 2
"""Leaves; one alone is the section itself."""


class Splitting(NamedTuple):
    """Sizes in bytes: of a ``page`` that stays whole, and of a ``leaf`` that is made.

    A leaf is cut when it has grown to two of them, and joined with a neighbour where it has less
    than a quarter of one left. A family of no more than two leaves stays in its page.
    """

    page: int = 256 << 10
    leaf: int = 16 << 10


SPLITTING = Splitting()


class LeafEntry(NamedTuple):
    """A leaf of a directory: its index there, its number, and what its bytes must be."""

    at: int
    number: int
    entries: int
    size: int
    checksum: int
    expires_at: int
    """When the last of its entries does."""


class _Piece(NamedTuple):
    """A section's bytes that become a leaf."""

    extent: Extent
    data: bytes

    @property
    def size(self) -> int:
        return self.extent.size


_Part = LeafEntry | _Piece


class _Replacement(NamedTuple):
    """What comes in place of leaves that stand side by side."""

    indexes: range
    parts: list[_Part]


class Directory:
    """The leaves of a section, in the order of their keys. Raises `PageError` for a damaged one."""

    def __init__(self, extent: Extent, data: bytes) -> None:
        self.columns = Columns(extent, data)
        if {*self.columns.lengths} - {_LEAF.itemsize}:
            raise damaged(f"a directory of {extent.name} with entries of other sizes")
        self._facts: Any = np.frombuffer(
            data, _LEAF, extent.entries, len(data) - extent.value_bytes
        )
        numbers = self._facts["number"]
        if np.unique(numbers).size != numbers.size or not self._facts["entries"].all():
            raise damaged(f"a directory of {extent.name} with a leaf twice, or an empty one")
        self._singly = len(self) // _LEAVES_A_SEARCH

    def __len__(self) -> int:
        return self.columns.count

    def leaf(self, index: int) -> LeafEntry:
        """One of them."""
        return LeafEntry(index, *self._facts[index].tolist())

    def index_of(self, key: bytes) -> int:
        """The index of the leaf that has a key, or would have it."""
        if not self._singly:
            return max(bisect_right(self.columns.keys, key) - 1, 0)
        self._singly -= 1
        at = self.columns.index_of(key)
        is_first = at < len(self) and self.columns.key(at) == key
        return at if is_first else max(at - 1, 0)

    def expired(self, now: int) -> list[int]:
        """The indexes of leaves whose entries have all expired."""
        expiry_times = self._facts["expires_at"]
        found: list[int] = np.flatnonzero((expiry_times != NEVER) & (expiry_times <= now)).tolist()
        return found

    @property
    def entries(self) -> int:
        """How many entries all leaves have."""
        return int(self._facts["entries"].sum(dtype=np.int64))

    @property
    def size(self) -> int:
        """The bytes of all leaves."""
        return int(self._facts["size"].sum(dtype=np.int64))

    @property
    def next_number(self) -> int:
        """A number that no leaf has, nor any above it."""
        return int(self._facts["number"].max()) + 1 if len(self) else 0


def entries_of(extent: Extent, data: bytes) -> int:
    """How many entries a family has in a page."""
    return Directory(extent, data).entries if extent.in_leaves else extent.entries


def size_of_leaves(extent: Extent, data: bytes) -> int:
    """The bytes of a family's leaves."""
    return Directory(extent, data).size if extent.in_leaves else 0


class SplitSection:
    """A family's entries in leaves, each read when a key of it is asked for; see `Section`.

    ``count`` has those of unread leaves, too, that have expired.
    """

    def __init__(
        self,
        page_id: PageId,
        extent: Extent,
        data: bytes,
        outside: Outside | None,
        splitting: Splitting,
    ) -> None:
        self._directory = Directory(extent, data)
        self._stored = extent, data
        self._outside = outside
        self._store = _LeafStore(page_id, extent.name, extent.format, splitting)
        self.count = self._directory.entries
        self._open: dict[int, Section] = {}
        # Of the key that was asked for last: it is often read and written.
        self._key: bytes | None = None
        self._section: Section | None = None
        self._now: int | None = None
        self._made: tuple[Extent, bytes] | None = None

    @property
    def is_changed(self) -> bool:
        """See `Section.is_changed`."""
        return any(section.is_changed for section in self._open.values())

    def get(self, key: bytes) -> bytes | None:
        """See `Section.get`. Raises `PageError` where the leaf is not there as it was written."""
        return self._with(key).get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Section.get_many`."""
        return list(map(self.get, keys))

    def expiry(self, key: bytes) -> int:
        """See `Section.expiry`."""
        return self._with(key).expiry(key)

    def contains(self, key: bytes) -> bool:
        """See `Section.contains`."""
        return self._with(key).contains(key)

    def put(self, key: bytes, value: bytes, expiry: int = NEVER) -> None:
        """See `Section.put`."""
        section = self._with(key)
        self.count -= section.count
        section.put(key, value, expiry)
        self.count += section.count

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes], expiry: int = NEVER) -> None:
        """See `Section.put_many`."""
        for key, value in zip(keys, values, strict=True):
            self.put(key, value, expiry)

    def delete_many(self, keys: Sequence[bytes]) -> None:
        """See `Section.delete_many`."""
        for key in keys:
            self.delete(key)

    def delete(self, key: bytes) -> None:
        """See `Section.delete`."""
        section = self._with(key)
        self.count -= section.count
        section.delete(key)
        self.count += section.count

    def scan(self, span: Span) -> list[tuple[bytes, bytes]]:
        """See `Section.scan`: only leaves that may have such keys are read."""
        directory = self._directory
        first = 0 if span.lower is None else directory.index_of(span.lower)
        end = len(directory) if span.upper is None else directory.columns.index_of(span.upper)
        # Keys before the first leaf's first one are put into it.
        indexes = range(first, max(end, 1))
        ascending = Span(span.lower, span.upper)
        found = [entry for at in indexes for entry in self._opened(at).scan(ascending)]
        return found[::-1] if span.reverse else found

    def drop_expired(self, now: int) -> None:
        """See `Section.drop_expired`: of leaves that are read, and of those with nothing left.

        In others they stay, as in a page that is not visited, until the last of them expires.
        """
        self._now = now
        for section in self._open.values():
            self._drop_expired(section)
        for index in self._directory.expired(now):
            self._opened(index)

    def first(self) -> bytes | None:
        """See `Section.first`."""
        found = (self._opened(at).first() for at in range(len(self._directory)))
        return next((key for key in found if key is not None), None)

    def written(self) -> tuple[Extent, bytes]:
        """The directory's bytes after `write_outside`, or the section's where it is whole again."""
        if not self.is_changed:
            return self._stored
        assert self._made is not None, "leaves were written"  # noqa: S101
        return self._made

    def write_outside(self) -> None:
        """Write the leaves that have changed, with their large values, and remove the others."""
        if self._outside is None or not self.is_changed:
            return
        pieces: dict[int, list[_Piece]] = {}
        for index, section in self._open.items():
            if section.is_changed:
                section.write_outside()
                pieces[index] = list(self._store.cut(*section.written()))
        self._made = self._store.write(self._replacements(pieces), self._directory, self._outside)

    def _replacements(self, pieces: Mapping[int, list[_Piece]]) -> list[_Replacement]:
        """What comes in the place of leaves that have changed, joined with neighbours if small."""
        small = [index for index, made in pieces.items() if any(map(self._store.is_small, made))]
        near = {index + step for index in small for step in (-1, 1)}
        parts: dict[int, Sequence[_Part]] = {
            index: [self._directory.leaf(index)]
            for index in near
            if 0 <= index < len(self._directory)
        }
        parts.update(pieces)
        replacements = []
        for _, group in groupby(enumerate(sorted(parts)), lambda each: each[1] - each[0]):
            indexes = [index for _, index in group]
            joined = self._joined(part for index in indexes for part in parts[index])
            replacements.append(_Replacement(range(indexes[0], indexes[-1] + 1), joined))
        return replacements

    def _joined(self, parts: Iterable[_Part]) -> list[_Part]:
        """The parts, the small ones joined with a neighbour."""
        found: list[_Part] = []
        for part in parts:
            if found and self._store.are_joined(found[-1], part):
                found[-1] = self._store.joined(self._piece(found[-1]), self._piece(part))
            else:
                found.append(part)
        return found

    def _piece(self, part: _Part) -> _Piece:
        return part if isinstance(part, _Piece) else self._read(part)

    def _with(self, key: bytes) -> Section:
        """The leaf that has the key, or would have it."""
        if self._section is None or key != self._key:
            self._key, self._section = key, self._opened(self._directory.index_of(key))
        return self._section

    def _opened(self, index: int) -> Section:
        section = self._open.get(index)
        if section is None:
            section = Section(*self._read(self._directory.leaf(index)), self._outside)
            self._open[index] = section
            self._drop_expired(section)
        return section

    def _drop_expired(self, section: Section) -> None:
        if self._now is not None:
            self.count -= section.count
            section.drop_expired(self._now)
            self.count += section.count

    def _read(self, leaf: LeafEntry) -> _Piece:
        return self._store.read(leaf, self._outside)


def split(
    page_id: PageId,
    sections: Mapping[str, tuple[Extent, bytes]],
    outside: Outside,
    splitting: Splitting,
) -> dict[str, tuple[Extent, bytes]]:
    """The directories of families whose leaves were written, as the page was too large with them.

    ``sections`` are all of the page. The largest are the first to go.
    """
    size = sum(extent.size for extent, _ in sections.values())
    found = {}
    for name, (extent, data) in sorted(sections.items(), key=lambda item: -item[1][0].size):
        if size <= splitting.page or extent.size <= 2 * splitting.leaf:
            break
        if not extent.in_leaves and extent.entries >= _FEWEST:
            store = _LeafStore(page_id, name, extent.format, splitting)
            whole = _Replacement(range(0), list(store.cut(extent, data)))
            found[name] = store.write([whole], Directory(store.nothing, b""), outside)
            size += found[name][0].size - extent.size
    return found


class _LeafStore(NamedTuple):
    """Reads, cuts, joins and writes the leaves of a family in a page."""

    page_id: PageId
    name: str
    format: bytes
    splitting: Splitting

    def read(self, leaf: LeafEntry, outside: Outside | None) -> _Piece:
        number = _NUMBER.pack(leaf.number)
        kept = struct.pack("<II", leaf.size, leaf.checksum)
        data = referred(outside, PREFIX + self.name, number, kept, what="leaf")
        page_id, sections = read(data)
        wanted = self.page_id, [(self.name, self.format, leaf.entries)]
        found = page_id, [(each.name, each.format, each.entries) for each, _ in sections]
        if found != wanted or sections[0][0].in_leaves:
            raise damaged(f"a leaf of {self.name} that belongs to another page or family")
        return _Piece(*sections[0])

    def cut(self, extent: Extent, data: bytes) -> Iterator[_Piece]:
        """The section in pieces, as it is where it is not too large for a leaf."""
        if extent.size <= 2 * self.splitting.leaf:
            yield from [_Piece(extent, data)] if extent.entries else []
            return
        columns = Columns(extent, data)
        for first, end in columns.stretches(self.splitting.leaf):
            merge = ColumnMerge()
            merge.take(columns, first, end)
            yield _Piece(*merge.to_bytes(extent))

    def is_small(self, piece: _Piece) -> bool:
        """Whether a leaf is joined with a neighbour that has room for it."""
        return piece.size < self.splitting.leaf // 4

    def are_joined(self, one: _Part, other: _Part) -> bool:
        """Whether one of them has changed and become small, and the other has room for it."""
        are_small = (isinstance(part, _Piece) and self.is_small(part) for part in (one, other))
        return any(are_small) and one.size + other.size <= self.splitting.leaf

    def joined(self, one: _Piece, other: _Piece) -> _Piece:
        merge = ColumnMerge()
        for extent, data in (one, other):
            merge.take(Columns(extent, data), 0, extent.entries)
        return _Piece(*merge.to_bytes(one.extent))

    def write(
        self, replacements: Sequence[_Replacement], before: Directory, outside: Outside
    ) -> tuple[Extent, bytes]:
        """Write pieces as leaves in the place of those there were before: the new directory.

        One piece alone, or none, is the section itself.
        """
        parts = [part for each in replacements for part in each.parts]
        indexes = [index for each in replacements for index in each.indexes]
        remain = {part.at for part in parts if isinstance(part, LeafEntry)}
        free = iter([before.leaf(index).number for index in indexes if index not in remain])
        alone = parts[0] if len(before) - len(indexes) + len(parts) == 1 and parts else None
        if isinstance(alone, _Piece):
            made = alone
        else:
            numbers = chain(free, count(before.next_number))
            made = self._directory(replacements, before, numbers, outside)
        for number in free:
            outside.delete(PREFIX + self.name, _NUMBER.pack(number))
        return made

    def _directory(
        self,
        replacements: Sequence[_Replacement],
        before: Directory,
        numbers: Iterator[int],
        outside: Outside,
    ) -> _Piece:
        merge, last = ColumnMerge(), 0
        for each in replacements:
            merge.take(before.columns, last, each.indexes.start)
            for part in each.parts:
                if isinstance(part, LeafEntry):
                    merge.take(before.columns, part.at, part.at + 1)
                else:
                    merge.add(*self._written(part, next(numbers), outside), NEVER)
            last = each.indexes.stop
        merge.take(before.columns, last, len(before))
        extent, data = merge.to_bytes(self.nothing)
        return _Piece(extent._replace(in_leaves=bool(extent.entries)), data)

    def _written(self, piece: _Piece, number: int, outside: Outside) -> tuple[bytes, bytes]:
        """The entry of the directory for a leaf, which is written."""
        data, columns = written(self.page_id, [piece]), Columns(*piece)
        outside.put(PREFIX + self.name, _NUMBER.pack(number), data)
        expires_at = last_to_expire(columns.expiry_times)
        facts = number, columns.count, len(data), zlib.crc32(data), expires_at
        return columns.key(0), np.array(facts, _LEAF).tobytes()

    @property
    def nothing(self) -> Extent:
        return Extent(self.name, self.format, 0, 0, 0, expires=False)
