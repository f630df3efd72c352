"""Bytes that are cut into parts at places that they tell themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows, within
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged

VERSION = b"\0"
"""The version of the encoding of rows in RocksDB, in front of each."""
LENGTH = 4
"""Bytes of a length within a key or a value."""


@dataclass(frozen=True)
class Spans:
    """``n`` runs of bytes within ``data``: not copied, and not next to each other."""

    data: Bytes
    starts: Integers
    lengths: Integers

    @staticmethod
    def of(rows: Rows) -> Spans:
        """Whole rows."""
        return Spans(rows.data, rows.starts, rows.lengths)

    def at(self, indices: Integers) -> Spans:
        """Those at ``indices``, in their order."""
        return Spans(self.data, self.starts[indices], self.lengths[indices])

    def rows(self) -> Rows:
        """The bytes, copied end to end."""
        return within(self.data, self.starts, self.lengths)

    def matrix(self, width: int, what: str) -> Bytes:
        """The first ``width`` bytes of each; `CorruptFileError` where there are fewer."""
        if self.lengths.size and int(self.lengths.min()) < width:
            raise damaged(what, f"at least {width} bytes", f"{int(self.lengths.min())} bytes")
        first = within(self.data, self.starts, np.full(self.starts.size, width))
        return first.data.reshape(self.starts.size, width)

    def behind(self, width: int, what: str) -> Spans:
        """What follows the first ``width`` bytes; `CorruptFileError` where there are fewer."""
        if self.lengths.size and int(self.lengths.min()) < width:
            raise damaged(what, f"at least {width} bytes", f"{int(self.lengths.min())} bytes")
        return Spans(self.data, self.starts + width, self.lengths - width)

    def without(self, first: bytes, what: str) -> Spans:
        """What follows the bytes ``first``; `CorruptFileError` where others come first."""
        found = self.matrix(len(first), what)
        if not bool(np.all(found == np.frombuffer(first, np.uint8))):
            raise damaged(what, f"bytes that begin with {first.hex()}", "others")
        return self.behind(len(first), what)

    def split(self, what: str) -> tuple[Spans, Spans]:
        """A part that begins with its length, little-endian, and what follows it.

        Raises `CorruptFileError` for a length that is none.
        """
        lengths = self.matrix(LENGTH, what).view("<i4")[:, 0].astype(np.int64)
        rest = self.behind(LENGTH, what)
        if bool(((lengths < 0) | (lengths > rest.lengths)).any()):
            raise damaged(what, "a length within the bytes there are", "another")
        first = Spans(self.data, rest.starts, lengths)
        return first, Spans(self.data, rest.starts + lengths, rest.lengths - lengths)


def length_of(rows: Rows) -> Bytes:
    """The length of each row as it is written in front of it."""
    return rows.lengths.astype("<i4").view(np.uint8).reshape(-1, LENGTH)
