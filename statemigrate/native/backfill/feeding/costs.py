"""What live rows take and what chunks take, from what the last batches tell: pure.

Single batches vary by more than a chunk takes, and machines become slower and faster within
minutes. So what a chunk takes is told by its own batch where that is possible: tasks time what they
do for a backfill beside what they do for live rows, at the same moment of the same machine. What
they do not see, such as a file that Spark reads more, is learned slowly: each batch with a chunk is
held against the batches without one that are nearest to it, and the middle of many such comparisons
counts, so that no single batch leads. Where tasks tell nothing, that comparison is all there is.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import cached_property

from statemigrate.budget import Chunk
from statemigrate.native.backfill.feeding.batches import Batch

_KEPT = 80
"""Batches that are looked at."""
_NEAR = 3
"""Batches without a chunk that tell how fast the machine was around another."""
_ALIKE = 1.25
"""Batches whose numbers of rows are within this of each other are taken for alike."""
_OTHER = 1.3
"""Two batches without a chunk in a row that take so many times what was known begin anew."""
_SHIFTED, _IN_A_ROW = 2.0, 4
"""So many chunks in a row that cost so many times what was known, or less, begin anew."""
_LEAST = 0.02
"""Chunks that cannot be seen in their batches' time are taken for this part of it."""
_MOST = 0.9
"""The most of its batch that a chunk is taken for, whatever its tasks tell."""
_AROUND, _PRESUMED = 5, 4
"""Batches without a chunk that one with a chunk is held against, and how many chunks with nothing
beyond what tasks tell of them are presumed before the first."""


@dataclass(frozen=True)
class Costs:
    """The last batches, oldest first; each method of a change gives the costs that come next."""

    recent: tuple[Batch, ...] = ()

    @cached_property
    def alone(self) -> list[Batch]:
        """Those without a chunk."""
        return [batch for batch in self.recent if not batch.entries]

    def after(self, batch: Batch) -> Costs:
        """What is known after one more batch."""
        seen = Costs((*self.recent, batch)[-_KEPT:])
        if not batch.entries:
            # The machine or the rows are not what they were; what was seen says nothing any more.
            return seen._since(self.alone[-1]) if self._are_others(batch) else seen
        if seen._have_shifted() and not self.is_odd:
            return seen._without_chunks(_IN_A_ROW)
        return seen

    def without_chunks(self) -> Costs:
        """What is known of live rows alone."""
        return self._without_chunks(0)

    def live(self, rows: int) -> float | None:
        """What so many live rows take without a chunk, in milliseconds; None while not known."""
        return self._live.of(rows)

    def pace(self) -> float:
        """How long batches take now, as a multiple of what such ones take as a rule."""
        return self._pace(len(self.recent) - 1)

    def chunks(self) -> Chunk | None:
        """Entries and milliseconds of the chunks together, at the usual pace; None without any.

        What each takes whatever its size is not in it, as far as `fixed` tells it.
        """
        measured = self._measured
        if not measured:
            return None
        entries = sum(number for number, _ in measured)
        whole = sum(batch.milliseconds for batch in self.recent if batch.entries)
        return Chunk(entries, 0, max(_middle(measured) * entries, _LEAST * whole))

    @property
    def is_odd(self) -> bool:
        """Whether the last batch without a chunk was not as those before it."""
        return len(self.alone) > 1 and _otherness(self.alone[:-1], self.alone[-1]) != 0

    @property
    def is_doubtful(self) -> bool:
        """Whether the last chunks were not as those before: live rows may have changed instead."""
        return self._shift(_IN_A_ROW // 2) != 0

    def _are_others(self, batch: Batch) -> bool:
        before = self.alone[:-1]
        if not before:
            return False
        found = {_otherness(before, each) for each in (self.alone[-1], batch)}
        return found in ({1}, {-1})

    def _have_shifted(self) -> bool:
        if len(self._measured) <= _IN_A_ROW or not self._shift(_IN_A_ROW):
            return False
        # Only a batch without a chunk among them tells chunks from a machine that is slower now.
        places = [at for at, batch in enumerate(self.recent) if batch.entries][-_IN_A_ROW:]
        return len(self.recent) - places[0] > _IN_A_ROW

    def _shift(self, last: int) -> int:
        """1 where the last chunks cost more than those before, -1 for less, else 0."""
        known, new = self._measured[:-last], self._measured[-last:]
        if not known:
            return 0
        usual = _middle(known)
        if all(took > _SHIFTED * usual * number for number, took in new):
            return 1
        return -all(took * _SHIFTED < usual * number for number, took in new)

    @cached_property
    def _live(self) -> _Live:
        return _Live(self.alone)

    @cached_property
    def _measured(self) -> list[tuple[int, float]]:
        """Of each chunk its entries, and its milliseconds if the pace had been as usual."""
        return [
            (batch.entries, self._beside(batch, live) if batch.told else self._beyond(at, live))
            for at, batch in enumerate(self.recent)
            if batch.entries and (live := self.live(batch.rows)) is not None
        ]

    def _beyond(self, at: int, live: float) -> float:
        """A chunk's milliseconds, at the pace that the batches near it tell."""
        batch = self.recent[at]
        return batch.milliseconds / (self._pace(at) if batch.rows else 1.0) - live

    def _beside(self, batch: Batch, live: float) -> float:
        """A chunk's milliseconds, at the pace that the rest of its very batch tells."""
        took = min(batch.told + self.fixed, _MOST * batch.milliseconds)
        return batch.told * live / (batch.milliseconds - took)

    @cached_property
    def fixed(self) -> float:
        """What a chunk takes of a batch's time that tasks do not tell, however large it is.

        Live rows too take longer beside one, and that is its doing.
        """
        untold = [
            (at, each.entries, each.untold)
            for at, each in enumerate(self.recent)
            if each.untold is not None
        ]
        alone = [(at, took) for at, entries, took in untold if not entries]
        found = [
            took - statistics.median(other for _, other in _nearest(alone, at, _AROUND))
            for at, entries, took in untold
            if entries and alone
        ]
        if not found:
            return 0.0
        return max(0.0, statistics.median(found)) * len(found) / (len(found) + _PRESUMED)

    @cached_property
    def _paces(self) -> list[tuple[int, float]]:
        return [
            (at, batch.milliseconds / live)
            for at, batch in enumerate(self.recent)
            if not batch.entries and (live := self.live(batch.rows))
        ]

    def _pace(self, at: int) -> float:
        near = _nearest(self._paces, at, _NEAR)
        return statistics.median(pace for _, pace in near) if near else 1.0

    def _since(self, first: Batch) -> Costs:
        return replace(self, recent=self.recent[self.recent.index(first) :])

    def _without_chunks(self, but: int) -> Costs:
        places = [at for at, batch in enumerate(self.recent) if batch.entries]
        dropped = set(places[: len(places) - but])
        kept = (batch for at, batch in enumerate(self.recent) if at not in dropped)
        return replace(self, recent=tuple(kept))


class _Live:
    """What live rows take, from batches without a chunk."""

    def __init__(self, alone: list[Batch]) -> None:
        self._counts = [each.rows for each in alone]
        self._times = [each.milliseconds for each in alone]

    def of(self, rows: int) -> float | None:
        """Milliseconds of so many rows; None while that is not known."""
        if not rows:
            return 0.0
        if not self._times:
            return None
        if max(self._counts) <= _ALIKE * min(self._counts):
            return self._usual
        slope, start = self._line
        least, most = min(self._times) / 2, 2 * max(self._times)
        return min(max(least, start + max(0.0, slope) * rows), most)

    @cached_property
    def _usual(self) -> float:
        return statistics.median(self._times)

    @cached_property
    def _line(self) -> tuple[float, float]:
        return statistics.linear_regression(self._counts, self._times)


def _otherness(known: list[Batch], batch: Batch) -> int:
    """1 where a batch without a chunk took much longer than such ones, -1 for less, else 0."""
    usual = _Live(known).of(batch.rows)
    if usual is None or usual / _OTHER <= batch.milliseconds <= usual * _OTHER:
        return 0
    return 1 if batch.milliseconds > usual else -1


def _nearest(known: list[tuple[int, float]], at: int, many: int) -> list[tuple[int, float]]:
    return sorted(known, key=lambda each: abs(each[0] - at))[:many]


def _middle(measured: list[tuple[int, float]]) -> float:
    """Milliseconds an entry: the median of the chunks', in which large ones count for more."""
    ordered = sorted((took / number, number) for number, took in measured)
    half, passed = sum(number for _, number in ordered) / 2, 0
    for cost, number in ordered:
        passed += number
        if passed >= half:
            return cost
    raise AssertionError("there is no chunk")
