"""The size of the next chunk, from what recent batches took.

What live rows take and what chunks take, from what the last batches tell: pure.

Single batches vary by more than a chunk takes, and machines become slower and faster within
minutes. So a chunk's time is measured in its own batch where that is possible: tasks time what they
do for a backfill and what they do for live rows, at the same time on the same machine. What
they do not see, such as a file that Spark reads more, is learned slowly: each batch with a chunk is
held against the batches without one that are nearest to it, and the middle of many such comparisons
counts, so that no single batch leads. Where tasks tell nothing, that comparison is all there is.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from functools import cached_property

from statemigrate.budget import BackfillOptions, Chunk, Tuner
from statemigrate.native.chunks import BackfillLimits
from statemigrate.native.deployed_variables import Work

# The figures of a batch, and the interval of the trigger that starts batches.


_GRAIN = 100.0
"""Milliseconds; intervals of triggers are taken for multiples of it."""
_LATE = 0.05
"""How late a batch starts at most after its trigger, as a part of the interval."""


@dataclass(frozen=True)
class Batch:
    """A batch: when it ``began`` (ms since 1970), how long it took, and what was in it.

    ``rows`` are the stream's own, ``entries`` what its chunk asked to be migrated: 0 without one.
    ``work`` is what its tasks reported, None where they reported nothing.
    """

    began: float
    milliseconds: float
    rows: int
    entries: int = 0
    work: Work | None = None

    @property
    def ended(self) -> float:
        """When it was over, in milliseconds since 1970."""
        return self.began + self.milliseconds

    @property
    def reported_ms(self) -> float:
        """Milliseconds of its chunk by the tasks' reports; 0 where they report nothing."""
        return 0.0 if self.work is None or not self.rows else self.work.asked_by_clock

    @property
    def unreported(self) -> float | None:
        """What it took beyond what its tasks report of its chunk; None where they report none."""
        if self.work is None or not self.rows:
            return None
        return self.milliseconds - self.reported_ms


@dataclass(frozen=True)
class Trigger:
    """What batches tell of their trigger: ``interval`` in milliseconds, None while it has none.

    Spark tells nobody what a query was started with. With ``processingTime`` a batch that is not
    late starts at a multiple of the interval since 1970; two in a row, with a pause in between,
    tell it. ``period`` is how long it takes from start to start, smoothed.
    """

    interval: float | None = None
    period: float | None = None
    last: Batch | None = None
    waited: bool = False
    """Whether there was a pause before the last batch, as there is none after a late one."""

    def after(self, batch: Batch) -> Trigger:
        """What is known after one more batch."""
        last = self.last
        if last is None or batch.began <= last.began:
            return replace(self, last=batch, waited=False)
        gap = batch.began - last.began
        period = gap if self.period is None else 0.4 * gap + 0.6 * self.period
        waited = batch.began > last.ended + _GRAIN / 2
        interval = self._interval(last, batch) if waited and self.waited else self.interval
        return Trigger(interval, period, batch, waited)

    def missed(self, batch: Batch) -> bool:
        """Whether the next trigger came while the batch was running."""
        return self.interval is not None and batch.milliseconds > self.interval

    def _interval(self, last: Batch, batch: Batch) -> float | None:
        gap = round((batch.began - last.began) / _GRAIN) * _GRAIN
        if gap <= 0 or not all(_on_time(each, gap) for each in (last, batch)):
            return self.interval
        return gap if self.interval is None else min(gap, self.interval)


def _on_time(batch: Batch, interval: float) -> bool:
    return batch.began % interval <= _LATE * interval


_REMEMBERED_BATCHES = 80
"""Batches that are looked at."""
_NEAR = 3
"""Batches without a chunk that show how fast the machine was around another."""
_ALIKE = 1.25
"""Batches whose numbers of rows are within this of each other are taken for alike."""
_OTHER = 1.3
"""Two batches in a row, without a chunk, that take so many times the estimate start a new one."""
_SHIFTED, _IN_A_ROW = 2.0, 4
"""So many chunks in a row that cost so many times the estimate, or less, start a new one."""
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
        observed = Costs((*self.recent, batch)[-_REMEMBERED_BATCHES:])
        if not batch.entries:
            # The machine or the rows are not what they were; what was seen says nothing any more.
            return observed._since(self.alone[-1]) if self._are_others(batch) else observed
        if observed._have_shifted() and not self.is_odd:
            return observed._without_chunks(_IN_A_ROW)
        return observed

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
            (
                batch.entries,
                self._chunk_ms_at_pace_of_batch(batch, live)
                if batch.reported_ms
                else self._beyond(at, live),
            )
            for at, batch in enumerate(self.recent)
            if batch.entries and (live := self.live(batch.rows)) is not None
        ]

    def _beyond(self, at: int, live: float) -> float:
        """A chunk's milliseconds, at the pace that the batches near it tell."""
        batch = self.recent[at]
        return batch.milliseconds / (self._pace(at) if batch.rows else 1.0) - live

    def _chunk_ms_at_pace_of_batch(self, batch: Batch, live: float) -> float:
        """A chunk's milliseconds, at the pace of the other work in the same batch."""
        took = min(batch.reported_ms + self.fixed, _MOST * batch.milliseconds)
        return batch.reported_ms * live / (batch.milliseconds - took)

    @cached_property
    def fixed(self) -> float:
        """What a chunk takes of a batch's time that tasks do not tell, however large it is.

        Live rows too take longer in a batch with a chunk, and the chunk causes that.
        """
        unreported = [
            (at, each.entries, each.unreported)
            for at, each in enumerate(self.recent)
            if each.unreported is not None
        ]
        alone = [(at, took) for at, entries, took in unreported if not entries]
        found = [
            took - statistics.median(other for _, other in _nearest(alone, at, _AROUND))
            for at, entries, took in unreported
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


# How large the next chunk is, from how long the last batches took: pure.
#
# Spark tells how long a whole batch took, and nothing of its parts. So every other batch of the
# first ones, and one in ten later on, has no chunk: what it takes is what live rows take, and what
# a batch with a chunk takes beyond that is the chunk's. The rule that makes a size of it is
# `Tuner`'s, as on the embedded engine.


_EVERY = 10
"""One batch of so many has no chunk, once there is something to compare."""
_FIRST_ALONE, _LEARNING = 2, 20
"""Batches without a chunk before the first size is chosen; so many batches have every other one."""
_ON_TIME = 0.9
"""The part of a trigger's interval that a batch with a chunk may take."""
_PART = 0.5
"""The least part of its time that a chunk is left for its entries."""
_GROWTH = 2
"""So many times the largest chunk that was seen is the most that the next one may be."""
IDLE_MILLISECONDS = 2_000.0
"""How long a batch without live rows may take: live rows that come meanwhile wait for its end."""


@dataclass(frozen=True)
class ChunkTuner:
    """Chooses a chunk's size in entries; each method gives the tuner that comes next.

    The first batch of a run, in which Java and Python warm up, teaches nothing.
    """

    pace: BackfillLimits
    tuner: Tuner
    trigger: Trigger = field(default_factory=Trigger)
    costs: Costs = field(default_factory=Costs)
    is_idle: bool = True
    since_alone: int = 0

    @classmethod
    def start(cls, pace: BackfillLimits, last: int | None = None) -> ChunkTuner:
        """The tuner of a run that has had no batch yet; ``last`` are the entries of a chunk before.

        It begins with that chunk if it was a small one, and with what a rate has in a second.
        """
        options = BackfillOptions(share=pace.share, idle_milliseconds=IDLE_MILLISECONDS)
        known = [round(each) for each in (last, pace.keys_per_second) if each is not None]
        begin = max(1, min([options.initial_rows, *known]))
        return cls(pace, Tuner.start(replace(options, initial_rows=begin)))

    @property
    def entries(self) -> int:
        """How many the next chunk is to have, one or more."""
        period, rate = self.trigger.period, self.pace.keys_per_second
        if period is None or rate is None:
            return self.tuner.rows
        # What batches without a chunk leave undone is made up for by the others.
        every = self._batches_between_baselines
        due = rate * period / 1000 * (1 if self.is_idle else every / (every - 1))
        return max(1, min(self.tuner.rows, round(due)))

    def wants_alone(self, to_come: int) -> bool:
        """Whether a batch is to have no chunk; ``to_come`` is how many of those are on their way.

        Without live rows there would be no batch at all.
        """
        if self.is_idle:
            return False
        if len(self.costs.alone) + to_come < _FIRST_ALONE:
            return True
        return not to_come and self.since_alone >= self._batches_between_baselines - 1

    @property
    def _batches_between_baselines(self) -> int:
        """One batch in this many runs without a chunk, as a baseline."""
        return 2 if len(self.costs.recent) < _LEARNING else _EVERY

    def observe(self, batch: Batch) -> ChunkTuner:
        """The tuner after a batch."""
        observed = replace(self, trigger=self.trigger.after(batch))
        if self.trigger.last is None or not (batch.rows or batch.entries):
            return replace(observed, is_idle=not batch.rows)
        return observed._with_chunk(batch) if batch.entries else observed._without(batch)

    def _without(self, batch: Batch) -> ChunkTuner:
        costs = self.costs.after(batch)
        # One that is not as the others may be by chance: the next one tells.
        since = _EVERY if costs.is_odd else 0
        return replace(self, is_idle=False, since_alone=since, costs=costs)

    def _with_chunk(self, batch: Batch) -> ChunkTuner:
        idle = not batch.rows
        # A chunk alone in a batch takes another time than one with live rows.
        known = self.costs if idle == self.is_idle else self.costs.without_chunks()
        costs = known.after(batch)
        doubtful = bool(batch.rows) and costs.is_doubtful
        since = _EVERY if doubtful else self.since_alone + 1
        observed = replace(self, is_idle=idle, since_alone=since, costs=costs)._sized(batch)
        if self.trigger.missed(batch):
            observed = replace(observed, tuner=observed.tuner.backed_off(batch.entries))
        return observed

    def _sized(self, batch: Batch) -> ChunkTuner:
        costs = self.costs
        live, chunks = costs.live(batch.rows), costs.chunks()
        if live is None or chunks is None:
            return self
        time = self.tuner.budget(live).milliseconds
        # Chunks go on also where a chunk of any size leaves little of the budget.
        room = max(time - costs.fixed, _PART * time)
        if (interval := self.trigger.interval) is not None:
            room = min(room, max(0.0, _ON_TIME * interval / costs.pace() - live))
        tuner = self.tuner.observe(chunks, live, room)
        # Two more are cut before the first of a new size is over: what counts is what was seen.
        most = max(self.tuner.rows, _GROWTH * max(each.entries for each in costs.recent))
        return replace(self, tuner=replace(tuner, rows=min(tuner.rows, most)))
