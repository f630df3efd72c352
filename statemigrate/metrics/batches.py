"""Metrics of a query on the embedded engine."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from statemigrate.errors import TransformError
from statemigrate.metrics.instruments import EmbeddedInstruments, Recording, meter_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from statemigrate.embedded.progress import BatchProgress


class EmbeddedMetrics:
    """Records each batch of one `EmbeddedQuery`.

    Pass it as ``EmbeddedOptions(metrics=EmbeddedMetrics("sales"))``.

    ``query`` is the name of the query in every data point; ``meter_provider`` is OpenTelemetry's
    global one by default. A batch is recorded when it is committed and its sink has returned. If
    the process ends before Spark commits the batch and Spark runs it again, it is recorded again.
    Errors of an exporter are logged and never end the query.

    Raises `StatemigrateError` unless ``statemigrate[metrics]`` is installed.
    """

    def __init__(self, query: str, *, meter_provider: MeterProvider | None = None) -> None:
        self._query = {"query": query, "engine": "embedded"}
        self._instruments = EmbeddedInstruments(meter_of(meter_provider))
        self._recording = Recording(query)
        self._seen: set[tuple[str, str]] = set()
        self._recording.run(partial(self._instruments.begin, self._query))

    def committed(self, progress: BatchProgress) -> None:
        """See `statemigrate.embedded.progress.BatchObserver`."""
        self._recording.run(partial(self._record, progress))

    def failed(self, error: BaseException) -> None:
        """Count a batch that ended its query, and the value if it was one that did."""
        self._recording.run(partial(self._record_failure, error))

    def _record_failure(self, error: BaseException) -> None:
        self._instruments.failed_batches.add(1, self._query)
        if isinstance(error, TransformError):
            self._instruments.failed.add(1, self._query)

    def _record(self, progress: BatchProgress) -> None:
        to, query = self._instruments, self._query
        to.migrated.add(progress.touched, {**query, "by": "touch"})
        to.migrated.add(progress.backfilled, {**query, "by": "backfill"})
        to.failed.add(progress.quarantined, query)
        to.rows.add(progress.rows, query)
        to.largest.set(progress.largest_rows, query)
        to.changelog.record(progress.changelog_bytes, query)
        to.clean_up_failures.add(int(progress.clean_up_failed), query)
        to.committed_at.set(time.time(), query)
        to.kept.set(progress.versions.kept, query)
        to.restorable.set(progress.versions.restorable, query)
        to.damaged.set(progress.versions.damaged, query)
        self._record_families(progress)
        self._record_durations(progress)

    def _record_families(self, progress: BatchProgress) -> None:
        to, older = self._instruments, Counter[str]()
        here = {(each.store, each.family): each for each in progress.families}
        # What was dropped is in no progress any more: its last numbers would stay.
        self._seen |= here.keys()
        for store, family in sorted(self._seen):
            found = here.get((store, family))
            place = {**self._query, "store": store, "family": family}
            to.left.set(found.left if found else 0, place)
            to.quarantined.set(found.quarantined if found else 0, place)
            older[store] += found is not None and family not in progress.retired
        for store, number in older.items():
            to.older.set(number, {**self._query, "store": store})

    def _record_durations(self, progress: BatchProgress) -> None:
        to = self._instruments
        to.batch_duration.record(progress.batch_ms / 1000, self._query)
        to.restore_duration.record(progress.restore_ms / 1000, self._query)
        to.live_duration.record(progress.live_ms / 1000, self._query)
        to.backfill_duration.record(progress.backfill_ms / 1000, self._query)
        to.commit_duration.record(progress.commit_ms / 1000, self._query)
