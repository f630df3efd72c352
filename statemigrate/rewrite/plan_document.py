"""A plan of a rewrite as JSON holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statemigrate.rewrite.column_pairing import family_label
from statemigrate.rewrite.family_plans import (
    CombinedFamily,
    FamilyPlan,
    FunctionRows,
    MatchedFamily,
)
from statemigrate.rewrite.fields import FieldOrigin, StructChange
from statemigrate.rewrite.rewrite_plan import OperatorPlan, RewritePlan
from statemigrate.rewrite.windows import WindowFinding


def plan_document(plan: RewritePlan) -> dict[str, Any]:
    """Everything that a plan says, for machines."""
    return {
        "query": plan.old.query_id,
        "batch": plan.old.batch,
        "operators": [_operator(each, plan) for each in plan.operators],
        "settings": {name: list(pair) for name, pair in plan.changed_conf.items()},
        "offsets": dict(plan.new.offsets[plan.new.batch].offsets.by_source),
        "sources": _sources(plan),
        "watermark": plan.new.commits[plan.new.batch].watermark,
        "questions": [
            {
                "name": q.name,
                "text": q.text,
                "proposal": q.proposal,
                "accept": None if q.proposal is None else q.acceptance,
                "answer": q.answer,
                "facts": q.facts,
            }
            for q in plan.questions
        ],
        "answers": [{"name": a.question.name, "answer": a.answer} for a in plan.answered],
        "fingerprint": plan.fingerprint,
    }


def _sources(plan: RewritePlan) -> list[dict[str, Any]]:
    """The sources of the new code with the old ones they go on with, then those that go."""
    entry = plan.old.offsets[plan.old.batch]
    found = [
        {
            "new": each.name,
            "old": each.old,
            "input": each.input,
            "offset": each.line(entry),
            "taken": each.taken,
        }
        for each in plan.sources.sources
    ]
    return [*found, *({"new": None, "old": name} for name in plan.sources.gone)]


def _operator(operator: OperatorPlan, plan: RewritePlan) -> dict[str, Any]:
    return {
        "name": operator.name,
        "change": operator.change,
        "old": None if operator.old is None else operator.old.number,
        "new": None if operator.new is None else operator.new.number,
        "families": [_family(each, operator, plan) for each in operator.families],
        "gone": list(operator.left),
        "windows": [_window(each) for each in plan.windows if each.store in _names(operator)],
    }


def _names(operator: OperatorPlan) -> set[str]:
    return {each.name for each in operator.families}


def _window(found: WindowFinding) -> dict[str, Any]:
    """What the state has in a window column, in microseconds, and what the new code makes."""
    return {**found.to_json(), "old_text": found.old_text, "new_text": found.new_text}


def _family(family: FamilyPlan, operator: OperatorPlan, plan: RewritePlan) -> dict[str, Any]:
    parts = list(_matched_parts(family, operator))
    return {
        "name": family.name,
        "change": family.change,
        "key": [each for name, part in parts for each in _of_part(part, part.key, name, plan)],
        "value": [each for name, part in parts for each in _of_part(part, part.value, name, plan)],
        "functions": list(_functions(family)),
    }


def _matched_parts(
    family: FamilyPlan, operator: OperatorPlan
) -> Iterator[tuple[str | None, MatchedFamily]]:
    """The family itself, or those that become it, by their names; without those of scripts."""
    if isinstance(family, MatchedFamily):
        yield None, family
    elif isinstance(family, CombinedFamily) and operator.old is not None:
        for each in family.parts:
            if isinstance(each, MatchedFamily):
                yield family_label(operator.old, each.old), each


def _functions(family: FamilyPlan) -> Iterator[dict[str, Any]]:
    """The aggregate functions in the order of the new code, then those that go."""
    if not isinstance(family, FunctionRows):
        return
    pairing = family.functions
    for each in pairing.pairs:
        yield {
            "function": each.new.function.text,
            "column": each.new.function.result,
            "field": pairing.label(each),
            "fields": len(each.new.function.fields),
            "how": each.how,
            "from": None if each.old is None else each.old.function.text,
            "at": None if each.old is None else pairing.before[each.old.at],
        }
    for old in pairing.gone:
        label = pairing.before[old.at]
        yield {"function": old.function.text, "field": label, "how": "gone", "at": label}


def _of_part(
    family: MatchedFamily, change: StructChange, name: str | None, plan: RewritePlan
) -> Iterator[dict[str, Any]]:
    """The fields, and where several families become one, which of them each comes from."""
    for each in _fields(family, change, plan):
        yield each if name is None else {**each, "of": name}


def _fields(
    family: MatchedFamily, change: StructChange, plan: RewritePlan
) -> Iterator[dict[str, Any]]:
    for each in change.fields:
        yield _field(family, each, plan)
        if each.nested:
            yield from _fields(family, each.nested, plan)
    yield from ({"field": each, "change": "gone", "from": each} for each in _gone(change))


def _gone(change: StructChange) -> Iterator[str]:
    """The fields that go from a struct itself, and not from one within it."""
    inner = {each for field in change.fields if field.nested for each in field.nested.dropped}
    yield from (each for each in change.dropped if each not in inner)


def _field(family: MatchedFamily, change: FieldOrigin, plan: RewritePlan) -> dict[str, Any]:
    found: dict[str, Any] = {"field": change.label, "change": change.change}
    name = f"{family.name}.{change.label}"
    if change.change != "new":
        found["from"] = change.source
    if change.rule:
        found["rule"] = change.rule
    if change.change == "new" and name in plan.starts:
        found["start"] = plan.starts[name]
    return found
