"""What the log is told of: the stores as a manifest has them, and as plans do."""

from __future__ import annotations

from collections.abc import Mapping

from statemigrate.deployment import StorePlan
from statemigrate.embedded.versions.manifest import Manifest
from statemigrate.logbook.standing import Facts, Standing


def facts_of(committed: Manifest | None) -> Facts:
    """What a version says of its stores; nothing before the first."""
    if committed is None:
        return Facts()
    stores = {name: Standing.of_stored(each) for name, each in committed.stores.items()}
    return Facts(stores, committed.version)


def standings(plans: Mapping[str, StorePlan]) -> dict[str, Standing]:
    """What plans make of their stores."""
    return {store: Standing.of_plan(plan) for store, plan in plans.items()}
