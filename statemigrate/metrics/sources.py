"""How far a query is behind what its sources have, from Spark's progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.files.open import open_files
from statemigrate.metrics.instruments import Recording, SourceInstruments, meter_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


# Which of a session's queries is the one that is recorded.


class OwnQuery:
    """The query of one checkpoint.

    ``event`` is what Spark tells of a query or of a batch: it has the query's ``id`` and ``runId``.
    """

    def __init__(self, checkpoint: str) -> None:
        self.directory = CheckpointDirectory(open_files(checkpoint))
        self._id: str | None = None
        self._runs: dict[str, str] = {}

    def started(self, event: Any) -> None:
        """A query has started: if it is another one, the checkpoint may be a new one too."""
        self._runs[str(event.id)] = str(event.runId)
        if str(event.id) != self._id:
            self._id = None

    def has(self, event: Any) -> bool:
        """Whether this is of the query."""
        # Read late: before the query's first start there is nothing to read.
        if self._id is None:
            self._id = self.directory.query_id()
        return str(event.id) == self._id

    def is_over(self, event: Any) -> bool:
        """Whether this is of a run after which the query was started again.

        Spark tells of a start at once, and of the end of the run before it when it comes to it.
        """
        run = str(event.runId)
        return self._runs.get(str(event.id), run) != run


class SourceMetrics(StreamingQueryListener):
    """Records how many offsets a query is behind: pass it to ``spark.streams.addListener(...)``.

    It is for a query on the embedded engine, whose sources only Spark knows; `NativeMetrics`
    records the same by itself. Add it before the query starts; it ignores other queries of the
    session. ``checkpoint`` is the query's, and ``query`` its name in every data point, by default
    the last part of the checkpoint's path. ``meter_provider`` is OpenTelemetry's global one by
    default.

    It records sources that report their newest offsets as numbers, as Kafka does by topic and
    partition. Errors of an exporter are logged and never end the query.

    Raises `StatemigrateError` unless ``statemigrate[metrics]`` is installed.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        *,
        query: str | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        name = query or Path(str(checkpoint)).name
        instruments = SourceInstruments(meter_of(meter_provider))
        self._lag = SourceLag(instruments, {"query": name, "engine": "embedded"})
        self._recording = Recording(name)
        self._own = OwnQuery(str(checkpoint))

    def onQueryStarted(self, event: Any) -> None:
        """Nothing yet, but the checkpoint may be a new one, of another query."""
        self._own.started(event)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new."""

    def onQueryProgress(self, event: Any) -> None:
        """Record what a batch of this query left behind."""
        progress = event.progress
        self._recording.run(partial(self._lag.record, progress), partial(self._own.has, progress))

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing more."""


class SourceLag:
    """Records the lag of each source of a query."""

    def __init__(self, instruments: SourceInstruments, query: Mapping[str, str]) -> None:
        self._instruments = instruments
        self._query = dict(query)

    def record(self, progress: Any) -> None:
        """Record one ``StreamingQueryProgress``."""
        for number, source in enumerate(progress.sources):
            behind = lag_between(source.endOffset, source.latestOffset)
            if behind is not None:
                at = {**self._query, "source": f"{number}:{source.description}"}
                self._instruments.lag.set(behind, at)


def lag_between(end: str | None, latest: str | None) -> int | None:
    """The offsets between two positions of a source, all of its partitions together.

    A partition that is new to the query counts from 0, its first message or earlier. None where
    a source does not tell its offsets as numbers.
    """
    reached, newest = _numbers(end), _numbers(latest)
    if reached is None or newest is None:
        return None
    # A topic that was made anew begins at 0 again, below what was read of the old one.
    return sum(max(0, offset - reached.get(place, 0)) for place, offset in newest.items())


def _numbers(text: str | None) -> dict[tuple[str, ...], int] | None:
    """The offset of each partition, by topic and number; of a source without, one offset."""
    try:
        document = json.loads(text or "null")
    except ValueError:
        return None
    if type(document) is int:
        return {(): document}
    if not isinstance(document, dict) or not document:
        return None
    found: dict[tuple[str, ...], int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if type(offset) is not int:
                return None
            found[topic, partition] = offset
    return found
