"""The start-up check on Spark's own state (rule 10), and what it lets go of (rule 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statemigrate.deployment import (
    Settings,
    StoredFamily,
    StoredStore,
    StorePlan,
    check_targets,
    plan_store,
)
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.counts import MigrationCounts
from statemigrate.native.deployed import Deployed
from statemigrate.native.record import StoreRecord, read_record, write_record
from statemigrate.native.stored import CommittedState, committed_state
from statemigrate.processor.handle import Listening, declared_variables

Drained = dict[str, tuple[StoredFamily, ...]]


def checked(processor: Any, settings: Settings, lineages: Mapping[str, Lineage]) -> Deployed:
    """Compare code, scripts and the checkpoint's committed state.

    Families that hold nothing leave the read path, and are dropped by the deployment's first batch
    unless ``settings`` say otherwise. Raises `StartupError` before anything is touched.
    """
    path = settings.checkpoint
    assert path is not None  # noqa: S101 - the caller asked for this
    checkpoint = SparkCheckpoint(path, operator=settings.operator)
    checkpoint.check_provider()
    declared = declared_variables(processor, Listening)
    check_targets(settings, declared)
    checkpoint.check_place()
    checkpoint.check_names([each.store for each in declared if each.store in lineages])
    record = read_record(path)
    state = committed_state(checkpoint, declared, lineages, record, settings)
    plans = {
        each.store: plan_store(each, lineages[each.store], state.stores.get(each.store), settings)
        for each in declared
        if each.store in lineages
    }
    drained = _drained(plans, state)
    write_record(path, {**record, **_recorded(plans, drained, record, state, settings)})
    live = {store: _without(each, drained[store]) for store, each in state.stores.items()}
    return Deployed(settings, lineages, live, drained, MigrationCounts.of_session())


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


def _recorded(
    plans: Mapping[str, StorePlan],
    drained: Drained,
    record: Mapping[str, StoreRecord],
    state: CommittedState,
    settings: Settings,
) -> dict[str, StoreRecord]:
    gone = [each for families in drained.values() for each in families]
    retired = {each.name for each in gone if settings.retire_drained}
    return {
        store: StoreRecord(
            tuple(f.name for f in (plan.target, *plan.sources) if f.name not in retired),
            state.batch,
            {**record.get(store, StoreRecord()).applied, **plan.stored().applied},
        )
        for store, plan in plans.items()
    }
