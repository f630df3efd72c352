"""Cuts the chunks of a plan with a pace, two batches ahead of the query; removes what it took."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from threading import Lock

from statemigrate.native.backfill.blocks import Blocks, Cut, cuts_of
from statemigrate.native.backfill.chunk_files import ChunkFiles, PlanRecord
from statemigrate.native.backfill.feeding.batches import Batch
from statemigrate.native.backfill.feeding.tuning import ChunkTuner

_AHEAD = 2
"""The next batch may have begun when the last one is told of; so the one after it is cared for."""
_TIDIED = 10
"""So many batches after a chunk was taken, what is committed is removed: a look costs a listing and
the source's log, which Spark makes compact as often."""


class Feeder:
    """Of one control source: told of each batch, it makes the chunk that a later one takes.

    Of every plan it removes the chunks whose batches are committed: Spark would list them for good.

    Which keys a batch has is Spark's log's to say: a chunk is a file that never changes once it is
    there, so a batch that is run again takes the same. What is remembered here, how long batches
    took, decides no more than how large the next files are.
    """

    def __init__(self, files: ChunkFiles) -> None:
        self.files = files
        self._lock = Lock()
        self._plan: PlanRecord | None = None
        self._tuner: ChunkTuner | None = None
        self._blocks: Blocks | None = None
        self._ahead: deque[Cut | None] = deque()
        """The chunks of the batches to come; None for a batch that is to have none."""
        self._untidied: int | None = None
        """How many batches are over since the first chunk that may be there still."""

    def begin(self) -> None:
        """The query starts: how long its batches took before says nothing any more."""
        with self._lock:
            self._plan = None
            self._feed()
            self._tidy()

    def after(self, batch: Batch) -> None:
        """A batch is over; its ``entries`` are taken for the rows of its chunk."""
        with self._lock:
            told = replace(batch, entries=self._taken(batch.rows, batch.entries))
            if self._tuner is not None:
                self._tuner = self._tuner.observe(told)
            self._feed()
            if batch.entries and self._untidied is None:
                self._untidied = 0
            if self._untidied is not None:
                self._untidied += 1
                if self._untidied >= _TIDIED:
                    self._tidy()

    def idle(self) -> None:
        """There was no batch for a while: none comes unless there is a chunk."""
        with self._lock:
            self._ahead = deque(cut for cut in self._ahead if cut is not None)
            if self._tuner is not None:
                self._tuner = replace(self._tuner, is_idle=True)
            self._feed()
            if self._untidied is not None:
                self._tidy()

    def _tidy(self) -> None:
        self._untidied = None
        self.files.remove_committed()

    def _taken(self, rows: int, keys: int) -> int:
        """The entries of the chunk that a batch had."""
        if not keys:
            if rows and self._ahead and self._ahead[0] is None:
                self._ahead.popleft()
            return 0
        while self._ahead:
            cut = self._ahead.popleft()
            if cut is not None:
                return cut.entries
        return keys

    def _feed(self) -> None:
        plan = self.files.plan()
        if plan is None or plan.pace is None:
            self._plan, self._tuner = plan, None
            self._ahead.clear()
            return
        if self._plan is None or self._tuner is None or plan.id != self._plan.id:
            self._take_up(plan)
        while len(self._ahead) < _AHEAD and self._make_one():
            self.files.remove_committed()
        if self._is_withdrawn(plan):
            place = f"{self.files.chunks}/{plan.id}"
            names = (f"{place}/{cut.name}" for cut in self._ahead if cut is not None)
            self.files.files.delete(names)

    def _make_one(self) -> bool:
        tuner, blocks = self._tuner, self._blocks
        if tuner is None or blocks is None:
            return False
        if tuner.wants_alone(self._ahead.count(None)):
            self._ahead.append(None)
            return True
        cut = blocks.cut(tuner.entries)
        if cut is not None:
            self._ahead.append(cut)
        return cut is not None

    def _is_withdrawn(self, plan: PlanRecord) -> bool:
        # Whoever pauses removes the plan first, then the files that are there.
        now = self.files.plan()
        return now is None or now.id != plan.id

    def _take_up(self, plan: PlanRecord) -> None:
        """Go on from the files that are there and those that Spark has taken."""
        # The files come first: one that is gone by then is in the log.
        written = self.files.written()
        log = self.files.log()
        cuts = cuts_of(plan.id, written | log.taken.keys())
        left = sorted(cut for name, cut in cuts.items() if not log.is_committed(name))
        last = max(cuts.values(), default=None)
        assert plan.pace is not None  # noqa: S101 - asked before
        self._plan, self._tuner = (
            plan,
            ChunkTuner.start(plan.pace, None if last is None else last.entries),
        )
        self._blocks, self._ahead = Blocks(self.files, plan.id, last), deque(left)
