"""What can be done to the state of a stopped query: backfill it to the end, drop what is empty.

The last committed version is followed by one that says the same in fewer old values: a manifest of
the same version and a new epoch for each chunk of a partition. Whatever ends the
process, the manifest that was published last is whole, and the next run goes on from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from statemigrate.budget import BackfillOptions, Chunk, OnError, Tuner
from statemigrate.checkpoint import Epoch
from statemigrate.deployment import StorePlan
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import (
    DirectoryLock,
    Layout,
    checkpoint_locks,
    given_directory,
    private_directory,
    remove_stale_copies,
)
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.partition import Partition
from statemigrate.embedded.processes import Waiting, Work, cores, shared_out
from statemigrate.embedded.task_plan import (
    BatchPlan,
    PartitionReport,
    PartitionStores,
    opened_for,
    report_damages,
    retire_families,
)
from statemigrate.embedded.versions import claim, publish_manifest, require_stopped
from statemigrate.processor import TupleKeyCodec

# What is done to one partition of a stopped query, in whichever process, step by step.


@dataclass(frozen=True)
class Emptying:
    """Migrates a partition to the plan's targets, chunk after chunk.

    ``key`` is the type of the grouping key, as JSON values. After ``longest`` changelogs a snapshot
    takes their place: each chunk's manifest names them all.
    """

    plan: BatchPlan
    key: Any
    longest: int

    def __call__(self, number: int) -> Iterator[dict[str, Any]]:
        """A report for each chunk, once it is durable; the last one leaves a snapshot."""
        with opened_for(self.plan, number) as partition:
            stores = _stores(partition, self.plan, self.key)
            tuner, finished = self.plan.tuner, False
            while not finished:
                report = PartitionReport(number)
                finished = stores.migrate(report, tuner.budget(0.0))
                if finished:
                    state = partition.commit(snapshot=True)
                else:
                    state = partition.publish(snapshot=partition.changelogs >= self.longest)
                report.state = state.to_json()
                report.damages = [asdict(each) for each in partition.damages]
                tuner = _observed(tuner, report)
                yield asdict(report)


@dataclass(frozen=True)
class Retiring:
    """Drops a partition's families that the plan retires, re-checked to be empty."""

    plan: BatchPlan
    key: Any

    def __call__(self, number: int) -> Iterator[dict[str, Any]]:
        """One report."""
        report = PartitionReport(number)
        with opened_for(self.plan, number) as partition:
            _stores(partition, self.plan, self.key)
            retire_families(partition, self.plan, number)
            report.state = partition.commit(snapshot=False).to_json()
            report.damages = [asdict(each) for each in partition.damages]
        yield asdict(report)


def _stores(partition: Partition, plan: BatchPlan, key: Any) -> PartitionStores:
    return PartitionStores(partition, plan, partial(_keys, key))


def _keys(key: Any) -> TupleKeyCodec:
    # PySpark takes longer to load than little state takes to migrate, and is for errors alone.
    from pyspark.sql.types import StructType

    return TupleKeyCodec(StructType.fromJson(key))


def _observed(tuner: Tuner, report: PartitionReport) -> Tuner:
    return tuner if report.chunk is None else tuner.observe(Chunk(**report.chunk), 0.0)


# The queries of this process that run, or have ended and still hold what they held.


class Holding(Protocol):
    """A query that holds something, such as locks, until its end."""

    def has_ended(self) -> bool:
        """Whether it runs no longer."""

    def release(self) -> None:
        """Let go of what it holds."""


_holding: set[Holding] = set()


def register_holding(query: Holding) -> None:
    """Note a query that holds something from now on."""
    _holding.add(query)


def note_released(query: Holding) -> None:
    """Note that it has let go."""
    _holding.discard(query)


def release_ended() -> None:
    """Release what ended queries of this process hold, whether or not a caller waited.

    Each releases its locks by itself, a moment after its end; who starts the next one at once, as
    after ``awaitAnyTermination``, must not depend on which is faster.
    """
    for each in list(_holding):
        if each.has_ended():
            each.release()


_CHUNK = BackfillOptions(idle_milliseconds=2_000.0, initial_rows=20_000)
_LONGEST = 64
"""Changelogs after which a snapshot takes their place: each chunk's manifest names them all."""
_FEW, _LITTLE = 50_000, 16 << 20
"""Values to migrate, and bytes to replay, for which no other process is worth its start."""
Tick = Callable[[int, int], None]
Plans = Mapping[str, StorePlan]


@dataclass(frozen=True)
class StoppedBackfill:
    """The backfill of a stopped query: the migrated values, and the values left by family."""

    migrated: int
    quarantined: int
    left: Mapping[str, int]


class StoppedQuery:
    """The state of a query that is not running, held so that it cannot be started meanwhile.

    ``version`` is the last committed batch; it stays the last one. Made by `stopped`.
    """

    def __init__(self, epoch: Epoch, manifest: Manifest, working: Path) -> None:
        self._layout = Layout.over(epoch.files).within(working)
        self._mirror = Mirror(self._layout)
        self._epoch = epoch
        self._manifest = replace(manifest, partitions=self._mirror.bring(manifest.partitions))
        self._working = working
        self._waiting = Waiting()

    @property
    def version(self) -> int:
        """The id of the last committed batch."""
        return self._manifest.version

    def expect_much(self) -> None:
        """Start the processes of a backfill during its planning, if there may be much to do."""
        records = sum(map(_about, self._manifest.partitions))
        if records >= _FEW:
            self._waiting.start(min(cores(), len(self._manifest.partitions)), Emptying.__module__)

    def close(self) -> None:
        """End the processes that were started for nothing."""
        self._waiting.end()

    def backfill(
        self,
        plans: Plans,
        *,
        on_error: OnError = "raise",
        tick: Tick = lambda _done, _left: None,
    ) -> StoppedBackfill:
        """Migrate everything to the plans' targets, in all partitions at once, chunk by chunk.

        What was quarantined before is tried again. ``tick`` gets after each chunk how many
        values were migrated, and how many there are to migrate altogether. Raises `TransformError`
        for a value that does not migrate, unless ``on_error`` is "quarantine"; what was published
        before stays.
        """
        plan = replace(self._plan(plans, replace(_CHUNK, on_error=on_error)), first_of_run=True)
        done = 0
        for report in self._reports(Emptying(plan, self._manifest.key_schema, _LONGEST), plans):
            self._publish([report], plan)
            done += report.backfilled
            tick(done, done + self._about_left(plans))
        return StoppedBackfill(done, self._quarantined(plans), self.left(plans))

    def retire(self, plans: Plans) -> tuple[str, ...]:
        """Drop the families that are empty, re-checked in every partition; their names.

        The complements that a plan gives up are dropped with them, whatever they hold.
        """
        names = {family.name for plan in plans.values() for family in plan.sources}
        empty = frozenset(name for name in names if self._manifest.is_empty(name))
        if empty or any(plan.dropped for plan in plans.values()):
            kept = {store: plan.without(empty) for store, plan in plans.items()}
            plan = replace(self._plan(kept, _CHUNK), retired=empty)
            # In one manifest: a family is everywhere, or nowhere.
            retiring = Retiring(plan, self._manifest.key_schema)
            self._publish(list(self._reports(retiring, kept)), plan)
        return tuple(sorted(empty))

    def _reports(self, work: Work, plans: Plans) -> Iterator[PartitionReport]:
        partitions = self._manifest.partitions
        replayed = sum(each.file.size for state in partitions for each in state.changelogs)
        is_small = self._about_left(plans) < _FEW and replayed < _LITTLE
        processes = 1 if is_small else cores()
        documents = shared_out(work, range(len(partitions)), processes, self._waiting)
        with closing(documents):
            for _, document in documents:
                yield PartitionReport(**document)

    def _plan(self, plans: Plans, options: BackfillOptions) -> BatchPlan:
        return BatchPlan(
            version=self._manifest.version,
            layout=self._layout.here,
            working=str(self._working),
            partitions=self._manifest.partitions,
            stores=dict(plans),
            retired=frozenset(),
            write_on_read=True,
            backfill=options,
            tuner=Tuner.start(options),
            snapshot_every=1,
            first_of_run=False,
            processing_time=time.time_ns() // 1_000_000,
        )

    def _publish(self, reports: Iterable[PartitionReport], plan: BatchPlan) -> None:
        before = self._manifest
        states = list(before.partitions)
        for report in reports:
            report_damages(report.damages, self._mirror.location_in_checkpoint)
            # Who works on a partition to its end does not know where its changelogs have gone.
            packs = states[report.partition].packs
            states[report.partition] = PartitionState.from_json(report.state).packed(packs)
        self._epoch.require_own()
        if self._manifest.epoch >= self._epoch.number:
            self._epoch = self._epoch.following()
        self._manifest = replace(
            before,
            epoch=self._epoch.number,
            partitions=self._mirror.hand_over(before.version, before.partitions, states),
            stores={
                **self._manifest.stores,
                **{name: store.stored() for name, store in plan.stores.items()},
            },
        )
        publish_manifest(self._layout, self._manifest)
        self._epoch.require_newest()

    def left(self, plans: Plans) -> dict[str, int]:
        """By family, the values that are not in their target's format."""
        names = [family.name for plan in plans.values() for family in plan.sources]
        return {name: self._manifest.left(name) or 0 for name in names}

    def _about_left(self, plans: Plans) -> int:
        """The sum of `left`, also before every partition has counted."""
        names = [family.name for plan in plans.values() for family in plan.sources]
        return sum(each.about(name) for each in self._manifest.partitions for name in names)

    def _quarantined(self, plans: Plans) -> int:
        names = [family.name for plan in plans.values() for family in plan.sources]
        states = self._manifest.partitions
        return sum(state.quarantined.get(name, 0) for state in states for name in names)


def _about(state: PartitionState) -> int:
    """How many records a partition has, or may have at the most, in all of its families."""
    return sum(map(state.about, state.entries))


@contextmanager
def stopped(layout: Layout, *, working_directory: Path | None = None) -> Iterator[StoppedQuery]:
    """Hold a stopped query's state for the length of a block.

    Raises `CheckpointInUseError` while the query runs, and `CheckpointError` where nothing is
    committed.
    """
    require_committed(layout)
    with locked(layout, working_directory) as working:
        epoch = claim(layout)
        # Read again: a batch may have been committed before the epoch began.
        manifest = require_committed(layout, before=epoch.number)
        with closing(StoppedQuery(epoch, manifest, working)) as query:
            yield query


@contextmanager
def locked(layout: Layout, working_directory: Path | None) -> Iterator[Path]:
    """Keep a stopped query from starting for the length of a block; the directory to work in.

    Raises `CheckpointInUseError` while the query runs.
    """
    release_ended()
    require_stopped(layout)
    locks = checkpoint_locks(layout)
    try:
        given = working_directory
        working = given_directory(given) if given else private_directory(layout)
        locks.append(DirectoryLock(working / "lock", "the working directory"))
        remove_stale_copies(working)
        yield working
    finally:
        for lock in reversed(locks):
            lock.release()
