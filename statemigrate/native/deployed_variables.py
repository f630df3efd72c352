"""What travels to the workers with a processor: scripts, settings, and what the state holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from statemigrate.access import DualAccess
from statemigrate.deployment import (
    Declared,
    DeploymentSettings,
    StoredFamily,
    StoredStore,
    StorePlan,
    family_name,
    plan_store,
)
from statemigrate.errors import StatemigrateError
from statemigrate.event_log import Note
from statemigrate.files import has_jvm
from statemigrate.migration import Lineage
from statemigrate.native.deployment_check import (
    BATCH,
    QUERY,
    ObservedCheckpoint,
    RunOnVariables,
    StoreRecord,
    begin_run,
    is_planning,
)

if TYPE_CHECKING:
    from pyspark import SparkContext


# How long tasks are busy with the keys that a backfill asks for, and how long with all.
#
# Spark tells how long a batch took and nothing of its parts. In a task live rows and those of the
# backfill come one after the other, at the same moment of the same machine: so what each takes is
# measured in one batch alone, however slow the machine is in it.


_REMEMBERED_BATCHES = 16
"""Batches whose work is kept until somebody asks for it."""
_WorkByBatch = dict[tuple[str | None, str | None], "Work"]
_TOTALS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


@dataclass(frozen=True)
class Work:
    """What a batch's tasks did, in milliseconds.

    ``spans`` are from when to when each was busy with keys, since 1970, and ``asked`` is how long
    all of them together were so with keys that only the backfill asked for.
    """

    asked: float
    spans: tuple[tuple[float, float], ...]

    def __add__(self, other: Work) -> Work:
        """What both did."""
        return Work(self.asked + other.asked, self.spans + other.spans)

    @property
    def asked_by_clock(self) -> float:
        """What the backfill's keys took by the clock."""
        # So many run side by side that all are done in so many rounds.
        return self.asked * ceil(len(self.spans) / self._side_by_side) / len(self.spans)

    @property
    def _side_by_side(self) -> int:
        starts_and_ends = sorted(
            [(began, 1) for began, _ in self.spans] + [(ended, -1) for _, ended in self.spans]
        )
        return max(1, *accumulate(step for _, step in starts_and_ends))


class Stopwatch:
    """Of one task: each moment counts for the visit that ends next.

    What Spark does between two visits, to fetch rows and to move on to another key, is done for the
    one that follows. The first visit takes many times what others take, as much is only done then:
    it would come without a backfill too, so it never counts as asked for.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._began = self._since = 0.0
        self._asked = 0.0
        self._is_first = True

    def begin(self) -> None:
        """A visit begins; of the first one this is where the task's time begins."""
        if not self._began:
            self._began = self._since = self._clock()

    def end(self, *, asked: bool) -> None:
        """A visit ends; ``asked`` says that it was for the backfill alone."""
        now = self._clock()
        if asked and not self._is_first:
            self._asked += now - self._since
        self._since, self._is_first = now, False

    @property
    def work(self) -> Work | None:
        """What was found so far; None without a visit."""
        if not self._began:
            return None
        began, ended = self._began * 1000, self._since * 1000
        return Work(self._asked * 1000, ((began, ended),))


class _ByBatch:
    """How Spark is to add such figures: by query and batch."""

    def zero(self, value: _WorkByBatch) -> _WorkByBatch:  # noqa: ARG002 - as Spark calls it
        return {}

    def addInPlace(self, value1: _WorkByBatch, value2: _WorkByBatch) -> _WorkByBatch:
        merged = dict(value1)
        for batch, work in value2.items():
            merged[batch] = merged[batch] + work if batch in merged else work
        return dict(list(merged.items())[-_REMEMBERED_BATCHES:])


def total_of(context: SparkContext) -> Any:
    """The accumulator of a session's work, by query and batch."""
    if context not in _TOTALS:
        adding: Any = _ByBatch()
        _TOTALS[context] = context.accumulator({}, adding)
    return _TOTALS[context]


def add_work(total: Any, work: Work) -> None:
    """Add a task's work to the total of its batch."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return
    batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    total.add({batch: work})


def work_of(context: SparkContext, query: str, batch: int) -> Work | None:
    """The work of a batch; None where its tasks reported nothing."""
    work_by_batch: _WorkByBatch = total_of(context).value
    return work_by_batch.get((query, str(batch)))


# Counting what is migrated, as far as Spark lets one count.
#
# The workers' counts come back through Spark's accumulators, once a task. A task that is run twice
# counts twice: for watching a migration, never for deciding that one is done.


@dataclass(frozen=True)
class MigrationCounts:
    """Entries migrated by touch, by the backfill, and failed, in this driver's life."""

    touched_total: Any
    backfilled_total: Any
    quarantined_total: Any
    work_total: Any = None

    @classmethod
    def of_session(cls) -> MigrationCounts | None:
        """Counters of the active session; None where there is none, or none that has them."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None or not has_jvm(session):
            return None
        context = session.sparkContext
        touched, backfilled, quarantined = (context.accumulator(0) for _ in range(3))
        return cls(touched, backfilled, quarantined, total_of(context))

    @property
    def touched(self) -> int:
        """Entries migrated because the stream read or wrote them."""
        return int(self.touched_total.value)

    @property
    def backfilled(self) -> int:
        """Entries migrated by control rows."""
        return int(self.backfilled_total.value)

    @property
    def quarantined(self) -> int:
        """Entries a control row asked for whose transform failed; they stay where they are."""
        return int(self.quarantined_total.value)

    def add(self, accesses: Iterable[DualAccess[Any]], quarantined: int, work: Work | None) -> None:
        """Add what a task's dual accesses counted, and how long it was busy."""
        counts = [access.counts for access in accesses]
        self.touched_total.add(sum(each.touched for each in counts))
        self.backfilled_total.add(sum(each.backfilled for each in counts))
        self.quarantined_total.add(quarantined)
        if self.work_total is not None and work is not None:
            add_work(self.work_total, work)


DEPLOYED = "__statemigrate_deployed__"
COUNTED = "__statemigrate_counts__"


@dataclass(frozen=True)
class Deployed:
    """A processor's deployment on Spark's own state.

    ``stored`` says what the checkpoint holds, by store; None where no checkpoint was given, or
    nothing was committed in it, so that every revision may have values. ``drained`` are the
    families, by store, that were found empty: they are not read any more, and dropped if the
    settings say so. ``observed`` is where all this was read, and ``records`` what is noted there by
    store when the query starts, ``note`` what the log records then.
    """

    settings: DeploymentSettings
    lineages: Mapping[str, Lineage]
    stored: Mapping[str, StoredStore] | None = None
    drained: Mapping[str, tuple[StoredFamily, ...]] = field(default_factory=dict)
    counts: MigrationCounts | None = None
    observed: ObservedCheckpoint | None = None
    records: Mapping[str, StoreRecord] = field(default_factory=dict)
    note: Note | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, tuple(getattr(self, each.name) for each in fields(self))

    @property
    def retires(self) -> bool:
        """Whether the next batch drops a family that was seen to be empty."""
        return self.settings.retire_drained and any(self.drained.values())

    def plan(self, declared: Declared) -> StorePlan | None:
        """How a declared variable is accessed; None for a store without scripts."""
        lineage = self.lineages.get(declared.store)
        if lineage is None:
            return None
        if self.stored is None:
            stored: StoredStore | None = self._anything(declared, lineage)
        else:
            stored = self.stored.get(declared.store)
        return plan_store(declared, lineage, stored, self.settings)

    def family_names(self, store: str) -> tuple[str, ...]:
        """The variables of a store, whether they exist or not."""
        lineage = self.lineages.get(store)
        if lineage is None:
            return (store,)
        return tuple(family_name(lineage, revision) for revision in lineage.revisions)

    def _anything(self, declared: Declared, lineage: Lineage) -> StoredStore:
        families = tuple(
            StoredFamily(family_name(lineage, revision), revision, lineage.format_of(revision))
            for revision in lineage.revisions
        )
        user_key = None if declared.user_key is None else declared.user_key.jsonValue()
        return StoredStore(declared.kind, families, {}, user_key)


def _arrived(*values: Any) -> Deployed:
    deployed = Deployed(*values)
    if deployed.observed is not None and is_planning():
        observed, records = deployed.observed, deployed.records
        begin_run(observed, RunOnVariables(observed, records, deployed.family_names, deployed.note))
    return deployed


@dataclass(frozen=True)
class Undeployable:
    """In place of a deployment whose scripts cannot be read; the error waits for its use.

    Instances are made in unit tests and for the embedded engine too, where nobody needs one.
    """

    error: StatemigrateError

    def __reduce__(self) -> tuple[Any, ...]:
        return _undeployable, (self.error,)


def _undeployable(error: StatemigrateError) -> Undeployable:
    if is_planning():
        raise error
    return Undeployable(error)


def migration_counts(processor: Any) -> MigrationCounts | None:
    """How many values the workers of a processor with `migrated`, or of a paged query, migrated.

    None if there was no Spark session when the processor was made or passed to `migrated`.
    """
    counted = vars(processor).get(COUNTED)
    if isinstance(counted, MigrationCounts):
        return counted
    found = vars(processor).get(DEPLOYED)
    return found.counts if isinstance(found, Deployed) else None
