"""What a query is deployed with, and the check that it fits the checkpoint (rule 10).

Engine-free: both engines say what they were given and what they store, and get a plan.
"""

from __future__ import annotations

from statemigrate.deployment.checks import check_expiry, check_scripted, check_targets
from statemigrate.deployment.plan import (
    GuardedFamily,
    StorePlan,
    access_for,
    dual_access,
    fitting_lineages,
    live_path,
    migrates_in_background,
    missing_path,
    only_by_rewriting,
    plan_store,
)
from statemigrate.deployment.stored import (
    SETTINGS,
    Declared,
    DeploymentSettings,
    Kind,
    Occupancy,
    StoredFamily,
    StoredStore,
    StoreFacts,
    applied_scripts,
    complement_of,
    family_name,
    is_family_of,
    revision_in,
    store_of,
)

__all__ = [
    "SETTINGS",
    "Declared",
    "DeploymentSettings",
    "GuardedFamily",
    "Kind",
    "Occupancy",
    "StoreFacts",
    "StorePlan",
    "StoredFamily",
    "StoredStore",
    "access_for",
    "applied_scripts",
    "check_expiry",
    "check_scripted",
    "check_targets",
    "complement_of",
    "dual_access",
    "family_name",
    "fitting_lineages",
    "is_family_of",
    "live_path",
    "migrates_in_background",
    "missing_path",
    "only_by_rewriting",
    "plan_store",
    "revision_in",
    "store_of",
]
