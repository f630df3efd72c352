"""Spark's listener that tells feeders of batches: one a session, for all its queries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql.streaming.listener import StreamingQueryListener

from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.native.backfill.feeding.feeder import Feeder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("statemigrate.backfill")
_WHOLE = "triggerExecution"
_LISTENERS: WeakKeyDictionary[SparkSession, Feeding] = WeakKeyDictionary()


def feed(spark: SparkSession, files: ChunkFiles) -> None:
    """Feed the query of a checkpoint, from its next start in this session on."""
    if spark not in _LISTENERS:
        _LISTENERS[spark] = Feeding()
        spark.streams.addListener(_LISTENERS[spark])
    _LISTENERS[spark].add(files)


class Feeding(StreamingQueryListener):
    """Finds the feeder of each query; an error is logged, and never ends a query."""

    def __init__(self) -> None:
        self._feeders: dict[str, Feeder] = {}
        self._runs: dict[str, Feeder] = {}

    def add(self, files: ChunkFiles) -> None:
        """Feed the query of one more checkpoint."""
        self._feeders[files.location] = Feeder(files)

    def onQueryStarted(self, event: Any) -> None:
        """Make the first chunks; Spark waits for this before the first batch."""
        self._safely(event, Feeder.begin)

    def onQueryProgress(self, event: Any) -> None:
        """Make the chunk of a later batch."""
        self._safely(event.progress, partial(_told, progress=event.progress))

    def onQueryIdle(self, event: Any) -> None:
        """Make a chunk if there is a plan: without, there might be no batch."""
        self._safely(event, Feeder.idle)

    def onQueryTerminated(self, event: Any) -> None:
        """Forget the query; another start of it is found by its checkpoint."""
        self._runs.pop(str(event.id), None)

    def _safely(self, event: Any, tell: Callable[[Feeder], None]) -> None:
        try:
            feeder = self._of(str(event.id))
            if feeder is not None:
                tell(feeder)
        except Exception:
            _LOG.exception("the backfill of query %s makes no further chunk now", event.id)

    def _of(self, query: str) -> Feeder | None:
        if query not in self._runs:
            mine = [each for each in self._feeders.values() if _is_of(each, query)]
            if not mine:
                return None
            self._runs[query] = mine[-1]
        return self._runs[query]


def _is_of(feeder: Feeder, query: str) -> bool:
    return feeder.files.directory.query_id() == query


def _told(feeder: Feeder, progress: Any) -> None:
    rows = keys = 0
    for source in progress.sources:
        # Spark writes a path with its scheme, which the path within its file system lacks.
        if source.description.endswith(f"{feeder.files.path}]"):
            keys += source.numInputRows
        else:
            rows += source.numInputRows
    began = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
    feeder.after(began, float(progress.durationMs.get(_WHOLE, 0)), rows, keys)
