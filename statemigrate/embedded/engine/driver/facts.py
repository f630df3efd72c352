"""What the log is told of: the stores as a manifest has them, and as plans do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from statemigrate.deployment import StorePlan, store_of
from statemigrate.embedded.engine.tasks.plan import BatchPlan
from statemigrate.embedded.versions.manifest import Manifest
from statemigrate.errors import StorageError
from statemigrate.files import Files
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.noting import Note
from statemigrate.logbook.standing import Facts, Standing

_log = logging.getLogger("statemigrate.embedded")


def facts_of(committed: Manifest | None) -> Facts:
    """What a version says of its stores; nothing before the first."""
    if committed is None:
        return Facts()
    stores = {name: Standing.of_stored(each) for name, each in committed.stores.items()}
    return Facts(stores, committed.version)


def standings(plans: Mapping[str, StorePlan]) -> dict[str, Standing]:
    """What plans make of their stores."""
    return {store: Standing.of_plan(plan) for store, plan in plans.items()}


def start_of(stamp: Stamp, plans: Mapping[str, StorePlan]) -> Note:
    """What the start of a query notes: one query is all there is in its checkpoint."""
    return Note(stamp, standings(plans), is_whole_query=True)


def tell_retired(stamp: Stamp | None, files: Files, plan: BatchPlan) -> None:
    """Note what a batch dropped; where that fails the next start does, and no batch ends for it."""
    if stamp is None:
        return
    names = {store_of(name) for name in plan.retired}
    changed = {name: each for name, each in plan.stores.items() if name in names}
    try:
        dropped = ", ".join(sorted(plan.retired))
        Note(stamp, standings(changed)).retired(files, plan.version, dropped)
    except StorageError as error:
        _log.warning("%s", error)
