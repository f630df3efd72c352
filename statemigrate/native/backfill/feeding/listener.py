"""Spark's listener that tells feeders of batches: one a session, for all its queries."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from pyspark.sql.streaming.listener import StreamingQueryListener

from statemigrate.files.hadoop.jvm import has_jvm
from statemigrate.native.backfill.chunk_files import ChunkFiles, is_source_of
from statemigrate.native.backfill.feeding.batches import Batch
from statemigrate.native.backfill.feeding.feeder import Feeder
from statemigrate.native.live.work import Work, work_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("statemigrate.backfill")
_WHOLE = "triggerExecution"
_ANSWERED = 5_000
"""Milliseconds that the end of Python waits for what Spark is telling."""
_LISTENERS: WeakKeyDictionary[SparkSession, Feeding] = WeakKeyDictionary()


def feed(spark: SparkSession, files: ChunkFiles) -> None:
    """Feed the query of a checkpoint, from its next start in this session on."""
    if spark not in _LISTENERS:
        _LISTENERS[spark] = Feeding(_work_told_to(spark))
        spark.streams.addListener(_LISTENERS[spark])
        if has_jvm(spark):
            atexit.register(_stop, ref(spark), _LISTENERS[spark])
    _LISTENERS[spark].add(files)


def _work_told_to(spark: SparkSession) -> Callable[[str, int], Work | None]:
    # Connect has no accumulators, so its tasks report nothing.
    return partial(work_of, spark.sparkContext) if has_jvm(spark) else lambda *_: None


def _stop(session: ReferenceType[SparkSession], listener: Feeding) -> None:
    """Spark outlives Python for a moment, and would tell nobody there, with a trace each time."""
    spark = session()
    if spark is None or spark.sparkContext._jsc is None:
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    # Spark that has died before Python tells nobody either: then no answer comes, or no connection.
    with suppress(Py4JError, ConnectionError):
        spark.streams.removeListener(listener)
        # What is being told right now is answered yet.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_ANSWERED)


class Feeding(StreamingQueryListener):
    """Finds the feeder of each query; an error is logged, and never ends a query.

    Checkpoints are asked for their query's id when a query starts and not again: most sessions have
    other queries too, whose every batch would else cost a request a checkpoint.
    """

    def __init__(self, work_of: Callable[[str, int], Work | None]) -> None:
        """``work_of`` is asked for what a query's batch has told of its tasks."""
        self._work_of = work_of
        self._feeders: dict[str, Feeder] = {}
        self._runs: dict[str, tuple[Feeder, ...]] = {}

    def add(self, files: ChunkFiles) -> None:
        """Feed a control source; one feeder cuts its chunks, however often its query starts."""
        self._feeders.setdefault(files.location, Feeder(files))

    def onQueryStarted(self, event: Any) -> None:
        """Make the first chunks; Spark waits for this before the first batch."""
        query = str(event.id)
        # A query with several operators on pages has a control source for each.
        feeders = tuple(each for each in list(self._feeders.values()) if _is_of(each, query))
        if feeders:
            # What is still to be told of an earlier run says nothing of this one.
            others = {run: of for run, of in self._runs.items() if not {*of} & {*feeders}}
            self._runs = {**others, str(event.runId): feeders}
            self._safely(event, Feeder.begin)

    def onQueryProgress(self, event: Any) -> None:
        """Make the chunk of a later batch."""
        progress = event.progress
        work = self._work_of(str(progress.id), progress.batchId)
        self._safely(progress, partial(_told, progress=progress, work=work))

    def onQueryIdle(self, event: Any) -> None:
        """Make a chunk if there is a plan: without, there might be no batch."""
        self._safely(event, Feeder.idle)

    def onQueryTerminated(self, event: Any) -> None:
        """Forget the run: this may be told after the query's next start."""
        self._runs.pop(str(event.runId), None)

    def _safely(self, event: Any, tell: Callable[[Feeder], None]) -> None:
        for feeder in self._runs.get(str(event.runId), ()):
            try:
                tell(feeder)
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


def _told(feeder: Feeder, progress: Any, work: Work | None) -> None:
    rows = keys = 0
    for source in progress.sources:
        if is_source_of(feeder.files.path, source):
            keys += source.numInputRows
        else:
            rows += source.numInputRows
    began = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
    took = float(progress.durationMs.get(_WHOLE, 0))
    feeder.after(Batch(began, took, rows, keys, work))
