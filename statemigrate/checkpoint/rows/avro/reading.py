"""Many rows that are read side by side, each from where the last field of it has ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statemigrate.checkpoint.rows.avro.varints import read_varints
from statemigrate.checkpoint.rows.buffers import Bytes, Integers, within
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged


@dataclass(frozen=True)
class Cursors:
    """A place within each row of ``data``, up to its limit; reading moves the places on."""

    data: Bytes
    places: Integers
    limits: Integers

    def numbers(self, rows: Integers, what: str) -> Integers:
        """The next number of variable length of each of the rows."""
        found, places = read_varints(self.data, self.places[rows], self.limits[rows], what)
        self.places[rows] = places
        return found

    def matrix(self, rows: Integers, width: int, what: str) -> Bytes:
        """The next ``width`` bytes of each of the rows."""
        widths = np.full(rows.size, width)
        starts = self.skip(rows, widths, what)
        return within(self.data, starts, widths).data.reshape(rows.size, width)

    def skip(self, rows: Integers, widths: Integers, what: str) -> Integers:
        """Where the next ``widths`` bytes of each of the rows begin, which are passed over."""
        starts = self.places[rows]
        if bool(((widths < 0) | (widths > self.limits[rows] - starts)).any()):
            raise damaged(what, "bytes within the row", "more than it has")
        self.places[rows] += widths
        return starts

    def left(self, rows: Integers) -> Integers:
        """The bytes that each of the rows still has."""
        return self.limits[rows] - self.places[rows]
