"""Values of which each holds any number of parts, one behind the other, as lists are merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from statemigrate.checkpoint.rows.buffers import Integers
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged
from statemigrate.checkpoint.rows.wrapped.splitting import LENGTH, Spans

_FEW = 64
"""So many lists that are longer than all others are read one at a time."""
_Found = tuple[Integers, Integers, Integers]


@dataclass(frozen=True)
class Repeated:
    """A part is ``before`` bytes, its length and its content; between two is the ``delimiter``.

    ``what`` names them in errors.
    """

    before: int
    delimiter: bytes
    what: str

    def parts(self, spans: Spans) -> tuple[Spans, Integers]:
        """The contents of all parts, and the index of the span that each is of, which rises.

        Raises `CorruptFileError`.
        """
        owners = np.flatnonzero(spans.lengths > 0)
        rest = spans.at(owners)
        found: list[_Found] = []
        while owners.size > _FEW:
            content, behind = rest.behind(self.before, self.what).split(self.what)
            found.append((content.starts, content.lengths, owners))
            more = np.flatnonzero(behind.lengths > 0)
            owners, rest = owners[more], behind.at(more).without(self.delimiter, self.what)
        for index, owner in enumerate(owners.tolist()):
            found.append(self._one(rest.at(np.array([index])), owner))
        return _in_order(spans, found)

    def _one(self, span: Spans, owner: int) -> _Found:
        """The parts of one span, one after the other."""
        place, starts, lengths = int(span.starts[0]), [], []
        end = place + int(span.lengths[0])
        data = span.data.data
        while True:
            start = place + self.before + LENGTH
            length = int.from_bytes(data[start - LENGTH : min(start, end)], "little", signed=True)
            if start > end or not 0 <= length <= end - start:
                raise damaged(self.what, "a length within the bytes there are", "another")
            starts.append(start)
            lengths.append(length)
            place = start + length
            if place == end:
                found = np.array(starts, np.int64), np.array(lengths, np.int64)
                return *found, np.full(len(starts), owner)
            if bytes(data[place : place + len(self.delimiter)]) != self.delimiter:
                raise damaged(self.what, f"{self.delimiter!r} between two parts", "another byte")
            place += len(self.delimiter)


def _in_order(spans: Spans, found: list[_Found]) -> tuple[Spans, Integers]:
    if not found:
        return spans.at(np.zeros(0, np.int64)), np.zeros(0, np.int64)
    starts, lengths, owners = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(owners, kind="stable")
    return replace(spans, starts=starts[order], lengths=lengths[order]), owners[order]
