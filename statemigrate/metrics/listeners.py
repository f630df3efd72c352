"""Metrics of a query on Spark's own state, from Spark's listener bus."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.errors import StartupError, TransformError
from statemigrate.files import open_files
from statemigrate.metrics.instruments import (
    CountsRecorder,
    NativeInstruments,
    Recording,
    SourceInstruments,
    meter_of,
)
from statemigrate.native import (
    BackfillFigures,
    BackfillListener,
    MigratedFunction,
    QueryListener,
    migration_counts,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider

    from statemigrate.native import MigrationCounts

# The figures of Spark's own streaming progress.


_WHOLE = "triggerExecution"
_COMMITTED = "addBatch"
_ROCKSDB = "rocksdb"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SparkProgress:
    """Records the progress of each batch.

    Every figure of RocksDB becomes a gauge, ``rocksdbSstFileSize`` for example
    ``statemigrate.rocksdb.sst_file_size``, with Spark's own number: of the last batch, all
    partitions together, latencies in milliseconds. Which there are depends on Spark's release.
    """

    def __init__(
        self, meter: Meter, instruments: NativeInstruments, query: Mapping[str, str]
    ) -> None:
        self._meter = meter
        self._instruments = instruments
        self._query = dict(query)
        self._gauges: dict[str, Any] = {}

    def record(self, progress: Any) -> None:
        """Record one ``StreamingQueryProgress``."""
        to = self._instruments
        to.rows.add(progress.numInputRows, self._query)
        # An idle query notes its last batch again, without having committed anything.
        if _COMMITTED in progress.durationMs:
            to.committed_at.set(time.time(), self._query)
        for phase, milliseconds in progress.durationMs.items():
            if phase == _WHOLE:
                to.batch_duration.record(milliseconds / 1000, self._query)
            else:
                to.phase_duration.record(milliseconds / 1000, {**self._query, "phase": phase})
        for number, operator in enumerate(progress.stateOperators):
            self._record_state(number, operator)

    def _record_state(self, number: int, operator: Any) -> None:
        to = self._instruments
        at = {**self._query, "operator": f"{number}:{operator.operatorName}"}
        to.records.set(operator.numRowsTotal, at)
        to.updated.add(operator.numRowsUpdated, at)
        to.memory.set(operator.memoryUsedBytes, at)
        to.commit_duration.record(operator.commitTimeMs / 1000, at)
        for name, value in operator.customMetrics.items():
            if name.startswith(_ROCKSDB):
                self._gauge(name).set(value, at)

    def _gauge(self, name: str) -> Any:
        if name not in self._gauges:
            snake = _WORD.sub("_", name.removeprefix(_ROCKSDB)).lower()
            self._gauges[name] = self._meter.create_gauge(
                f"statemigrate.rocksdb.{snake}", description=f"Spark's {name}, of the last batch."
            )
        return self._gauges[name]


_FAILED = f"{TransformError.__module__}.{TransformError.__qualname__}: "


class NativeMetrics(QueryListener):
    """Records one query on Spark's own state: pass it to ``spark.streams.addListener(...)``.

    Add it before the query starts, one for each deployed processor; it ignores other queries of the
    session. ``processor`` is the processor of the query, with `migrated`, and ``checkpoint`` is the
    query's. ``query`` is its name in every data point, by default the last part of the checkpoint's
    path; ``meter_provider`` is OpenTelemetry's global one by default. ``operator`` is as
    for `BackfillListener`; a name is in every data point.

    Migrated values are counted like `migration_counts`: a task that Spark runs twice counts twice.
    For a function for ``applyInPandasWithState`` there are no such counts, and only Spark's own
    figures and those of the backfill's plan are recorded. Errors of an exporter are logged and
    never end the query.

    Raises `StatemigrateError` unless ``statemigrate[metrics]`` is installed, `StartupError` for a
    processor without counts, and `CheckpointError` for a checkpoint of the embedded engine.
    """

    def __init__(
        self,
        processor: Any,
        checkpoint: str | Path,
        *,
        query: str | None = None,
        meter_provider: MeterProvider | None = None,
        operator: str | None = None,
    ) -> None:
        name = query or Path(str(checkpoint)).name
        meter = meter_of(meter_provider)
        self._query = {"query": name, "engine": "native"}
        if operator:
            self._query["operator"] = operator
        self._instruments = NativeInstruments(meter)
        self._spark = SparkProgress(meter, self._instruments, self._query)
        self._recording = Recording(name)
        counts = _counts_of(processor)
        self._counts: CountsRecorder | None = None
        if counts is not None:
            self._counts = CountsRecorder(counts, self._instruments, self._query)
        self._lag = SourceLag(SourceInstruments(meter), self._query)
        self._own = OwnQuery(str(checkpoint))
        self._own.directory.refuse_embedded()
        self._backfill = BackfillListener(checkpoint, self._record_backfill, operator=operator)
        self._recording.run(partial(self._instruments.begin, self._query))

    def onQueryStarted(self, event: Any) -> None:
        """Nothing yet, but the checkpoint may be a new one, of another query."""
        self._own.started(event)

    def onQueryProgress(self, event: Any) -> None:
        """Record a batch of this query."""
        self._recording.run(partial(self._record, event), partial(self._own.has, event.progress))

    def onQueryTerminated(self, event: Any) -> None:
        """Count a batch that ended the query, and the value if it was one that did."""
        self._recording.run(partial(self._record_end, event), partial(self._own.has, event))

    def _record(self, event: Any) -> None:
        if self._counts is not None:
            self._counts.record()
        self._spark.record(event.progress)
        self._lag.record(event.progress)
        self._backfill.onQueryProgress(event)

    def _record_end(self, event: Any) -> None:
        # Of a run that is over, what was counted since may be the next one's.
        if self._counts is not None and not self._own.is_over(event):
            self._counts.skip()
        error = event.exception
        self._instruments.failed_batches.add(int(error is not None), self._query)
        # Of the error there is only its text here.
        self._instruments.failed.add(int(error is not None and _FAILED in error), self._query)

    def _record_backfill(self, figures: BackfillFigures) -> None:
        if figures.keys_planned is not None:
            left = figures.keys_planned - figures.keys_asked
            self._instruments.planned.set(left, self._query)


def _counts_of(processor: Any) -> MigrationCounts | None:
    counts = None if isinstance(processor, MigratedFunction) else migration_counts(processor)
    if counts is None and not isinstance(processor, MigratedFunction):
        raise StartupError(
            "SM-METRICS-001",
            f"{type(processor).__qualname__} does not count what it migrates",
            expected="a processor that was marked with `migrated` while there was a Spark session",
            found=repr(processor),
            next_action="make the session first, then the processor, then NativeMetrics",
        )
    return counts


# How far a query is behind what its sources have, from Spark's progress.


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


class SourceMetrics(QueryListener):
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

    def onQueryProgress(self, event: Any) -> None:
        """Record what a batch of this query left behind."""
        progress = event.progress
        self._recording.run(partial(self._lag.record, progress), partial(self._own.has, progress))


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
    # A topic that was made again begins at 0, below what was read of the old one.
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
