"""How large the next chunk is, from how long the last batches took: pure.

Spark tells how long a whole batch took, and nothing of its parts. So one batch in ten has no
chunk: what it takes is what live rows take, and what a batch with a chunk takes beyond that is the
chunk's. The rule that makes a size of it is `Tuner`'s, as on the embedded engine.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from statemigrate.budget import BackfillOptions, Chunk, Tuner
from statemigrate.native.backfill.feeding.batches import Batch, Trigger
from statemigrate.native.backfill.pace import Pace

_EVERY = 10
"""One batch of so many has no chunk."""
_FIRST_ALONE, _ALONE, _BESIDE = 2, 6, 5
"""Batches without a chunk before the first size is chosen; how many of each kind are looked at."""
_ALIKE = 1.25
"""Batches whose numbers of rows are within this of each other are taken for alike."""
_DOUBTFUL = 2.0
"""Where chunks seem to take so many times what they may, it is looked again what rows take."""
_OTHER = 1.3
"""A batch without a chunk that takes so many times what was known, or less, begins anew."""
_LEAST = 0.02
"""A chunk that cannot be seen in a batch's time is taken for this part of it."""
_ON_TIME = 0.9
"""The part of a trigger's interval that a batch with a chunk may take."""
IDLE_MILLISECONDS = 2_000.0
"""How long a batch without live rows may take: live rows that come meanwhile wait for its end."""


@dataclass(frozen=True)
class ChunkTuner:
    """Chooses a chunk's size in entries; each method gives the tuner that comes next.

    ``alone`` are the last batches without a chunk, ``beside`` those with one, each as the entries
    and the milliseconds that the chunk took. The first batch of a run, in which Java and Python
    warm up, teaches nothing.
    """

    pace: Pace
    tuner: Tuner
    trigger: Trigger = field(default_factory=Trigger)
    alone: tuple[Batch, ...] = ()
    beside: tuple[tuple[int, float], ...] = ()
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
        due = rate * period / 1000 * (1 if self.is_idle else _EVERY / (_EVERY - 1))
        return max(1, min(self.tuner.rows, round(due)))

    def wants_alone(self, to_come: int) -> bool:
        """Whether a batch is to have no chunk; ``to_come`` is how many of those are on their way.

        Without live rows there would be no batch at all.
        """
        if self.is_idle:
            return False
        if len(self.alone) + to_come < _FIRST_ALONE:
            return True
        return not to_come and self.since_alone >= _EVERY - 1

    def observe(self, batch: Batch) -> ChunkTuner:
        """The tuner after a batch."""
        seen = replace(self, trigger=self.trigger.after(batch))
        if self.trigger.last is None or not (batch.rows or batch.entries):
            return replace(seen, is_idle=not batch.rows)
        return seen._with_chunk(batch) if batch.entries else seen._without(batch)

    def _without(self, batch: Batch) -> ChunkTuner:
        seen = replace(self, is_idle=False, since_alone=0)
        known = self.live(batch.rows)
        if known is not None and not known / _OTHER <= batch.milliseconds <= known * _OTHER:
            # The machine or the rows are not what they were; what was seen says nothing any more.
            return replace(seen, alone=(batch,), beside=())
        return replace(seen, alone=(*self.alone, batch)[-_ALONE:])

    def _with_chunk(self, batch: Batch) -> ChunkTuner:
        idle = not batch.rows
        seen = replace(self, is_idle=idle, since_alone=self.since_alone + 1)
        if idle != self.is_idle:
            # What a chunk takes by itself is not what it takes beside live rows.
            seen = replace(seen, beside=())
        live = seen.live(batch.rows)
        if live is not None:
            seen = seen._with_cost(batch, live)
        if self.trigger.missed(batch):
            seen = replace(seen, tuner=seen.tuner.backed_off(batch.entries))
        return seen

    def _with_cost(self, batch: Batch, live: float) -> ChunkTuner:
        taken = max(batch.milliseconds - live, _LEAST * batch.milliseconds)
        beside = (*self.beside, (batch.entries, taken))[-_BESIDE:]
        # Entries of several batches over their time: a quotient each would be led by the noise.
        together = Chunk(sum(n for n, _ in beside), 0, sum(took for _, took in beside))
        interval = self.trigger.interval
        room = {} if interval is None else {"room": max(0.0, _ON_TIME * interval - live)}
        tuner = self.tuner.observe(together, live, **room)
        doubtful = taken > _DOUBTFUL * tuner.budget(live).milliseconds and live > 0
        since = _EVERY if doubtful else self.since_alone
        return replace(self, beside=beside, tuner=tuner, since_alone=since)

    def live(self, rows: int) -> float | None:
        """What so many live rows take without a chunk, in milliseconds; None while not known."""
        if not rows:
            return 0.0
        if not self.alone:
            return None
        counts = [each.rows for each in self.alone]
        times = [each.milliseconds for each in self.alone]
        if max(counts) <= _ALIKE * min(counts):
            return statistics.median(times)
        slope, start = statistics.linear_regression(counts, times)
        return min(max(min(times) / 2, start + max(0.0, slope) * rows), 2 * max(times))
