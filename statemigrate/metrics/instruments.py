"""The instruments: one place for every name and unit. Durations are seconds, sizes bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider

    from statemigrate.native.deployed import MigrationCounts


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
