"""Follows a backfill of Spark's own state, batch by batch, by a listener that is quick to call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from statemigrate.checkpoint.logs import file_offset
from statemigrate.native.chunks import ChunkFiles, PlanRecord, cuts_of, is_source_of

_NOT_FINITE = float("nan")


class QueryListener(StreamingQueryListener):
    """Gets the progress of a batch from Spark as one text, and does nothing with any event.

    PySpark asks the JVM for each field of the progress. At the end of each list and map in it, it
    looks for the classes of a dozen exceptions in all jars. That takes the driver 0.2 to 0.9 s for
    each batch and listener, and Spark calls one listener after the other. The text takes 2 to 6 ms.

    A session of Spark Connect has no JVM; its listeners get texts from Spark anyway.
    """

    def onQueryStarted(self, event: Any) -> None:
        """A query starts; Spark waits for this."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has ended."""

    def onQueryIdle(self, event: Any) -> None:
        """A query had no input for a while."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""

    @property
    def _jlistener(self) -> Any:
        # As in PySpark, which asks for this to add the listener and to remove it.
        if not hasattr(self, "_jlistenerobj"):
            wrapper = SparkContext._jvm.PythonStreamingQueryListenerWrapper  # type: ignore[union-attr]
            self._jlistenerobj = wrapper(_Events(self))
        return self._jlistenerobj


class _Events(JStreamingQueryListener):
    """What the JVM calls; it differs from PySpark's in the progress alone."""

    def onQueryProgress(self, jevent: Any) -> None:
        progress = progress_of(jevent.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent(progress))


def progress_of(text: str) -> StreamingQueryProgress:
    """The progress of a batch from the JSON that Spark writes of it."""
    document = json.loads(text)
    for source in document["sources"]:
        # Spark leaves out what is no finite number, and PySpark takes each as given.
        for rate in ("inputRowsPerSecond", "processedRowsPerSecond"):
            source.setdefault(rate, _NOT_FINITE)
        # Before 4.2 PySpark writes an offset as Python does.
        for offset in ("startOffset", "endOffset", "latestOffset"):
            if not isinstance(value := source.get(offset), str):
                source[offset] = json.dumps(value)
    return StreamingQueryProgress.fromJson(document)


@dataclass(frozen=True)
class BackfillFigures:
    """A batch that processed control rows.

    ``keys`` is the number of keys requested in this batch, ``keys_asked`` since the plan was made,
    and ``keys_planned`` the total; the same for chunks. Both totals are None while there is no
    plan, and that of chunks if the query cuts them while it runs. For chunks that were processed
    before the listener was added, the count is the plan's average. For state in pages, keys are
    entries, counted with the plan's average page, and the batch's ``pages`` are given, too;
    otherwise these are None.
    """

    batch: int
    keys: int
    keys_asked: int
    chunks_consumed: int
    keys_planned: int | None
    chunks: int | None
    pages: int | None = None


class BackfillListener(QueryListener):
    """Follows a backfill from the progress of each batch, and runs nothing on Spark.

    ``checkpoint`` is that of the query. ``on_progress`` is called with `BackfillFigures` after each
    batch with control rows, in the listener's thread, and ``latest`` has the last of them. Add it
    with ``spark.streams.addListener(...)``. A chunk that was being processed while the plan was
    made may be counted for the plan. ``operator`` is the name that `paged` gave its operator, empty
    if it gave none. By default it is the operator of `with_backfill` or, in a query without that,
    the operator on pages without a name.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        on_progress: Callable[[BackfillFigures], None] | None = None,
        *,
        operator: str | None = None,
    ) -> None:
        self.latest: BackfillFigures | None = None
        self._files = ChunkFiles(str(checkpoint), operator)
        self._may_be_paged = operator is None
        self._report = on_progress
        self._plan: PlanRecord | None = None
        self._observed = 0
        self._asked = 0
        self._first = -1

    def onQueryProgress(self, event: Any) -> None:
        """Report a batch of this query that had control rows."""
        sources = event.progress.sources
        if self._may_be_paged:
            self._choose(sources)
        for source in sources:
            if is_source_of(self._files.path, source):
                start, end = _offset(source.startOffset), _offset(source.endOffset)
                if end > start:
                    self._advance(event.progress.batchId, start, end, source.numInputRows)

    def _choose(self, sources: Sequence[Any]) -> None:
        """Follow the pages without a name, if the query has them and not `with_backfill`."""
        pages = ChunkFiles(self._files.checkpoint, "")
        own, paged = (
            any(is_source_of(each.path, source) for source in sources)
            for each in (self._files, pages)
        )
        if paged and not own:
            self._files = pages
        self._may_be_paged = not (own or paged)

    def _advance(self, batch: int, start: int, end: int, rows: int) -> None:
        plan = self._files.plan()
        if plan is None or self._plan is None or plan.id != self._plan.id:
            self._plan, self._observed, self._first = plan, 0, start
            self._asked = 0 if plan is None else self._before(plan)
        keys = rows if plan is None or plan.entries is None else self._entries(plan, start, end)
        figures = self._figures(batch, end, keys, rows)
        self._observed += keys
        self.latest = figures
        if self._report is not None:
            self._report(figures)

    def _figures(self, batch: int, end: int, keys: int, rows: int) -> BackfillFigures:
        plan = self._plan
        if plan is None or not (plan.chunks or plan.pace):
            return BackfillFigures(
                batch, keys, self._observed + keys, end - self._first, None, None
            )
        before = min(self._asked + self._observed, plan.counted)
        asked = min(before + keys, plan.counted)
        consumed, chunks = end - plan.offset, None
        if plan.pace is None:
            consumed, chunks = min(consumed, plan.chunks), plan.chunks
        pages = None if plan.entries is None else rows
        return BackfillFigures(batch, asked - before, asked, consumed, plan.counted, chunks, pages)

    def _before(self, plan: PlanRecord) -> int:
        """The keys of a plan that were asked for before the first batch that was seen."""
        if plan.entries is not None:
            return self._entries(plan, plan.offset, self._first)
        if plan.pace is None:
            before = max(0, self._first - plan.offset)
            return round(plan.keys * before / plan.chunks) if plan.chunks else 0
        return sum(cut.keys for cut in cuts_of(plan.id, self._taken(-1, self._first)).values())

    def _entries(self, plan: PlanRecord, start: int, end: int) -> int:
        """The entries in a plan's chunks that were taken with offsets after ``start``."""
        taken = self._taken(start, end)
        cuts = cuts_of(plan.id, taken)
        planned = plan.entries_by_chunk or {}
        names = (name.removeprefix(f"{plan.id}/") for name in taken)
        return sum(cut.entries for cut in cuts.values()) + sum(planned.get(n, 0) for n in names)

    def _taken(self, start: int, end: int) -> list[str]:
        return [name for name, at in self._files.log().taken.items() if start < at <= end]


def _offset(text: str | None) -> int:
    # Spark reports null, as text, where there is no offset yet.
    offset = file_offset(None if text in (None, "null") else text)
    return -1 if offset is None else offset
