"""The start-up check on Spark's own state (rule 10), and what it lets go of (rule 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statemigrate.deployment import (
    Declared,
    Settings,
    StoredFamily,
    StoredStore,
    StoreFacts,
    StorePlan,
    check_expiry,
    check_scripted,
    check_targets,
    plan_store,
)
from statemigrate.files.opening import open_files
from statemigrate.files.remembered import Remembered
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.noting import Note
from statemigrate.logbook.standing import Standing
from statemigrate.migration import Lineage
from statemigrate.native.live.counts import MigrationCounts
from statemigrate.native.live.deployed import Deployed
from statemigrate.native.seen.record import StoreRecord, read_record
from statemigrate.native.seen.seen import Seen
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.spark_state.versions import check_kind
from statemigrate.native.startup.stored import CommittedState, read_stores
from statemigrate.processor.variables.handle import Listening, declared_variables

Drained = dict[str, tuple[StoredFamily, ...]]


def checked(processor: Any, settings: Settings, lineages: Mapping[str, Lineage]) -> Deployed:
    """Compare code, scripts and the checkpoint's committed state.

    Families that hold nothing leave the read path, and are dropped by the deployment's first batch
    unless ``settings`` say otherwise. Where nothing is committed yet nothing was seen, and every
    revision may have values. Nothing is written: the record is, when the query starts. Raises
    `StartupError` before anything is touched.
    """
    path = settings.checkpoint
    assert path is not None  # noqa: S101 - the caller asked for this
    files = Remembered(open_files(path))
    seen = Seen.at(path, files)
    checkpoint = SparkCheckpoint(
        seen.checkpoint, operator=settings.operator, paged=False, files=files
    )
    checkpoint.check_provider()
    declared = declared_variables(processor, Listening)
    check_targets(settings, declared)
    checkpoint.check_place()
    checkpoint.check_operator([each.store for each in declared])
    checkpoint.check_names([each.store for each in declared if each.store in lineages])
    counts = MigrationCounts.of_session()
    if not seen.is_something:
        unseen = Deployed(settings, lineages, counts=counts, seen=seen)
        plans = {each.store: plan for each in declared if (plan := unseen.plan(each)) is not None}
        note = Note(Stamp.of(processor), {name: _alone(each) for name, each in plans.items()})
        return replace(unseen, records=_records(plans, {}, {}, seen, settings), note=note)
    record = read_record(files)
    migrating = {each.store: each for each in declared if each.store in lineages}
    for each in migrating.values():
        check_kind(each.kind, each.store)
    state = read_stores(checkpoint, migrating, lineages, record, settings.accept_edited)
    for each in declared:
        if each.store not in migrating:
            families = {*state.variables, *record.get(each.store, StoreRecord()).families}
            check_scripted(each.store, sorted(families - {*settings.accept_edited}))
    stores = {store: _fitting(each, state) for store, each in migrating.items()}
    plans = {
        store: plan_store(each, lineages[store], stores[store], settings)
        for store, each in migrating.items()
    }
    drained = _drained(plans, state)
    live = {store: _without(each, drained[store]) for store, each in stores.items() if each}
    records = _records(plans, drained, record, seen, settings)
    note = Note(
        Stamp.of(processor),
        _standings(plans, records),
        dropped=_dropped(drained) if settings.retire_drained else {},
    )
    return Deployed(settings, lineages, live, drained, counts, seen, records, note)


def _alone(plan: StorePlan) -> Standing:
    """A store of which nothing was seen: its other families may be there, and none is known."""
    return Standing(plan.target.revision, (plan.target.name,), plan.lineage.revisions)


def _standings(
    plans: Mapping[str, StorePlan], records: Mapping[str, StoreRecord]
) -> dict[str, Standing]:
    return {
        store: Standing(plan.target.revision, records[store].families, plan.lineage.revisions)
        for store, plan in plans.items()
    }


def _dropped(drained: Drained) -> dict[str, tuple[str, ...]]:
    return {store: tuple(each.name for each in found) for store, found in drained.items() if found}


def _fitting(declared: Declared, state: CommittedState) -> StoredStore | None:
    """What is stored of a declared store, whose values expire if and only if the code's do."""
    facts = state.stores.get(declared.store, StoreFacts())
    check_expiry(declared, facts)
    return facts.stored_for(declared)


def _drained(plans: Mapping[str, StorePlan], state: CommittedState) -> Drained:
    """By store, the families seen to be empty."""
    return {
        store: tuple(
            family
            for family in plan.sources
            if family.holds == "nothing" and family.name in state.variables
        )
        for store, plan in plans.items()
    }


def _without(store: StoredStore, drained: tuple[StoredFamily, ...]) -> StoredStore:
    names = {each.name for each in drained}
    live = tuple(each for each in store.families if each.name not in names)
    return replace(store, families=live)


def _records(
    plans: Mapping[str, StorePlan],
    drained: Drained,
    record: Mapping[str, StoreRecord],
    seen: Seen,
    settings: Settings,
) -> dict[str, StoreRecord]:
    """What is to be noted of each store once the query has started."""
    gone = [each for families in drained.values() for each in families]
    retired = {each.name for each in gone if settings.retire_drained}
    return {
        store: StoreRecord(
            tuple(f.name for f in (plan.target, *plan.sources) if f.name not in retired),
            seen.batch,
            {**record.get(store, StoreRecord()).applied, **plan.stored().applied},
            seen.deployment,
        )
        for store, plan in plans.items()
    }
