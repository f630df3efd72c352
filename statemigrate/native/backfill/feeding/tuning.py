"""How large the next chunk is, from how long the last batches took: pure.

Spark tells how long a whole batch took, and nothing of its parts. So every other batch of the
first ones, and one in ten later on, has no chunk: what it takes is what live rows take, and what a
batch with a chunk takes beyond that is the chunk's. The rule that makes a size of it is `Tuner`'s,
as on the embedded engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.native.backfill.feeding.batches import Batch, Trigger
from statemigrate.native.backfill.feeding.costs import Costs
from statemigrate.native.backfill.pace import Pace

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

    pace: Pace
    tuner: Tuner
    trigger: Trigger = field(default_factory=Trigger)
    costs: Costs = field(default_factory=Costs)
    is_idle: bool = True
    since_alone: int = 0

    @classmethod
    def start(cls, pace: Pace, last: int | None = None) -> ChunkTuner:
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
        every = self._apart
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
        return not to_come and self.since_alone >= self._apart - 1

    @property
    def _apart(self) -> int:
        """One batch of so many has no chunk now."""
        return 2 if len(self.costs.recent) < _LEARNING else _EVERY

    def observe(self, batch: Batch) -> ChunkTuner:
        """The tuner after a batch."""
        seen = replace(self, trigger=self.trigger.after(batch))
        if self.trigger.last is None or not (batch.rows or batch.entries):
            return replace(seen, is_idle=not batch.rows)
        return seen._with_chunk(batch) if batch.entries else seen._without(batch)

    def _without(self, batch: Batch) -> ChunkTuner:
        costs = self.costs.after(batch)
        # One that is not as the others may be by chance: the next one tells.
        since = _EVERY if costs.is_odd else 0
        return replace(self, is_idle=False, since_alone=since, costs=costs)

    def _with_chunk(self, batch: Batch) -> ChunkTuner:
        idle = not batch.rows
        # What a chunk takes by itself is not what it takes beside live rows.
        known = self.costs if idle == self.is_idle else self.costs.without_chunks()
        costs = known.after(batch)
        doubtful = bool(batch.rows) and costs.is_doubtful
        since = _EVERY if doubtful else self.since_alone + 1
        seen = replace(self, is_idle=idle, since_alone=since, costs=costs)._sized(batch)
        if self.trigger.missed(batch):
            seen = replace(seen, tuner=seen.tuner.backed_off(batch.entries))
        return seen

    def _sized(self, batch: Batch) -> ChunkTuner:
        costs = self.costs
        live, chunks = costs.live(batch.rows), costs.chunks()
        if live is None or chunks is None:
            return self
        time = self.tuner.budget(live).milliseconds
        # Where little is left beside what a chunk takes at any size, there are to be chunks still.
        room = max(time - costs.fixed, _PART * time)
        if (interval := self.trigger.interval) is not None:
            room = min(room, max(0.0, _ON_TIME * interval / costs.pace() - live))
        tuner = self.tuner.observe(chunks, live, room)
        # Two more are cut before the first of a new size is over: what counts is what was seen.
        most = max(self.tuner.rows, _GROWTH * max(each.entries for each in costs.recent))
        return replace(self, tuner=replace(tuner, rows=min(tuner.rows, most)))
