"""Trying a migration on the state a query has, and writing nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from statemigrate.checkpoint.operators.shapes import with_labels
from statemigrate.deployment import StorePlan
from statemigrate.errors import StartupError, values_hidden
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.inspect.estimate import Pace, estimated
from statemigrate.inspect.field_effects import shown
from statemigrate.inspect.report import DryRunReport, Meetings, ScriptNote
from statemigrate.inspect.rewriting import NewKeys, RewritingTrialPath
from statemigrate.inspect.trial import Findings, added
from statemigrate.inspect.trial_path import TrialPath, Trying, courses
from statemigrate.migration import Lineage, Step
from statemigrate.state.protocol import Share, Shares, State

Counts = Mapping[str, Mapping[int, int]]
Progress = Callable[[int, int], None]


def check_sample(sample: int | None) -> None:
    """Raise `StartupError` for a sample that is none."""
    if sample is not None and sample < 1:
        raise StartupError(
            "SM-CLI-005",
            "a sample needs at least one value",
            expected="a number of 1 or more",
            found=sample,
            next_action="leave --sample out to try every value",
        )


def read_lineages(migrations: str | Path, store: str) -> dict[str, Lineage]:
    """The lineages of a folder in which nothing is wrong.

    Raises `LineageError` where ``store`` has no script, and what is wrong with its scripts.
    """
    from statemigrate.scripts import ScriptFolder

    return ScriptFolder(migrations).sound_lineages(store)


def tried(
    state: State, plan: StorePlan, sample: int | None, pace: Pace, progress: Progress
) -> DryRunReport:
    """Take the values of a store through its scripts, all of them or about ``sample``.

    ``progress`` gets how many values were read, and of how many.
    """
    store = plan.declared.store
    to_try = _courses(state, plan)
    counts = state.counts(store)
    total = sum(sum(counts.get(each.family.name, {}).values()) for each in to_try)
    began = time.monotonic()
    documents = state.values(plan, [each.family for each in to_try]).map(
        Trying.of(to_try),
        shares=shared(to_try, counts, sample),
        tick=lambda done: progress(done, total),
    )
    found = added(documents)
    rewrites = store in state.operator_stores or any(
        isinstance(each, RewritingTrialPath) for each in to_try
    )
    return DryRunReport(
        store=store,
        kind=plan.declared.kind,
        engine=state.engine,
        checkpoint=state.checkpoint,
        batch=state.batch,
        target=plan.target.revision,
        sample=sample,
        in_target=sum(counts.get(plan.target.name, {}).values()),
        families=tuple(
            found.get(each.family.name, Findings()).described(
                each.family.name,
                each.family.revision,
                reversible=each.back is not None,
                steps=each.path.steps,
            )
            for each in to_try
        ),
        seconds=time.monotonic() - began,
        backfill=None if rewrites else estimated(state, to_try, counts, found, pace),
        questions=open_questions(
            plan.lineage, [step for each in to_try for step in each.path.steps]
        ),
        rewrites=rewrites,
        meetings=_meetings(state, plan, to_try) if sample is None else None,
        scripts=script_notes(plan.lineage, [step for each in to_try for step in each.path.steps]),
        made_at=time.time(),
        version=version("statemigrate"),
    )


def _courses(state: State, plan: StorePlan) -> tuple[TrialPath, ...]:
    user_key = plan.declared.user_key
    columns = [
        each
        for part in (state.key_of(plan.declared.store), user_key)
        if part is not None
        for each in part.jsonValue()["fields"]
    ]
    key = struct_from_json(with_labels({"type": "struct", "fields": columns}))
    return tuple(
        RewritingTrialPath(**vars(each), key=key) if each.path.only_by_rewriting else each
        for each in courses(plan)
    )


def _meetings(state: State, plan: StorePlan, tried: Sequence[TrialPath]) -> Meetings | None:
    changing = [
        each for each in tried if isinstance(each, RewritingTrialPath) and each.changes_keys
    ]
    for trial_path in changing:
        keys = NewKeys(trial_path.path, trial_path.family.format, trial_path.key)
        found = state.keys_after(plan, trial_path.family, keys)
        examples = (
            ()
            if values_hidden()
            else tuple((shown(keys.plain(each)), number) for each, number in found.examples)
        )
        # Which kind of state the new code has there, only a rewrite sees.
        gather = plan.declared.kind == "list"
        return Meetings(found.entries, found.keys, found.met, trial_path.merges, examples, gather)
    return None


def open_questions(lineage: Lineage, steps: Sequence[Step]) -> int:
    """How many questions are open in the scripts of these steps."""
    revisions = {step.revision for step in steps}
    return sum(len(each.questions) for each in lineage.migrations if each.revision in revisions)


def script_notes(lineage: Lineage, steps: Sequence[Step]) -> tuple[ScriptNote, ...]:
    """The scripts of these steps, each once, in the order of the lineage."""
    directions = {step.revision: step.direction for step in steps}
    return tuple(
        ScriptNote(each.revision, directions[each.revision], each.message)
        for each in lineage.migrations
        if each.revision in directions
    )


def shared(to_try: Sequence[TrialPath], counts: Counts, sample: int | None) -> Shares:
    """How much of each partition of each family is tried, in proportion to what it holds."""
    sizes = {
        (trial_path.family.name, number): count
        for trial_path in to_try
        for number, count in counts.get(trial_path.family.name, {}).items()
    }
    total = sum(sizes.values())
    wanted = total if sample is None else min(sample, total)
    shares: dict[str, dict[int, Share]] = {trial_path.family.name: {} for trial_path in to_try}
    before = 0
    for (family, number), count in sizes.items():
        # Rounding the running sum, so that the parts add up to the sample.
        take = (before + count) * wanted // total - before * wanted // total if total else 0
        shares[family][number] = Share(take, max(count, 1))
        before += count
    return shares
