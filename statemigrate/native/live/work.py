"""How long tasks are busy with the keys that a backfill asks for, and how long with all.

Spark tells how long a batch took and nothing of its parts. In a task live rows and those of the
backfill come one after the other, at the same moment of the same machine: so what each takes is
told by one batch alone, however slow the machine is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from statemigrate.native.seen.seen import BATCH, QUERY

if TYPE_CHECKING:
    from pyspark import SparkContext

_KEPT = 16
"""Batches whose work is kept until somebody asks for it."""
_Told = dict[tuple[str | None, str | None], "Work"]
_TOTALS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


@dataclass(frozen=True)
class Work:
    """What a batch's tasks did, in milliseconds.

    ``spans`` are from when to when each was busy with keys, since 1970, and ``asked`` is how long
    all of them together were so with keys that only the backfill asked for.
    """

    asked: float
    spans: tuple[tuple[float, float], ...]

    def __add__(self, other: Work) -> Work:
        """What both did."""
        return Work(self.asked + other.asked, self.spans + other.spans)

    @property
    def asked_by_clock(self) -> float:
        """What the backfill's keys took by the clock."""
        # So many run side by side that all are done in so many rounds.
        return self.asked * ceil(len(self.spans) / self._side_by_side) / len(self.spans)

    @property
    def _side_by_side(self) -> int:
        moments = sorted(
            [(began, 1) for began, _ in self.spans] + [(ended, -1) for _, ended in self.spans]
        )
        return max(1, *accumulate(step for _, step in moments))


class Stopwatch:
    """Of one task: each moment counts for the visit that ends next.

    What Spark does between two visits, to fetch rows and to move on to another key, is done for the
    one that follows. The first visit takes many times what others take, as much is only done then:
    it would come without a backfill too, so it never counts as asked for.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._began = self._since = 0.0
        self._asked = 0.0
        self._is_first = True

    def begin(self) -> None:
        """A visit begins; of the first one this is where the task's time begins."""
        if not self._began:
            self._began = self._since = self._clock()

    def end(self, *, asked: bool) -> None:
        """A visit ends; ``asked`` says that it was for the backfill alone."""
        now = self._clock()
        if asked and not self._is_first:
            self._asked += now - self._since
        self._since, self._is_first = now, False

    @property
    def work(self) -> Work | None:
        """What was found so far; None without a visit."""
        if not self._began:
            return None
        began, ended = self._began * 1000, self._since * 1000
        return Work(self._asked * 1000, ((began, ended),))


class _ByBatch:
    """How Spark is to add such figures: by query and batch."""

    def zero(self, value: _Told) -> _Told:  # noqa: ARG002 - as Spark calls it
        return {}

    def addInPlace(self, value1: _Told, value2: _Told) -> _Told:
        merged = dict(value1)
        for batch, work in value2.items():
            merged[batch] = merged[batch] + work if batch in merged else work
        return dict(list(merged.items())[-_KEPT:])


def total_of(context: SparkContext) -> Any:
    """The accumulator of a session's work, by query and batch."""
    if context not in _TOTALS:
        adding: Any = _ByBatch()
        _TOTALS[context] = context.accumulator({}, adding)
    return _TOTALS[context]


def tell(total: Any, work: Work) -> None:
    """Add a task's work to that of its batch."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return
    batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    total.add({batch: work})


def work_of(context: SparkContext, query: str, batch: int) -> Work | None:
    """The work of a batch; None where its tasks told nothing."""
    told: _Told = total_of(context).value
    return told.get((query, str(batch)))
