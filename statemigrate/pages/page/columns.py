"""The columns of a section as they lie in its bytes, and new bytes out of stretches of them.

A visit that wants one entry of hundreds finds it in the bytes; keys are sliced out for those that
want many.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from operator import lt
from typing import Any

import numpy as np

from statemigrate.pages.page.layout import Extent, damaged
from statemigrate.pages.page.outside import REFERENCE_SIZE

NEVER = 0
"""The expiry of an entry that does not expire; others are milliseconds since the epoch."""
_LENGTH = 4
_LENGTHS = np.dtype("<u4")
_OUTSIDE = 1 << 31
"""Of a value's length: it is the one of a reference, and the value lies outside of the page."""


def is_over(moment: int, now: int) -> bool:
    """Whether what expires at ``moment`` is no longer there, as Spark has it."""
    return moment != NEVER and moment <= now


class Columns:
    """Entries in order of their keys; ``moments`` is when each expires, empty where none does.

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
        "key_lengths",
        "lengths",
        "moments",
        "outside",
    )

    def __init__(self, extent: Extent, data: bytes) -> None:
        self.count = count = extent.entries
        self._name, self._data = extent.name, data
        sizes: Any = np.frombuffer(data, _LENGTHS, 2 * count)
        view = memoryview(sizes)
        self.key_lengths, self.lengths = view[:count], view[count:]
        self._first = 2 * _LENGTH * count
        self.moments: tuple[int, ...] = ()
        self.outside: frozenset[int] = frozenset()
        if extent.expires:
            self.moments = struct.unpack_from(f"<{count}q", data, self._first)
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
            # Whoever wants all keys asks for many values.
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

    def moment(self, at: int) -> int:
        """When an entry expires."""
        return self.moments[at] if self.moments else NEVER

    def place(self, key: bytes, first: int = 0) -> int:
        """Where ``key`` is or would be, which is not before ``first``."""
        if self._keys is not None:
            return bisect_left(self._keys, key, first)
        return bisect_left(range(self.count), key, first, key=self.key)

    def find(self, key: bytes) -> int | None:
        """Where ``key`` is, None where it is not."""
        at = self.place(key)
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

    def joined_keys(self, first: int, end: int) -> bytes:
        """The keys of some entries in a row, one behind the other."""
        return self._joined(first, end)

    def joined_values(self, first: int, end: int) -> bytes:
        """The values of some entries in a row, one behind the other."""
        return self._joined(self.count + first, self.count + end)

    def _joined(self, first: int, end: int) -> bytes:
        ends, begin = self._ends, self._first
        return self._data[ends[first - 1] if first else begin : ends[end - 1] if end else begin]


class Weaving:
    """New columns out of stretches of old ones and single entries between them."""

    def __init__(self, old: Columns) -> None:
        self._old = old
        self._key_lengths: list[int] = []
        self._lengths: list[int] = []
        self._moments: list[int] = []
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def take(self, first: int, end: int) -> None:
        """Copy old entries as they are."""
        old = self._old
        self._key_lengths += old.key_lengths[first:end]
        self._lengths += old.lengths[first:end]
        self._moments += old.moments[first:end] or (NEVER,) * (end - first)
        self._keys.append(old.joined_keys(first, end))
        self._values.append(old.joined_values(first, end))

    def add(self, key: bytes, value: bytes, moment: int, *, is_reference: bool = False) -> None:
        """Put one entry behind what is there."""
        self._key_lengths.append(len(key))
        self._lengths.append(len(value) | (_OUTSIDE if is_reference else 0))
        self._moments.append(moment)
        self._keys.append(key)
        self._values.append(value)

    def woven(self, extent: Extent) -> tuple[Extent, bytes]:
        """The section's bytes, which equal content has the same of."""
        count = len(self._lengths)
        moments = self._moments if any(self._moments) else []
        keys, values = b"".join(self._keys), b"".join(self._values)
        data = b"".join(
            (
                struct.pack(f"<{count}I", *self._key_lengths),
                struct.pack(f"<{count}I", *self._lengths),
                struct.pack(f"<{len(moments)}q", *moments),
                keys,
                values,
            )
        )
        flags = bool(moments), max(self._lengths, default=0) >= _OUTSIDE
        made = Extent(extent.name, extent.format, count, len(keys), len(values), *flags)
        return made, data
