"""The plan of a rewrite: what becomes of every operator, and what its author still has to say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from statemigrate.checkpoint.logs import PARTITIONS
from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape
from statemigrate.rewrite.aggregates import KnownFunctions
from statemigrate.rewrite.column_pairing import (
    Pair,
    family_label,
    match_operators,
    operator_name,
    store_families,
)
from statemigrate.rewrite.family_plans import (
    CombinedFamily,
    FamilyPlan,
    FunctionRows,
    JoinedFamily,
    MatchedFamily,
    ScriptedFamily,
    VariablesLayout,
    families_left,
    paged_families,
)
from statemigrate.rewrite.fields import FieldOrigin, StructChange
from statemigrate.rewrite.matching import plan_families
from statemigrate.rewrite.meaning_questions import ask_functions
from statemigrate.rewrite.questions import (
    Answered,
    Asked,
    Question,
    RewriteAnswers,
    ask,
    ask_expiry,
    ask_groups_to_variables,
    ask_joining,
)
from statemigrate.rewrite.rewrite_refusals import (
    refuse_timed,
    refuse_unnamed_formats,
    refuse_unsupported,
    with_file_ids,
)
from statemigrate.rewrite.script_ways import RewriteScripts, Scripted, as_scripted
from statemigrate.rewrite.sources import (
    NewSources,
    RewriteOptions,
    SourcesPlan,
    new_logs,
    plan_sources,
)
from statemigrate.rewrite.windows import WindowFinding


@dataclass(frozen=True)
class NewOperator:
    """One of the new code that goes on with no old one."""

    new: OperatorShape
    families: tuple[FamilyPlan, ...]
    old: ClassVar[None] = None
    left: ClassVar[tuple[str, ...]] = ()
    change: ClassVar = "new"

    @property
    def name(self) -> str:
        """How users call it."""
        return operator_name(self.new)


@dataclass(frozen=True)
class GoneOperator:
    """An old one that no new one goes on with."""

    old: OperatorShape
    new: ClassVar[None] = None
    families: ClassVar[tuple[FamilyPlan, ...]] = ()
    left: ClassVar[tuple[str, ...]] = ()
    change: ClassVar = "gone"

    @property
    def name(self) -> str:
        """How users call it."""
        return operator_name(self.old)


@dataclass(frozen=True)
class ContinuedOperator:
    """An old one that becomes a new one; ``left`` names old families that none goes on with."""

    old: OperatorShape
    new: OperatorShape
    families: tuple[FamilyPlan, ...]
    left: tuple[str, ...]

    @property
    def name(self) -> str:
        """How users call it, by its new number."""
        return operator_name(self.new)

    @property
    def change(self) -> str:
        """In a word, what becomes of it."""
        changes = {each.change for each in self.families}
        words = ("paged", "joined", "kind", "keys", "values")
        return next((word for word in words if word in changes), "kept")


OperatorPlan = NewOperator | GoneOperator | ContinuedOperator


@dataclass(frozen=True)
class RewritePlan:
    """Everything that a rewrite does, before it reads any row.

    ``new`` is the shape of the new checkpoint with its logs; ``starts`` has the plain value of each
    field that old rows lack, by ``store.field``; ``questions`` are open, ``answered`` are not. If
    state moves into or out of pages, ``layout`` describes that. ``windows`` has the findings on the
    state's window columns, if the new code is known. ``asked_settings`` and ``asked_watermark`` are
    the requested changes of the logs.
    """

    old: CheckpointShape
    new: CheckpointShape
    operators: tuple[OperatorPlan, ...]
    starts: dict[str, Any]
    questions: tuple[Question, ...]
    answered: tuple[Answered, ...]
    sources: SourcesPlan
    scripts: RewriteScripts = field(default_factory=RewriteScripts)
    layout: VariablesLayout | None = None
    windows: tuple[WindowFinding, ...] = ()
    asked_settings: Mapping[str, str] = field(default_factory=dict)
    asked_watermark: int | None = None

    @property
    def changed_conf(self) -> dict[str, tuple[str | None, str]]:
        """The pinned settings that change: before and after."""
        before, after = self.old.conf, self.new.conf
        return {
            name: (before.get(name), after[name])
            for name in sorted(after)
            if before.get(name) != after[name]
        }

    @property
    def scripts_run(self) -> list[Scripted]:
        """The scripts that have something to run."""
        families = [family for each in self.operators for family in each.families]
        parts = [p for each in families if isinstance(each, CombinedFamily) for p in each.parts]
        return [
            each.script
            for each in (*families, *parts)
            if isinstance(each, ScriptedFamily | JoinedFamily) and each.script
        ]

    @property
    def left_out(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The fields that scripts leave out of values, by the store and the revision."""
        return {
            (each.store, step.revision): names
            for each in self.scripts_run
            for step in each.path.steps
            if (names := step.left_out)
        }

    @property
    def _scripts(self) -> list[str]:
        return [
            f"{name}: {each.path.source} {each.applied}"
            for found in (self.scripts.old, self.scripts.new)
            for name, each in found.items()
        ]

    @property
    def fingerprint(self) -> str:
        """64 hex characters over all that decides what is written."""
        text = json.dumps(
            [
                *map(repr, (self.old, self.new, self.sources)),
                [*map(repr, self.operators)],
                self.starts,
                self._scripts,
            ],
            default=str,
        )
        return hashlib.sha256(text.encode()).hexdigest()


def make_plan(  # noqa: PLR0913 - the last ones by name
    old: CheckpointShape,
    target: Sequence[OperatorShape] | None,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    scripts: RewriteScripts | None = None,
    sources: NewSources | None = None,
    *,
    further: Sequence[Question] = (),
    rows: str = "old rows",
    functions: KnownFunctions | None = None,
) -> RewritePlan:
    """Plan the way from ``old`` to the operators and ``sources`` of the new code.

    ``further`` questions are asked after those of the plan, which calls the old state ``rows``.
    Buffers of aggregations are paired by ``functions``; None only where fields go by their names,
    as those of the author's own tables do, or where no code says that they change.

    Where none are given the new code keeps what the old did, but for what ``scripts`` change; these
    go by the names that users have for the old state.

    Raises `RewriteError` for what cannot be done as asked; what only the author knows becomes a
    question of the plan.
    """
    options, answers = options or RewriteOptions(), answers or RewriteAnswers()
    partitions = int(options.pinned(old.conf).get(PARTITIONS, "200"))
    scripts = scripts or RewriteScripts()
    if target is None:
        refuse_unnamed_formats(old, options.pinned(old.conf))
    kept = [_scripted(each, scripts.old) for each in old.operators] if target is None else target
    wanted = tuple(_with_partitions(each, partitions) for each in kept)
    pairs = match_operators(old.operators, wanted, answers.operators)
    operators = tuple(_operators(pairs, answers, scripts, functions))
    asked = Asked(answers, rows)
    for question in further:
        asked.confirm(question)
    for each in operators:
        _ask(asked, each)
    asked.no_state(old)
    asked.watermark(old, options.watermark)
    read = plan_sources(old.offsets[old.batch].offsets, sources, options.of_sources, asked)
    asked.finish()
    offsets, commits = new_logs(old, options, read)
    commits = with_file_ids(old, options, commits, wanted)
    new = replace(old, offsets=offsets, commits=commits, operators=wanted)
    refuse_unsupported(old, new)
    return RewritePlan(
        old,
        new,
        operators,
        asked.starts,
        tuple(asked.open),
        tuple(asked.answered),
        read,
        scripts,
        asked_settings=options.pinned({}),
        asked_watermark=options.watermark,
    )


def _ask(asked: Asked, operator: OperatorPlan) -> None:
    ask(asked, operator.name, operator.old, operator.new, operator.families, operator.left)
    for family in operator.families:
        match family:
            case FunctionRows():
                ask_functions(asked, family)
            case JoinedFamily() if operator.old:
                ask_joining(asked, family, operator.old)
    ask_groups_to_variables(asked, operator.old, operator.new, operator.families)
    ask_expiry(asked, operator.families)


def _operators(
    pairs: Iterable[Pair],
    answers: RewriteAnswers,
    scripts: RewriteScripts,
    functions: KnownFunctions | None,
) -> Iterator[OperatorPlan]:
    fields = answers.take_by_store()
    for old, new in pairs:
        if old and new:
            scripted = [n for n, _ in store_families(old) if scripts.open_of(n) is not None]
            refuse_timed(old, new, scripted)
            found = plan_families(old, new, answers.take, fields, scripts, functions)
            families = tuple(found)
            yield ContinuedOperator(old, new, families, tuple(families_left(old, families)))
        elif new:
            empty = plan_families(replace(new, stores=()), new, {}, {}, RewriteScripts())
            yield NewOperator(new, tuple(empty))
        elif old:
            yield GoneOperator(old)


def _scripted(operator: OperatorShape, scripts: Mapping[str, Scripted]) -> OperatorShape:
    """The operator as scripts leave it."""
    known = {(p.store.name, p.family.name): name for name, p in store_families(operator)}
    stores = tuple(
        replace(
            store,
            families=tuple(
                as_scripted(operator, store, each, script)
                # The first family of state that began to migrate has an older revision.
                if (script := scripts.get(known.get((store.name, each.name), "")))
                and script.is_open
                else each
                for each in store.families
            ),
        )
        for store in operator.stores
    )
    return replace(operator, stores=stores)


def _with_partitions(operator: OperatorShape, partitions: int) -> OperatorShape:
    stores = tuple(replace(each, partitions=partitions) for each in operator.stores)
    return replace(operator, stores=stores)


# A plan in which values stay, and are kept in another way: in pages, or in none.


def laid_out(plan: RewritePlan, layout: VariablesLayout) -> RewritePlan:
    """The same plan as the new checkpoint keeps what is in it.

    Raises `UnsupportedError` for what could not be written.
    """
    operators = tuple(
        _paged(each, layout)
        if isinstance(each, ContinuedOperator) and each.old.number == layout.number
        else each
        for each in plan.operators
    )
    # Files have the same ids: these go by operator and store, which stay.
    kept = tuple(each.new for each in operators if each.new is not None)
    new = replace(plan.new, operators=kept)
    refuse_unsupported(plan.old, new)
    return replace(plan, operators=operators, new=new, layout=layout)


def _paged(operator: ContinuedOperator, layout: VariablesLayout) -> ContinuedOperator:
    if layout.new is None:
        return operator
    wanted = _with_partitions(layout.new.pages, operator.new.stores[0].partitions)
    families = tuple(paged_families(operator.families, wanted, layout.new.record))
    return replace(operator, new=wanted, families=families)


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
