"""The driver's part of a micro-batch: plan it, run it, commit it, hand on its output."""

from __future__ import annotations

import logging
import math
import re
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate import errors
from statemigrate.budget import BackfillOptions, Chunk, Tuner
from statemigrate.checkpoint import Epoch
from statemigrate.deployment import DeploymentSettings, StorePlan, store_of
from statemigrate.embedded.batch_output import Frames, local_frame, most_with_report
from statemigrate.embedded.computed_batch import Computed
from statemigrate.embedded.continuation import batch_time, continued
from statemigrate.embedded.durable import confined, unwritable
from statemigrate.embedded.embedded_options import EmbeddedOptions
from statemigrate.embedded.layout import HEARTBEAT, Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.progress import BatchProgress, batch_progress
from statemigrate.embedded.read_back import IDLE_MS, SHARE, Readback, Restorable
from statemigrate.embedded.retention import Needs, remove_old_versions
from statemigrate.embedded.snapshot_verification import Proving
from statemigrate.embedded.task_plan import BatchPlan, BatchSchema, report_damages
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import StorageError
from statemigrate.event_log import Facts, Note, Stamp, StoreRevision, planned_revisions
from statemigrate.files import Files, whole_number
from statemigrate.processor import reader_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from statemigrate.embedded.offline import StoppedBackfill, StoppedQuery


# What the last batches of a run took. The next one's backfill takes a share of it.


_LAST = 9
"""Batches with rows that are looked back at: in four of ten a partition stores a snapshot."""


@dataclass(frozen=True)
class RecentBatches:
    """What a partition's part of each of the last batches with rows was, without backfill.

    While a backfill is under way batches without rows come between the others, and take less:
    ``idle_ms`` is the last one's part, and ``had_rows`` whether the last batch was another.
    """

    last: tuple[float, ...] = ()
    idle_ms: float = 0.0
    had_rows: bool = False

    @property
    def batch_ms(self) -> float:
        """Milliseconds that the part of one with rows takes, mostly; 0 before the first batch."""
        return statistics.median(self.last) if self.last else self.idle_ms

    def after(self, elapsed: float, reports: Sequence[dict[str, Any]], cores: int) -> RecentBatches:
        """The same after a batch that took ``elapsed`` milliseconds."""
        took = without_backfill(elapsed, reports, cores)
        if any(report["rows"] for report in reports):
            return replace(self, last=(*self.last, took)[-_LAST:], had_rows=True)
        return replace(self, idle_ms=took, had_rows=False)


def without_backfill(batch_ms: float, reports: Sequence[dict[str, Any]], cores: int) -> float:
    """What one partition's backfill is a share of; partitions that wait for a core share it.

    All partitions count as the slowest one: a backfill also slows down what runs at the same time.
    """
    waves = math.ceil(len(reports) / max(cores, 1))
    slowest: float = max(report["backfill_ms"] for report in reports)
    return max(0.0, batch_ms - waves * slowest) / waves


# Keeping batches coming while a backfill is under way and the input is idle.
#
# Spark runs no micro-batch without new data. Every embedded query therefore has a second source
# from its first day: a directory in its checkpoint. A file put there makes one more batch; its
# content is never read.


NAME = "statemigrate_heartbeat"
"""The source's name in a query whose sources have names."""


def with_heartbeat(stream: DataFrame, layout: Layout) -> DataFrame:
    """``stream`` joined with the heartbeat source; its rows are those of ``stream`` alone."""
    from pyspark.sql.functions import lit

    if layout.remote is None:
        with unwritable(layout.heartbeat):
            confined(layout.heartbeat).mkdir()
    # As a pattern, since Spark refuses to go on with a directory that was moved, but not with this.
    pattern = f"{_literally(layout.location)}/{HEARTBEAT}/*.txt"
    beats = reader_named(stream.sparkSession, NAME).text(pattern)
    nothing = [lit(None).cast(field.dataType).alias(field.name) for field in stream.schema.fields]
    return stream.unionAll(beats.where(lit(False)).select(*nothing))


def beat(layout: Layout, version: int) -> None:
    """Ask for one more batch after ``version``."""
    layout.files.put(f"{HEARTBEAT}/{version}.txt", f"{version}\n".encode())


def remove_old_beats(layout: Layout, newest: int, retain: int) -> None:
    """Remove the files of versions that are no longer retained."""
    layout.files.delete(
        entry.name
        for entry in layout.files.list(HEARTBEAT)
        if _is_before(entry.base_name, newest - retain)
    )


def _is_before(name: str, last: int) -> bool:
    version = whole_number(name.removesuffix(".txt")) if name.endswith(".txt") else None
    return version is not None and version <= last


def _literally(path: str) -> str:
    # A file source reads its path as a pattern.
    return re.sub(r"([][{}*?\\])", r"\\\1", path)


# What goes into the event log: the stores of a manifest, and those of plans.


def facts_of(committed: Manifest | None) -> Facts:
    """What a version says of its stores; nothing before the first."""
    if committed is None:
        return Facts()
    stores = {name: StoreRevision.of_stored(each) for name, each in committed.stores.items()}
    return Facts(stores, committed.version)


def note_retired(stamp: Stamp | None, files: Files, plan: BatchPlan) -> None:
    """Note what a batch dropped; where that fails the next start does, and no batch ends for it."""
    if stamp is None:
        return
    names = {store_of(name) for name in plan.retired}
    changed = {name: each for name, each in plan.stores.items() if name in names}
    try:
        dropped = ", ".join(sorted(plan.retired))
        Note(stamp, planned_revisions(changed)).retired(files, plan.version, dropped)
    except StorageError as error:
        _log.warning("%s", error)


Sink = Callable[["DataFrame", int], None]
Plans = dict[str, StorePlan]


@dataclass(frozen=True)
class Engine:
    """What stays the same from batch to batch: places, code, schemas, settings, the epoch.

    ``times`` has by batch the processing time, for those that are run again at another time.
    """

    layout: Layout
    working: str
    processor: Any
    schema: BatchSchema
    settings: DeploymentSettings
    options: EmbeddedOptions
    sink: Sink
    epoch: Epoch
    stamp: Stamp | None = None
    frames: Frames = local_frame
    times: Mapping[int, int] = field(default_factory=dict)

    def time_of(self, batch: int) -> int:
        """The processing time of a batch, in milliseconds since the epoch."""
        return self.times[batch] if batch in self.times else batch_time(self.layout, batch)


class Batches:
    """Runs the micro-batches of one query; its `run` is what ``foreachBatch`` calls."""

    def __init__(self, engine: Engine, planned: Callable[[Manifest | None], Plans]) -> None:
        self._engine = engine
        self._planned = planned
        self._stores: Plans = {}
        self._last_manifest: Manifest | None = None
        self._needs: dict[tuple[int, int], Needs] = {}
        self._mirror = Mirror(engine.layout, reads_back=engine.options.shared_path)
        self._readback = Readback(engine.layout, engine.options.retain)
        self._proving = Proving(engine.layout.here, Path(engine.working))
        self._first = True
        self._recent_batches = RecentBatches()
        self.progress: deque[BatchProgress] = deque(maxlen=_RECENT)
        self.error: BaseException | None = None

    def run(self, rows: DataFrame, batch: int) -> None:
        """Turn state version ``batch - 1`` into ``batch`` and hand the output to the sink."""
        try:
            self._run(rows, batch)
        except BaseException as error:
            # Spark passes on only the text; the waiting caller raises the error itself.
            self.error = error
            if self._engine.options.metrics is not None:
                self._engine.options.metrics.failed(error)
            raise

    def _run(self, rows: DataFrame, batch: int) -> None:
        began = time.monotonic()
        committed = self._continued(batch)
        if self._first:
            self._stores = self._planned(committed)
            self._readback.begin()
        before = self._empty() if committed is None else committed
        if before is not self._last_manifest:
            before = replace(before, partitions=self._mirror.bring(before.partitions))
        plan = self._plan(before, batch)
        with Computed(rows, plan, self._engine.schema, self._engine.processor) as computed:
            with self._mirror.explained():
                reports = computed.reports()
                for report in reports:
                    report_damages(report["damages"], self._mirror.location_in_checkpoint)
                output = computed.output(self._engine.frames)
                manifest = self._commit(before, plan, reports)
            self._engine.sink(output, batch)
        # A sink may take long. Spark's commit would be in the way of a query that has started
        # meanwhile, and runs this batch again.
        self._engine.epoch.require_newest()
        self._first, self._last_manifest = False, manifest
        elapsed = (time.monotonic() - began) * 1000
        cores = rows.sparkSession.sparkContext.defaultParallelism
        self._recent_batches = self._recent_batches.after(elapsed, reports, cores)
        self._after(before, manifest, plan, reports, elapsed)

    def close(self) -> None:
        """Leave what was being read; no batch comes after it."""
        self._proving.close()

    def _continued(self, batch: int) -> Manifest | None:
        """The version before ``batch``: this writer's own, or else the one that is found."""
        if self._last_manifest is not None and self._last_manifest.version == batch - 1:
            return self._last_manifest
        self._engine.epoch.require_own()
        try:
            return continued(self._engine.layout, batch, before=self._engine.epoch.number)
        except errors.CheckpointError:
            # A query that has begun since may have gone on there: then nothing is restored.
            self._engine.epoch.require_newest()
            raise

    def _empty(self) -> Manifest:
        states = (PartitionState(),) * self._engine.options.partitions
        return Manifest(-1, self._engine.schema.key.jsonValue(), states, {}, {})

    def _plan(self, before: Manifest, batch: int) -> BatchPlan:
        retired = self._retirable(before)
        return BatchPlan(
            version=batch,
            layout=self._engine.layout.here,
            working=self._engine.working,
            partitions=before.partitions,
            stores={name: store.without(retired) for name, store in self._stores.items()},
            retired=retired,
            write_on_read=self._engine.settings.write_on_read,
            backfill=self._engine.options.backfill,
            tuner=tuner_of(self._engine.options.backfill, before.backfill),
            snapshot_every=self._engine.options.snapshot_every,
            first_of_run=self._first,
            processing_time=self._engine.time_of(batch),
            batch_ms=self._recent_batches.batch_ms,
            after_rows=self._recent_batches.had_rows,
            proving=self._proving.under_way,
            doubtful=self._proving.doubtful,
            lost=self._readback.lost_of(before),
            output_with_report=most_with_report(
                self._engine.schema.output, self._engine.options.partitions
            ),
        )

    def _retirable(self, before: Manifest) -> frozenset[str]:
        """Families to drop: drained in every partition of the committed version before."""
        # What the first release noted is looked at by a batch before it is acted on.
        if not (self._engine.options.retire_drained and before.is_counted):
            return frozenset()
        names = {family.name for store in self._stores.values() for family in store.sources}
        return frozenset(name for name in names if before.version >= 0 and before.is_empty(name))

    def _commit(self, before: Manifest, plan: BatchPlan, reports: list[dict[str, Any]]) -> Manifest:
        stores = {name: store.stored() for name, store in plan.stores.items()}
        reported = [PartitionState.from_json(report["state"]) for report in reports]
        states = self._proving.applied(reported)
        self._engine.epoch.require_own()
        manifest = Manifest(
            plan.version,
            self._engine.schema.key.jsonValue(),
            self._mirror.hand_over(plan.version, before.partitions, states),
            {**before.stores, **stores},
            tuned(plan, reports),
            self._engine.epoch.number,
        )
        publish_manifest(self._engine.layout, manifest)
        self._needs[manifest.version, manifest.epoch] = Needs.of(manifest)
        # Again: a query that has begun an epoch since may not know this version, and hands over
        # the batch's output itself.
        self._engine.epoch.require_newest()
        return manifest

    def _after(
        self,
        before: Manifest,
        manifest: Manifest,
        plan: BatchPlan,
        reports: list[dict[str, Any]],
        batch_ms: float,
    ) -> None:
        self._stores = plan.stores
        sources = {
            name: [family.name for family in store.sources] for name, store in plan.stores.items()
        }
        retired = sorted(plan.retired)
        if retired:
            note_retired(self._engine.stamp, self._engine.layout.files, plan)
        progress = batch_progress(manifest, reports, sources, retired, batch_ms)
        if self._engine.options.backfill.enabled and (
            has_worked(reports) or self._retirable(manifest)
        ):
            beat(self._engine.layout, plan.version)
        progress = replace(
            progress,
            clean_up_failed=not self._cleaned_up(before, manifest),
            versions=self._read_back(manifest, progress),
        )
        self.progress.append(progress)
        # Last: what fails before it fails the batch, which is then run and recorded again.
        if self._engine.options.metrics is not None:
            self._engine.options.metrics.committed(progress)

    def _read_back(self, manifest: Manifest, progress: BatchProgress) -> Restorable:
        """Read some durable files back; what keeps them from being read ends no batch."""
        self._readback.committed(manifest)
        try:
            self._proving.committed(manifest)
            self._proving.read(0.0 if progress.rows else IDLE_MS)
            if manifest.version % self._engine.options.snapshot_every == 0:
                self._readback.tidy()
            self._readback.read(IDLE_MS if not progress.rows else SHARE * progress.batch_ms)
        except Exception:
            where = errors.without_credentials(self._engine.layout.files.location)
            _log.warning("files of %s cannot be read back", where, exc_info=True)
        return self._readback.restorable

    def _cleaned_up(self, before: Manifest, manifest: Manifest) -> bool:
        """Remove what is old, if it is time to; False where that failed, which ends no batch."""
        options, version = self._engine.options, manifest.version
        if version % options.snapshot_every != 0:
            return True
        try:
            held = (before, manifest)
            self._mirror.prune(each.partitions for each in held)
            last = version - options.retain - options.snapshot_every
            self._needs = {each: needs for each, needs in self._needs.items() if each[0] > last}
            remove_old_versions(self._engine.layout, version, options.retain, held, self._needs)
            remove_old_beats(self._engine.layout, version, options.retain)
        except Exception:
            _log.warning(
                "old versions of %s cannot be removed; the query goes on, the next batches try "
                "again, and meanwhile more is kept than asked for",
                errors.without_credentials(self._engine.layout.files.location), exc_info=True,
            )  # fmt: skip
            return False
        return True


_log = logging.getLogger("statemigrate.embedded")
_RECENT = 10_000
"""Batches whose figures are kept: a query runs for months, and its memory must not grow."""


def has_worked(reports: list[dict[str, Any]]) -> bool:
    """Whether the backfill got further, so that another batch may too."""
    return any(report["backfilled"] or report["quarantined"] for report in reports)


def tuner_of(options: BackfillOptions, stored: dict[str, Any]) -> Tuner:
    """The tuner as the last batch left it, from what the manifest has of it."""
    tuner = Tuner.start(options)
    # Without a rate nothing was learned, and the options may have changed since.
    if not stored or stored["rows_per_millisecond"] is None:
        return tuner
    rows = min(stored["rows"], options.maximum_rows)
    return replace(tuner, rows=rows, rows_per_millisecond=stored["rows_per_millisecond"])


def tuned(plan: BatchPlan, reports: list[dict[str, Any]]) -> dict[str, Any]:
    """What the manifest keeps of the tuner after a batch."""
    tuner = plan.tuner
    chunked = [report for report in reports if report["chunk"]]
    if chunked:
        # One observation a batch, the largest chunk's: a budget is one partition's.
        largest = max(chunked, key=lambda report: report["chunk"]["migrated"])
        live = plan.shared_batch_ms(largest["rows"], largest["live_ms"])
        seen = tuner.observe(Chunk(**largest["chunk"]), live)
        # Time bounds a chunk of a batch without rows; the next one, in a batch with rows, is not
        # to begin again with as few.
        tuner = seen if live else replace(seen, rows=max(seen.rows, tuner.rows))
    return {"rows": tuner.rows, "rows_per_millisecond": tuner.rows_per_millisecond}


# The end of a run that ends by itself: what no row has touched is migrated too, and dropped.
#
# A nightly run has few batches, and each of them backfills only a part. Once Spark has committed
# the last one nothing else writes to the state, and the rest is done as for a stopped query: chunk
# by chunk, each of them committed by itself.


@dataclass(frozen=True)
class LastBatchState:
    """The state after the last batch, and how its stores are to be accessed."""

    query: StoppedQuery
    manifest: Manifest
    plans: Mapping[str, StorePlan]

    def is_empty(self) -> bool:
        """Whether no family but the targets holds a value."""
        names = [family.name for plan in self.plans.values() for family in plan.sources]
        # What the first release noted is counted again before it is acted on.
        return self.manifest.is_counted and all(self.manifest.is_empty(name) for name in names)


class Drain:
    """A backfill to the end, made once; ``last_state`` opens the state, if there is any."""

    def __init__(
        self, last_state: Callable[[], LastBatchState | None], options: EmbeddedOptions
    ) -> None:
        self._last_state = last_state
        self._options = options
        self._cancelled = threading.Event()
        self.done: StoppedBackfill | None = None
        self.error: Exception | None = None

    def cancel(self) -> None:
        """End it after the chunk that is being migrated, which is kept."""
        self._cancelled.set()

    def run(self) -> None:
        """Migrate what is left, then drop what is empty; an error is kept for who waits."""
        try:
            self._run()
        except _CancelledError:
            # Each chunk is committed: the next run goes on from there.
            return
        except Exception as error:
            self.error = error

    def _run(self) -> None:
        self._go_on()
        last_state = self._last_state()
        if last_state is None or not any(plan.sources for plan in last_state.plans.values()):
            return
        if not last_state.is_empty():
            on_error = self._options.backfill.on_error
            self.done = last_state.query.backfill(
                last_state.plans, on_error=on_error, tick=self._go_on
            )
        if self._options.retire_drained:
            last_state.query.retire(last_state.plans)

    def _go_on(self, *_figures: int) -> None:
        if self._cancelled.is_set():
            raise _CancelledError


class _CancelledError(Exception):
    """The query was stopped meanwhile."""


def drains(options: EmbeddedOptions, trigger: Mapping[str, object]) -> bool:
    """Whether a run with this trigger is to end with nothing left."""
    ends = bool(trigger.get("availableNow") or trigger.get("once"))
    return ends and options.backfill.enabled and options.backfill.drain
