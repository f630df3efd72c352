"""The verdict on each source, state and meaning of a checkpoint under new code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from statemigrate.checkpoint.logs import is_avro
from statemigrate.checkpoint.operators import CheckpointShape
from statemigrate.commands.compared_envelopes import ComparedEnvelopes
from statemigrate.commands.compared_pages import ComparedPages
from statemigrate.commands.new_code import Probed, meaning_of
from statemigrate.commands.pages_change import check_same_pages
from statemigrate.commands.rewrite import plan_for
from statemigrate.errors import RewriteError, StatemigrateError, UnsupportedError
from statemigrate.files import Files
from statemigrate.meaning import (
    LIVES,
    CodeMeaning,
    PlanItem,
    StoreTargets,
    compare_meanings,
    compare_operators,
    compare_sources,
    compare_states,
)
from statemigrate.migration import Lineage
from statemigrate.native import StoreRecord
from statemigrate.rewrite import RewriteOptions, RewritePlan, WindowFinding, operator_name
from statemigrate.state import Project


def rewrite_plan(
    files: Files,
    shape: CheckpointShape,
    found: Probed,
    old: CodeMeaning | None,
    project: Project,
    pages: ComparedPages,
) -> RewritePlan | StatemigrateError:
    """The plan of a rewrite to the new code, or why there is none."""
    try:
        check_same_pages(pages.changes, files.location)
        return plan_for(files, shape, found, old, RewriteOptions(), None, project)
    except (RewriteError, UnsupportedError) as error:
        return error


def verdicts_on(
    shape: CheckpointShape,
    found: Probed,
    old: CodeMeaning | None,
    rewrite: RewritePlan | StatemigrateError,
    lineages: Mapping[str, Lineage],
    pages: ComparedPages,
    envelopes: ComparedEnvelopes,
    record: Mapping[str, StoreRecord],
) -> Iterator[PlanItem]:
    """The verdict on each source, state and meaning.

    ``old`` is the meaning of the code that wrote the state, None where nothing says it. ``record``
    is what starts have recorded of stores.
    """
    offsets = pages.offsets(shape.offsets[shape.batch].offsets)
    inputs = None if old is None else old.sources
    streams = None if found.plan is None else len(found.plan.schemas)
    yield from compare_sources(offsets, pages.sources(found.sources), inputs, streams)
    evolves = is_avro(shape.conf)
    sides = pages.operators(shape.operators, found.shape.operators)
    targets = {
        store: StoreTargets(plan, record.get(store, StoreRecord()).target)
        for store, plan in found.variables.items()
    }
    states = [
        *envelopes.without_own(compare_operators(*sides, lineages, targets, evolves=evolves)),
        *envelopes.items,
        *pages.items(lineages),
    ]
    before = {} if old is None else {each.number: each for each in old.operators}
    stored = {operator_name(each) for each in shape.operators}
    numbers = {operator_name(each): each.number for each in found.shape.operators}
    after = {each.number: each for each in meaning_of(found, "").operators}
    windows = () if isinstance(rewrite, StatemigrateError) else rewrite.windows
    for name in dict.fromkeys(each.operator for each in states):
        own = [each for each in states if each.operator == name]
        number = numbers.get(name)
        # Of code that no plan was seen of, nothing was found to be the same.
        if found.plan is not None and number in before and number in after:
            named = {each.name for each in own}
            compared = compare_meanings(before[number], after[number])
            known = [each for each in compared if each.name not in named]
            changes = compare_states(before[number], after[number], of_one_release=False)
            known += [each for each in changes if each.rule == LIVES]
            yield from _settled(own, known)
            yield from known
        else:
            yield from own
            if number is not None and name in stored:
                if not any(each.verdict == "rewrite" for each in own):
                    of_windows = [each for each in windows if each.store.startswith(name)]
                    yield from map(partial(_window, operator=name), of_windows)
                yield _unknown(name)


def _settled(states: Sequence[PlanItem], known: Sequence[PlanItem]) -> Iterator[PlanItem]:
    """States whose fields have other names alone, where the meaning is known to be the same."""
    is_same = not any(each.verdict == "unnoticed" for each in known)
    for each in states:
        if each.verdict == "unnoticed" and is_same and each.rule == "state":
            text = f"only names differ, and what they are computed from is the same ({each.text})"
            yield replace(each, verdict="goes on", text=text)
        else:
            yield each


def _unknown(operator: str) -> PlanItem:
    return PlanItem(
        f"{operator} meaning",
        "unknown",
        "the checkpoint does not say what its keys, functions and filters are computed from: give "
        "the code that it was written by (--old-code), or its lock file (--lock)",
        operator,
        rule="meaning",
    )


def _window(finding: WindowFinding, operator: str) -> PlanItem:
    name = f"{finding.store}.{finding.column}"
    text = f"the state has {finding.old_text}, and the new code makes {finding.new_text}"
    match finding.verdict:
        case "same":
            return PlanItem(name, "same", text, operator)
        case "unknown" | "unseen":
            return PlanItem(name, "unknown", text, operator, rule="window")
    return PlanItem(name, "unnoticed", text, operator, rule="window")
