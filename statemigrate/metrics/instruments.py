"""The instruments: one place for every name and unit. Durations are seconds, sizes bytes."""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from statemigrate.errors import StatemigrateError, TransformError

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider

    from statemigrate.embedded import BatchProgress
    from statemigrate.native import MigrationCounts


_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BYTES = tuple(float(4**power) for power in range(5, 16))
"""Bounds of the histograms' buckets: a batch takes milliseconds to minutes, and writes 1 KiB to
1 GiB."""


class Instruments:
    """What both engines record. Every point has the attributes ``query`` and ``engine``.

    ``migrated`` also has ``by``, "touch" or "backfill".
    """

    def __init__(self, meter: Meter) -> None:
        self.migrated = meter.create_counter(
            "statemigrate.values.migrated", "{value}", "Values moved to the target's format."
        )
        self.failed = meter.create_counter(
            "statemigrate.values.failed",
            "{value}",
            "Values whose transform failed: skipped by a backfill, or the end of their query.",
        )
        self.failed_batches = meter.create_counter(
            "statemigrate.batches.failed", "{batch}", "Batches whose error ended their query."
        )
        self.committed_at = meter.create_gauge(
            "statemigrate.commit.time", "s", "When the last batch was committed, in Unix seconds."
        )
        self.rows = meter.create_counter(
            "statemigrate.rows.processed", "{row}", "Input rows of the committed batches."
        )
        self.batch_duration = seconds(meter, "batch", "A batch, as the driver sees it.")
        self.commit_duration = seconds(
            meter,
            "commit",
            "Making state durable: embedded, the slowest partition; native, all of them together.",
        )

    def begin(self, query: Mapping[str, str]) -> None:
        """Record that nothing has failed: a first failure is seen as growth only after a zero."""
        self.failed.add(0, query)
        self.failed_batches.add(0, query)


class EmbeddedInstruments(Instruments):
    """What only the embedded engine knows.

    The gauges of values have ``store`` and ``family`` too, that of families ``store``.
    """

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self.left = meter.create_gauge(
            "statemigrate.values.left", "{value}", "Values still in an older family."
        )
        self.quarantined = meter.create_gauge(
            "statemigrate.values.quarantined", "{value}", "Values that failed, of those left."
        )
        self.older = meter.create_gauge(
            "statemigrate.families.older", "{family}", "Older families of a store that are there."
        )
        self.restore_duration = seconds(meter, "restore", "The slowest partition's restore.")
        self.live_duration = seconds(meter, "live", "The slowest partition's own rows.")
        self.backfill_duration = seconds(meter, "backfill", "The slowest partition's backfill.")
        self.largest = meter.create_gauge(
            "statemigrate.partition.largest", "{row}", "Input rows of the most loaded partition."
        )
        self.clean_up_failures = meter.create_counter(
            "statemigrate.clean_up.failures",
            "{batch}",
            "Batches after which old versions could not be removed; the log says why.",
        )
        self.kept = meter.create_gauge(
            "statemigrate.versions.kept", "{version}", "Versions of the state that are kept."
        )
        self.restorable = meter.create_gauge(
            "statemigrate.versions.restorable",
            "{version}",
            "Versions kept whose own files make them, as far as files were read back.",
        )
        self.damaged = meter.create_gauge(
            "statemigrate.files.damaged",
            "{file}",
            "Durable files that were read back and are missing or altered; the log names them.",
        )
        self.changelog = meter.create_histogram(
            "statemigrate.changelog.size",
            "By",
            "Changelogs of a batch, all partitions together.",
            explicit_bucket_boundaries_advisory=_BYTES,
        )


class NativeInstruments(Instruments):
    """What else Spark's progress has.

    Those of the state have ``operator``, its position in the query and its name; the phases have
    ``phase``, as Spark calls it.
    """

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self.planned = meter.create_gauge(
            "statemigrate.backfill.left", "{key}", "Planned keys that no chunk asked for yet."
        )
        self.phase_duration = seconds(meter, "batch.phase", "A part of a batch.")
        self.records = meter.create_gauge(
            "statemigrate.state.records", "{record}", "Records in the state, all families."
        )
        self.updated = meter.create_counter(
            "statemigrate.state.updated", "{record}", "Records written or overwritten."
        )
        self.memory = meter.create_gauge(
            "statemigrate.state.memory", "By", "Memory the state store uses."
        )


class SourceInstruments:
    """How far a query is behind its sources; the point has ``source``, its position and name."""

    def __init__(self, meter: Meter) -> None:
        self.lag = meter.create_gauge(
            "statemigrate.source.lag",
            "{offset}",
            "Offsets between the last batch and the newest, all partitions of a source together.",
        )


class StatusInstruments:
    """What a look from outside sees; every point has ``query``, the checkpoint's name.

    Those of values and scripts have ``engine`` and ``store`` too.
    """

    def __init__(self, meter: Meter) -> None:
        self.readable = meter.create_gauge(
            "statemigrate.status.readable", "1", "1 if the checkpoint could be read, else 0."
        )
        self.left = meter.create_gauge(
            "statemigrate.status.left", "{value}", "Values not in the deployed target's format."
        )
        self.behind = meter.create_gauge(
            "statemigrate.status.behind", "{script}", "Newer scripts that no code has deployed."
        )
        self.unknown = meter.create_gauge(
            "statemigrate.status.unknown",
            "1",
            "1 if the store's scripts are broken or lack the deployed revision, else 0.",
        )


def seconds(meter: Meter, what: str, description: str) -> Histogram:
    """The histogram ``statemigrate.<what>.duration``."""
    return meter.create_histogram(
        f"statemigrate.{what}.duration",
        "s",
        description,
        explicit_bucket_boundaries_advisory=_SECONDS,
    )


def meter_of(provider: MeterProvider | None) -> Meter:
    """The meter of statemigrate, of the global provider unless another is given.

    Raises `StatemigrateError` where OpenTelemetry's API is not installed.
    """
    try:
        from opentelemetry.metrics import get_meter
    except ModuleNotFoundError as error:
        raise StatemigrateError(
            "SM-PACKAGES-003",
            "metrics were asked for, and OpenTelemetry is not installed",
            expected="the package opentelemetry-api",
            found=str(error),
            next_action="pip install 'statemigrate[metrics]'",
        ) from error
    return get_meter("statemigrate", meter_provider=provider)


# Between a query and what records it: a failure to record is logged, and never ends the query.


_log = logging.getLogger("statemigrate.metrics")


class Recording:
    """Runs what records the events of one query.

    What an exporter or an instrument raises is logged, with its traceback, the first time. Once
    recording works again, the number of events that were not recorded is logged.
    """

    def __init__(self, query: str) -> None:
        self._query = query
        self._missed = 0

    def run(self, record: Callable[[], None], concerns: Callable[[], bool] = lambda: True) -> None:
        """Call ``record`` if the event ``concerns`` it; raises nothing that is an `Exception`."""
        try:
            # What is passed over does not show that an exporter works again.
            if not concerns():
                return
            record()
        except Exception:
            self._missed += 1
            if self._missed == 1:
                _log.exception(
                    "metrics of query %s cannot be recorded; the query goes on, and this is not "
                    "logged again until they can",
                    self._query,
                )
            return
        if self._missed:
            _log.warning(
                "metrics of query %s are recorded again; %d events were not, or not wholly",
                self._query,
                self._missed,
            )
            self._missed = 0


# What the workers have migrated, from one event of a query to the next.


@dataclass
class _Growth:
    read: Callable[[], int]
    seen: int
    counter: Counter
    attributes: Mapping[str, str]

    def record(self) -> None:
        now = self.read()
        self.counter.add(now - self.seen, self.attributes)
        # Only now: what could not be recorded is part of the next growth.
        self.seen = now


class CountsRecorder:
    """Records by how much the counts have grown since it was made, or last asked."""

    def __init__(
        self, counts: MigrationCounts, instruments: NativeInstruments, query: Mapping[str, str]
    ) -> None:
        by_touch, by_backfill = {**query, "by": "touch"}, {**query, "by": "backfill"}
        self._growths = [
            _Growth(lambda: counts.touched, counts.touched, instruments.migrated, by_touch),
            _Growth(
                lambda: counts.backfilled, counts.backfilled, instruments.migrated, by_backfill
            ),
            _Growth(lambda: counts.quarantined, counts.quarantined, instruments.failed, query),
        ]

    def record(self) -> None:
        """Record what was migrated and what failed since."""
        for growth in self._growths:
            growth.record()

    def skip(self) -> None:
        """Leave out what was counted since: the batch that did it was not committed."""
        for growth in self._growths:
            growth.seen = growth.read()


# Metrics of a query on the embedded engine.


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
        to, older = self._instruments, collections.Counter[str]()
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


# Metrics of looks at checkpoints from outside, which know of scripts that nobody deployed yet.


class _Behind(Protocol):
    @property
    def scripts(self) -> Sequence[str]: ...


class _Store(Protocol):
    @property
    def store(self) -> str: ...

    @property
    def left(self) -> int: ...

    @property
    def behind(self) -> _Behind | None: ...

    @property
    def state(self) -> str: ...


class _Status(Protocol):
    @property
    def engine(self) -> str: ...

    @property
    def stores(self) -> Sequence[_Store]: ...


class _Checkpoint(Protocol):
    @property
    def name(self) -> str: ...


class _Look(Protocol):
    @property
    def checkpoint(self) -> _Checkpoint: ...

    @property
    def status(self) -> _Status | None: ...


class Looks(Protocol):
    """What is recorded of a `Fleet`: metrics lie below what looks."""

    @property
    def looks(self) -> Sequence[_Look]:
        """What was found at each checkpoint."""


class StatusMetrics:
    """Records the results of `status_of_all` as gauges: pass each look to `record`.

    A running query knows only the scripts of its start. A look from the machine that has the
    scripts also finds newer ones. ``query`` is the checkpoint's name in every data point;
    ``meter_provider`` is OpenTelemetry's global one by default.

    Raises `StatemigrateError` unless ``statemigrate[metrics]`` is installed.
    """

    def __init__(self, *, meter_provider: MeterProvider | None = None) -> None:
        self._instruments = StatusInstruments(meter_of(meter_provider))
        self._recorded: dict[str, set[tuple[str, str]]] = {}

    def record(self, fleet: Looks) -> None:
        """Record one look at all checkpoints. For an unreadable one, only that is recorded."""
        for look in fleet.looks:
            self._record(look)

    def _record(self, look: _Look) -> None:
        query = {"query": look.checkpoint.name}
        self._instruments.readable.set(int(look.status is not None), query)
        if look.status is None:
            return
        found = {(look.status.engine, each.store): each for each in look.status.stores}
        # A store that is gone would keep its last numbers.
        stores = self._recorded.setdefault(look.checkpoint.name, set())
        stores.update(found)
        for engine, store in sorted(stores):
            each = found.get((engine, store))
            at = {**query, "engine": engine, "store": store}
            behind = None if each is None else each.behind
            self._instruments.left.set(0 if each is None else each.left, at)
            self._instruments.behind.set(0 if behind is None else len(behind.scripts), at)
            self._instruments.unknown.set(int(each is not None and each.state == "unknown"), at)
