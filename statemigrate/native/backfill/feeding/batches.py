"""What is told of a batch, and the interval of the trigger that starts batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from statemigrate.native.live.work import Work

_GRAIN = 100.0
"""Milliseconds; intervals of triggers are taken for multiples of it."""
_LATE = 0.05
"""How late a batch starts at most after its trigger, as a part of the interval."""


@dataclass(frozen=True)
class Batch:
    """A batch: when it ``began`` (ms since 1970), how long it took, and what was in it.

    ``rows`` are the stream's own, ``entries`` what its chunk asked to be migrated: 0 without one.
    ``work`` is what its tasks told of themselves, None where they told nothing.
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
    def told(self) -> float:
        """What its chunk took beside live rows as tasks tell it; 0 where they tell nothing."""
        return 0.0 if self.work is None or not self.rows else self.work.asked_by_clock

    @property
    def untold(self) -> float | None:
        """What it took beyond what its tasks tell of its chunk; None where they tell nothing."""
        if self.work is None or not self.rows:
            return None
        return self.milliseconds - self.told


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
        apart = batch.began - last.began
        period = apart if self.period is None else 0.4 * apart + 0.6 * self.period
        waited = batch.began > last.ended + _GRAIN / 2
        interval = self._interval(last, batch) if waited and self.waited else self.interval
        return Trigger(interval, period, batch, waited)

    def missed(self, batch: Batch) -> bool:
        """Whether the next trigger came while the batch was running."""
        return self.interval is not None and batch.milliseconds > self.interval

    def _interval(self, last: Batch, batch: Batch) -> float | None:
        apart = round((batch.began - last.began) / _GRAIN) * _GRAIN
        if apart <= 0 or not all(_on_time(each, apart) for each in (last, batch)):
            return self.interval
        return apart if self.interval is None else min(apart, self.interval)


def _on_time(batch: Batch, interval: float) -> bool:
    return batch.began % interval <= _LATE * interval
