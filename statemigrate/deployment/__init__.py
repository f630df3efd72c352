"""What a query is deployed with, and the check that it fits the checkpoint (rule 10).

Engine-free: both engines say what they were given and what they store, and get a plan.
"""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.deployment.code import (
        Copy,
        Looking,
        is_on_copy,
        is_only_looking,
        is_tried,
        named_object,
        note_call,
        note_function,
        note_pages,
        note_variable,
        only_looking,
        query_checkpoint,
        running_on_copy,
        settings_for_query,
    )
    from statemigrate.deployment.deployment_checks import (
        check_expiry,
        check_scripted,
        check_scripts,
        check_targets,
    )
    from statemigrate.deployment.store_plan import (
        StorePlan,
        access_for,
        dual_access,
        fitting_lineages,
        live_path,
        migrates_in_background,
        missing_path,
        plan_store,
    )
    from statemigrate.deployment.stored import (
        ENVELOPE,
        SETTINGS,
        VARIABLE_KINDS,
        Call,
        Declared,
        DeploymentSettings,
        Kind,
        Occupancy,
        StoredFamily,
        StoredStore,
        StoreFacts,
        applied_scripts,
        complement_of,
        declared_by,
        family_name,
        gets_source,
        is_family_of,
        recorded_call,
        revision_in,
        revision_of,
        store_of,
        written_for,
    )
else:
    make_face(
        __name__,
        {
            "code": (
                "Copy Looking is_on_copy is_only_looking is_tried named_object note_call "
                "note_function note_pages note_variable only_looking query_checkpoint "
                "running_on_copy settings_for_query"
            ),
            "deployment_checks": "check_expiry check_scripted check_scripts check_targets",
            "store_plan": (
                "StorePlan access_for dual_access fitting_lineages live_path "
                "migrates_in_background missing_path plan_store"
            ),
            "stored": (
                "Call Declared DeploymentSettings ENVELOPE Kind Occupancy SETTINGS StoreFacts "
                "StoredFamily StoredStore VARIABLE_KINDS applied_scripts complement_of "
                "declared_by family_name gets_source is_family_of recorded_call revision_in "
                "revision_of store_of written_for"
            ),
        },
    )
