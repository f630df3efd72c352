"""What the state of a query's code means, and what happens to it when the code changes.

Spark compares the types of state with those of the code, and never what the values mean. Here a
query's code is described by what its keys, windows and functions are computed from, so that two
versions of it can be compared, also without a checkpoint.
"""

from __future__ import annotations

from statemigrate.meaning.changes import compare_code, compare_facts, compare_meanings
from statemigrate.meaning.code_meaning import (
    CodeMeaning,
    OperatorMeaning,
    lock_text,
    read_lock,
)
from statemigrate.meaning.plan_items import VERDICTS, PlanItem, PlanStep, Verdict
from statemigrate.meaning.recorded import MeaningRecord, recorded_meaning
from statemigrate.meaning.type_changes import compare_operators, compare_sources

__all__ = [
    "VERDICTS",
    "CodeMeaning",
    "MeaningRecord",
    "OperatorMeaning",
    "PlanItem",
    "PlanStep",
    "Verdict",
    "compare_code",
    "compare_facts",
    "compare_meanings",
    "compare_operators",
    "compare_sources",
    "lock_text",
    "read_lock",
    "recorded_meaning",
]
