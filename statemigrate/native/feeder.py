"""Cuts the chunks of a plan with a pace, two batches ahead of the query; removes what it took."""

from __future__ import annotations

import atexit
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.files import Files, has_jvm
from statemigrate.native.backfill_listener import QueryListener
from statemigrate.native.chunks import (
    BlocksLeft,
    ChunkFiles,
    Cut,
    PlanRecord,
    cuts_of,
    is_source_of,
)
from statemigrate.native.deployed_variables import Work, work_of
from statemigrate.native.pacing import Batch, ChunkTuner
from statemigrate.native.source_order import stop_misplaced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_AHEAD = 2
"""The next batch may have begun when the last one is reported; so this is for the one after it."""
_TIDIED = 10
"""So many batches after a chunk was taken, what is committed is removed: a look costs a listing and
the source's log, which Spark makes compact as often."""


class Feeder:
    """Feeds one backfill source: after each batch it makes the chunk that a later batch takes.

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
        self._blocks: BlocksLeft | None = None
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
            observed = replace(batch, entries=self._taken(batch.rows, batch.entries))
            if self._tuner is not None:
                self._tuner = self._tuner.observe(observed)
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
        # Pausing removes the plan first, then the files that are there.
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
        self._blocks, self._ahead = BlocksLeft(self.files, plan.id, last), deque(left)


# Spark's listener that tells feeders of batches: one a session, for all its queries.


_LOG = logging.getLogger("statemigrate.backfill")
_WHOLE = "triggerExecution"
_ANSWERED = 5_000
"""Milliseconds that the end of Python waits for what Spark is telling."""
_LISTENERS: WeakKeyDictionary[SparkSession, Feeding] = WeakKeyDictionary()


def feed(spark: SparkSession, files: ChunkFiles) -> None:
    """Feed the query of a checkpoint, from its next start in this session on."""
    _listener(spark).add(files)


def _listener(spark: SparkSession) -> Feeding:
    if spark not in _LISTENERS:
        _LISTENERS[spark] = Feeding(_work_reported_to(spark), _order_checked_in(spark))
        spark.streams.addListener(_LISTENERS[spark])
        if has_jvm(spark):
            atexit.register(_stop, ref(spark), _LISTENERS[spark])
    return _LISTENERS[spark]


def before_first_batch(
    stream: DataFrame, files: Files, name: str, action: Callable[[], None]
) -> None:
    """Do something once, when a query of a checkpoint starts that has ``stream`` in it.

    Spark waits for it before the first batch. Another stream may have an action of the same
    ``name`` for the checkpoint: only that of the query that starts is done. An error is logged.
    """
    _listener(stream.sparkSession).before(stream, files, name, action)


def _work_reported_to(spark: SparkSession) -> Callable[[str, int], Work | None]:
    # Connect has no accumulators, so its tasks report nothing.
    return partial(work_of, spark.sparkContext) if has_jvm(spark) else lambda *_: None


def _order_checked_in(spark: SparkSession) -> Callable[[str, ChunkFiles], None]:
    # Connect shows no plan.
    session = ref(spark)

    def check(query: str, files: ChunkFiles) -> None:
        found = session()
        if found is not None and has_jvm(found) and files.operator is None:
            stop_misplaced(found, query, files, partial(_listen_again, found))

    return check


def _listen_again(spark: SparkSession) -> None:
    listener = _LISTENERS[spark]
    spark.streams.removeListener(listener)
    spark.streams.addListener(listener)


def _stop(session: ReferenceType[SparkSession], listener: Feeding) -> None:
    """Spark outlives Python for a moment, and would tell nobody there, with a trace each time."""
    spark = session()
    if spark is None or spark.sparkContext._jsc is None:
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    # Spark that has died before Python tells nobody either: then no answer comes, or no connection.
    with suppress(Py4JError, ConnectionError):
        spark.streams.removeListener(listener)
        # What is being reported right now is still processed.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_ANSWERED)


@dataclass(frozen=True, eq=False)
class _Action:
    """What a query of a checkpoint begins with that has ``stream`` in it."""

    stream: DataFrame
    files: Files
    name: str
    action: Callable[[], None]

    def is_in(self, query: str) -> bool:
        """Whether the query with this id, which is starting, has the stream in its plan.

        `StreamExecution.analyzedPlan` has the stream that is written. What was made of a stream
        has the stream's own plan in it.
        """
        session: Any = self.stream.sparkSession
        started = session._jsparkSession.streams().get(
            session._jvm.java.util.UUID.fromString(query)
        )
        own = self.stream._jdf.queryExecution().analyzed()
        left = [started.streamingQuery().analyzedPlan()]
        while left:
            plan = left.pop()
            if plan.fastEquals(own):
                return True
            children = plan.children()
            left += [children.apply(place) for place in range(children.size())]
        return False


class Feeding(QueryListener):
    """Finds the feeder of each query; an error is logged, and never ends a query.

    Checkpoints are asked for their query's id when a query starts and not again: most sessions have
    other queries too, whose every batch would else cost a request a checkpoint.
    """

    def __init__(
        self,
        work_of: Callable[[str, int], Work | None],
        check: Callable[[str, ChunkFiles], None] = lambda *_: None,
    ) -> None:
        """``work_of`` returns what the tasks of a query's batch have reported.

        ``check`` gets the id of a query that starts, with its backfill source, and may stop it.
        """
        self._work_of, self._check = work_of, check
        self._feeders: dict[str, Feeder] = {}
        self._runs: dict[str, tuple[Feeder, ...]] = {}
        self._actions: list[_Action] = []

    def before(
        self, stream: DataFrame, files: Files, name: str, action: Callable[[], None]
    ) -> None:
        """Do something once, when a query of a checkpoint starts that has ``stream`` in it."""
        self._actions.append(_Action(stream, files, name, action))

    def add(self, files: ChunkFiles) -> None:
        """Feed a backfill source; one feeder cuts its chunks, however often its query starts."""
        self._feeders.setdefault(files.location, Feeder(files))

    def onQueryStarted(self, event: Any) -> None:
        """Make the first chunks; Spark waits for this before the first batch."""
        query = str(event.id)
        self._act(query)
        # A query with several operators on pages has a backfill source for each.
        feeders = tuple(each for each in list(self._feeders.values()) if _is_of(each, query))
        for each in feeders:
            try:
                self._check(query, each.files)
            except Exception:
                _LOG.exception("the order of the sources of query %s was not looked at", query)
        if feeders:
            # Reports of an earlier run that come late say nothing of this one.
            others = {run: of for run, of in self._runs.items() if not {*of} & {*feeders}}
            self._runs = {**others, str(event.runId): feeders}
            self._safely(event, Feeder.begin)

    def _act(self, query: str) -> None:
        done: set[tuple[str, str]] = set()
        # Of one stream that was given twice the last call counts.
        for each in reversed(self._actions.copy()):
            place = each.files.location, each.name
            try:
                # The plan first: what waits for other queries need not read their checkpoints.
                if each.is_in(query) and CheckpointDirectory(each.files).query_id() == query:
                    self._actions.remove(each)
                    if place not in done:
                        done.add(place)
                        each.action()
            except Exception:
                _LOG.exception("what query %s begins with was not done in %s", query, place[0])

    def onQueryProgress(self, event: Any) -> None:
        """Make the chunk of a later batch."""
        progress = event.progress
        work = self._work_of(str(progress.id), progress.batchId)
        self._safely(progress, partial(_on_progress, progress=progress, work=work))

    def onQueryIdle(self, event: Any) -> None:
        """Make a chunk if there is a plan: without, there might be no batch."""
        self._safely(event, Feeder.idle)

    def onQueryTerminated(self, event: Any) -> None:
        """Forget the run: this call may come after the query's next start."""
        self._runs.pop(str(event.runId), None)

    def _safely(self, event: Any, report: Callable[[Feeder], None]) -> None:
        for feeder in self._runs.get(str(event.runId), ()):
            try:
                report(feeder)
            except Exception:
                _LOG.exception("the backfill of query %s makes no further chunk now", event.id)


def _is_of(feeder: Feeder, query: str) -> bool:
    try:
        return feeder.files.directory.query_id() == query
    except Exception:
        # One checkpoint that cannot be read is none of the other queries' business.
        _LOG.exception(
            "it is not known whether %s is the checkpoint of query %s", feeder.files.location, query
        )
        return False


def _on_progress(feeder: Feeder, progress: Any, work: Work | None) -> None:
    rows = keys = 0
    for source in progress.sources:
        if is_source_of(feeder.files.path, source):
            keys += source.numInputRows
        else:
            rows += source.numInputRows
    began = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
    took = float(progress.durationMs.get(_WHOLE, 0))
    feeder.after(Batch(began, took, rows, keys, work))
