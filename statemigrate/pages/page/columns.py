"""The columns of a section as they lie in its bytes: read at once, woven together in stretches."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import lt

from statemigrate.pages.page.layout import Extent, damaged

NEVER = 0
"""The expiry of an entry that does not expire; others are milliseconds since the epoch."""


def is_over(moment: int, now: int) -> bool:
    """Whether what expires at ``moment`` is no longer there, as Spark has it."""
    return moment != NEVER and moment <= now


@dataclass(frozen=True)
class Columns:
    """Entries in order of their keys; ``starts`` and ``key_starts`` have one more, the end."""

    key_lengths: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    moments: tuple[int, ...] = ()
    """When each entry expires; empty where none does."""
    key_data: bytes = b""
    data: bytes = b""
    key_starts: Sequence[int] = (0,)
    starts: Sequence[int] = (0,)
    keys: list[bytes] = field(default_factory=list)

    def moment(self, at: int) -> int:
        """When an entry expires."""
        return self.moments[at] if self.moments else NEVER


def opened(extent: Extent, data: bytes) -> Columns:
    """The columns in a section's bytes. Raises `PageError` where they do not fit together."""
    count = extent.entries
    key_lengths = struct.unpack_from(f"<{count}I", data)
    lengths = struct.unpack_from(f"<{count}I", data, 4 * count)
    position = 8 * count
    moments: tuple[int, ...] = ()
    if extent.expires:
        moments = struct.unpack_from(f"<{count}q", data, position)
        position += 8 * count
    key_data = data[position : position + extent.key_bytes]
    key_starts = list(accumulate(key_lengths, initial=0))
    starts = list(accumulate(lengths, initial=0))
    if key_starts[-1] != extent.key_bytes or starts[-1] != extent.value_bytes:
        raise damaged(f"entries of {extent.name} that are longer or shorter than announced")
    keys = [key_data[start:end] for start, end in pairwise(key_starts)]
    if not all(map(lt, keys, keys[1:])):
        raise damaged(f"keys of {extent.name} that are not in order")
    values = data[position + extent.key_bytes :]
    return Columns(key_lengths, lengths, moments, key_data, values, key_starts, starts, keys)


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
        self._keys.append(old.key_data[old.key_starts[first] : old.key_starts[end]])
        self._values.append(old.data[old.starts[first] : old.starts[end]])

    def add(self, key: bytes, value: bytes, moment: int) -> None:
        """Put one entry behind what is there."""
        self._key_lengths.append(len(key))
        self._lengths.append(len(value))
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
        made = Extent(extent.name, extent.format, count, len(keys), len(values), bool(moments))
        return made, data
