"""What the state of a query's code means, and what happens to it when the code changes.

Spark compares the types of state with those of the code, and never what the values mean. Here a
query's code is described by what its keys, windows and functions are computed from, so that two
versions of it can be compared, also without a checkpoint.
"""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.meaning.changes import compare_code, compare_facts, compare_meanings
    from statemigrate.meaning.code_meaning import (
        PROCESSOR,
        CodeMeaning,
        OperatorMeaning,
        code_meaning,
        lock_text,
        read_lock,
    )
    from statemigrate.meaning.guard import guard_embedded, guard_operator, guarded
    from statemigrate.meaning.key_sources import (
        computed_notes,
        function_questions,
        key_sources,
        merging_of,
    )
    from statemigrate.meaning.plan_items import RULES, VERDICTS, PlanItem, PlanStep, with_levels
    from statemigrate.meaning.recorded import MeaningRecord, recorded_meaning, settings_at
    from statemigrate.meaning.setting_changes import (
        SETTING,
        recorded_settings,
        setting_of,
        unset_as_warnings,
    )
    from statemigrate.meaning.states import (
        LIVES,
        WITHOUT_FUNCTION,
        compare_states,
        described_pages,
    )
    from statemigrate.meaning.store_changes import (
        by_scripts,
        compare_stores,
        format_ddl,
        is_scripted,
    )
    from statemigrate.meaning.type_changes import StoreTargets, compare_operators, compare_sources
else:
    make_face(
        __name__,
        {
            "changes": "compare_code compare_facts compare_meanings",
            "code_meaning": (
                "PROCESSOR CodeMeaning OperatorMeaning code_meaning lock_text read_lock"
            ),
            "guard": "guard_embedded guard_operator guarded",
            "key_sources": "computed_notes function_questions key_sources merging_of",
            "plan_items": "PlanItem PlanStep RULES VERDICTS with_levels",
            "recorded": "MeaningRecord recorded_meaning settings_at",
            "setting_changes": "SETTING recorded_settings setting_of unset_as_warnings",
            "states": "LIVES WITHOUT_FUNCTION compare_states described_pages",
            "store_changes": "by_scripts compare_stores format_ddl is_scripted",
            "type_changes": "StoreTargets compare_operators compare_sources",
        },
    )
