"""What can be done to the state of a stopped query: backfill it to the end, drop what is empty.

The last committed version is followed by one that says the same in fewer old values: a manifest of
the same version and a new epoch, for a chunk of every partition at a time. Whatever ends the
process, the manifest that was published last is whole, and the next run goes on from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.budget import BackfillOptions, OnError
from statemigrate.deployment import StorePlan
from statemigrate.embedded.engine.batches import has_worked, tuned, tuner_of
from statemigrate.embedded.engine.ending import release_ended
from statemigrate.embedded.engine.plan import BatchPlan
from statemigrate.embedded.engine.report import PartitionReport
from statemigrate.embedded.engine.stores import OpenStores
from statemigrate.embedded.engine.task import retire_families, working_copy
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.storage.lock import DirectoryLock, checkpoint_locks
from statemigrate.embedded.versions.epochs import Epoch, claim
from statemigrate.embedded.versions.last import require_committed
from statemigrate.embedded.versions.manifest import Manifest, PartitionState
from statemigrate.embedded.versions.mirror import Mirror
from statemigrate.embedded.versions.presence import require_stopped
from statemigrate.embedded.versions.versions import publish_manifest
from statemigrate.embedded.working.directory import (
    given_directory,
    private_directory,
    remove_leftovers,
)
from statemigrate.embedded.working.partition import PartitionPlace, opened
from statemigrate.processor.garbage import few_collections
from statemigrate.processor.keys import KeyCodec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CHUNK = BackfillOptions(idle_milliseconds=2_000.0, initial_rows=20_000)
_LONGEST = 64
"""Changelogs after which a snapshot takes their place: each chunk's manifest names them all."""
Tick = Callable[[int, int], None]
Plans = Mapping[str, StorePlan]


@dataclass(frozen=True)
class StoppedBackfill:
    """What a backfill of a stopped query did: values migrated, and by family what is left."""

    migrated: int
    quarantined: int
    left: Mapping[str, int]


class StoppedQuery:
    """The state of a query that is not running, held so that it cannot be started meanwhile.

    ``version`` is the last committed batch; it stays the last one. Made by `stopped`.
    """

    def __init__(self, epoch: Epoch, manifest: Manifest, working: Path) -> None:
        self._layout = epoch.layout.within(working)
        self._mirror = Mirror(self._layout)
        self._mirror.bring(manifest.partitions)
        self._epoch = epoch
        self._manifest = manifest
        self._working = working

    @property
    def version(self) -> int:
        """The id of the last committed batch."""
        return self._manifest.version

    def backfill(
        self,
        plans: Plans,
        *,
        on_error: OnError = "raise",
        tick: Tick = lambda _done, _left: None,
    ) -> StoppedBackfill:
        """Migrate everything to the plans' targets, a chunk of each partition at a time.

        What was quarantined before is tried again. ``tick`` is told after each chunk how many
        values were migrated, and how many there are to migrate altogether. Raises `TransformError`
        for a value that does not migrate, unless ``on_error`` is "quarantine"; what was published
        before stays.
        """
        options = replace(_CHUNK, on_error=on_error)
        tuner = tuner_of(options, {})
        done, first, worked = 0, True, True
        while worked:
            plan = replace(self._plan(plans, options), tuner=tuner, first_of_run=first)
            reports = self._run(plan, snapshot=self._is_long())
            done += sum(report.backfilled for report in reports)
            documents = [asdict(report) for report in reports]
            worked, first = has_worked(documents), False
            tuner = tuner_of(options, tuned(plan, documents))
            tick(done, done + sum(self.left(plans).values()))
        # What is left of changelogs would be replayed one after the other.
        self._run(self._plan(plans, options), snapshot=True, backfill=False)
        return StoppedBackfill(done, self._quarantined(plans), self.left(plans))

    def retire(self, plans: Plans) -> tuple[str, ...]:
        """Drop the families that are empty, re-checked in every partition; their names."""
        names = {family.name for plan in plans.values() for family in plan.sources}
        empty = frozenset(name for name in names if self._manifest.is_empty(name))
        if empty:
            kept = {store: plan.without(empty) for store, plan in plans.items()}
            plan = replace(self._plan(kept, _CHUNK), retired=empty)
            self._run(plan, snapshot=False, backfill=False)
        return tuple(sorted(empty))

    def _is_long(self) -> bool:
        return any(len(state.changelogs) >= _LONGEST for state in self._manifest.partitions)

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
            tuner=tuner_of(options, {}),
            snapshot_every=1,
            first_of_run=False,
            processing_time=time.time_ns() // 1_000_000,
        )

    def _run(
        self, plan: BatchPlan, *, snapshot: bool, backfill: bool = True
    ) -> list[PartitionReport]:
        numbers = range(len(plan.partitions))
        with few_collections():
            reports = [self._partition(plan, n, snapshot, backfill) for n in numbers]
        self._epoch.require_own()
        if self._manifest.epoch >= self._epoch.number:
            self._epoch = self._epoch.following()
        before = self._manifest
        states = [PartitionState.from_json(report.state) for report in reports]
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
        return reports

    def _partition(
        self, plan: BatchPlan, number: int, snapshot: bool, backfill: bool
    ) -> PartitionReport:
        report = PartitionReport(number)
        place = PartitionPlace(
            number, plan.layout.partition(number), working_copy(plan.working, number)
        )
        with opened(place, plan.partitions[number], plan.version) as partition:
            stores = OpenStores(partition, plan, KeyCodec(self._key()))
            if backfill:
                stores.backfill(report)
            retire_families(partition, plan, number)
            report.state = partition.commit(snapshot=snapshot).to_json()
        return report

    def _key(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._manifest.key_schema)

    def left(self, plans: Plans) -> dict[str, int]:
        """By family, the values that are not in their target's format."""
        names = [family.name for plan in plans.values() for family in plan.sources]
        return {name: self._manifest.left(name) or 0 for name in names}

    def _quarantined(self, plans: Plans) -> int:
        names = [family.name for plan in plans.values() for family in plan.sources]
        states = self._manifest.partitions
        return sum(state.quarantined.get(name, 0) for state in states for name in names)


@contextmanager
def stopped(layout: Layout, *, working_directory: Path | None = None) -> Iterator[StoppedQuery]:
    """Hold a stopped query's state for the length of a block.

    Raises `CheckpointInUseError` while the query runs, and `CheckpointError` where nothing is
    committed.
    """
    require_committed(layout)
    release_ended()
    require_stopped(layout)
    locks = checkpoint_locks(layout)
    try:
        given = working_directory
        working = given_directory(given) if given else private_directory(layout)
        locks.append(DirectoryLock(working / "lock", "the working directory"))
        remove_leftovers(working)
        epoch = claim(layout)
        # Read again: a batch may have been committed before the epoch began.
        manifest = require_committed(layout, before=epoch.number)
        yield StoppedQuery(epoch, manifest, working)
    finally:
        for lock in reversed(locks):
            lock.release()
