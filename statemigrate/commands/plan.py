"""`plan`: what happens to a query's state when its code changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

from statemigrate.checkpoint import CheckpointDirectory, describe
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    OperatorShape,
    in_envelopes,
    kind_of,
)
from statemigrate.commands.arguments import require_alone, required
from statemigrate.commands.change_plan import ChangePlan, NamedPlan, Plans
from statemigrate.configuration import NamedCheckpoint
from statemigrate.deployment import revision_in, store_of
from statemigrate.files import Files, files_to_read
from statemigrate.meaning import PlanItem, PlanStep, by_scripts, with_levels
from statemigrate.migration import BASE, Lineage
from statemigrate.native import hidden_families
from statemigrate.quoting import argument
from statemigrate.rewrite import operator_name, store_families
from statemigrate.state import Project

if TYPE_CHECKING:
    from statemigrate.commands.fleet import Named
    from statemigrate.commands.new_code import NewCode
    from statemigrate.native import Spark


@overload
def plan(
    checkpoint: str | Path,
    *,
    target: NewCode | None = ...,
    migrations: str | Path | None = ...,
    stores: Mapping[str, str] | None = ...,
    rules: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> ChangePlan: ...


@overload
def plan(
    *,
    checkpoints: Named,
    migrations: str | Path | None = ...,
    stores: Mapping[str, str] | None = ...,
    rules: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Plans: ...


def plan(
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    target: NewCode | None = None,
    migrations: str | Path | None = "migrations",
    stores: Mapping[str, str] | None = None,
    rules: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> ChangePlan | Plans:
    """Report what happens to the state of ``checkpoint`` when the code in ``target`` starts on it.

    The new code runs once on empty streams. Its ``old_code``, or the ``lock`` file of that code
    from `check`, shows the meaning of the state. Without new code, only the scripts are compared
    with the state. Nothing is written, and the query may be running.

    For a checkpoint of the embedded engine the code is the processor, or a function that makes the
    `EmbeddedQuery` and does not start it.

    With ``checkpoints``, paths by name, the result has the plans of all of them, and the error of
    each one that fails. A `NamedCheckpoint` names its code in ``query``, and the lock file of the
    deployed code in ``lock``.

    Raises `CheckpointError` and `UnsupportedError` for a checkpoint that cannot be read,
    `CodeError` for code that does not run on empty streams and for a file that is not a lock file,
    and `ScriptError` for a folder of scripts that cannot be read.
    """
    project = Project(migrations, {}, stores or {}, spark)
    if checkpoints is None:
        return _plan_of(required("plan", checkpoint), target, project, rules or {})
    require_alone("plan", "checkpoints", checkpoint=checkpoint, target=target)
    from statemigrate.commands.fleet import look_at_each, named_checkpoints

    named = named_checkpoints(checkpoints)
    code = {each.path: code_of(each) for each in named}

    def look(path: str, own: Project) -> ChangePlan:
        return _plan_of(path, code[path], own, rules or {})

    return Plans(tuple(NamedPlan(*each) for each in look_at_each(named, look, project)))


def _plan_of(
    checkpoint: str | Path,
    target: NewCode | None,
    project: Project,
    rules: Mapping[str, str],
) -> ChangePlan:
    files, wanted = files_to_read(checkpoint), target
    if wanted is not None and not (wanted.code or wanted.like):
        wanted = None
    if CheckpointDirectory(files).is_embedded:
        from statemigrate.commands.embedded_plan import plan_of_embedded

        return plan_of_embedded(str(checkpoint), files, wanted, project, rules)
    if wanted is not None:
        # What a script alone needs not to load: PySpark, and all that a rewrite is made of.
        from statemigrate.commands.new_code import check_inputs

        check_inputs(wanted)
    directory = CheckpointDirectory(files)
    shape = describe(files, directory.require_commit())
    begun = directory.last_begun()
    unplanned = ChangePlan(
        str(checkpoint),
        None if wanted is None else wanted.code,
        shape.query_id,
        shape.batch,
        shape.offsets[shape.batch].timestamp,
        sum(each.size for each in files.list("state", recursive=True)),
        open_batch=begun if begun > shape.batch else None,
    )
    hidden = tuple(_hidden(files, shape))
    if wanted is None:
        alone = _without_code(files, shape, project.lineages)
        items = (*hidden, *with_levels(alone, rules))
        return replace(unplanned, items=items, steps=tuple(_steps_without_code(files, items)))
    from statemigrate.commands.plan_steps import planned_for

    planned = planned_for(wanted, unplanned, files, shape, project, rules)
    return replace(planned, items=(*hidden, *planned.items))


def code_of(named: NamedCheckpoint) -> NewCode | None:
    """The code that a project names for a checkpoint; None where it names none."""
    if named.query is None:
        return None
    from statemigrate.commands.new_code import NewCode

    return NewCode(named.query, lock=named.lock)


def _hidden(files: Files, shape: CheckpointShape) -> Iterator[PlanItem]:
    """What is in the state though Spark does not list it: no verdict is about its values."""
    for operator in shape.operators:
        for error in hidden_families(files, shape, operator):
            text = f"{error.summary}; next: {error.next_action}"
            yield PlanItem(str(error.data["family"]), "unknown", text, operator_name(operator))


def _without_code(
    files: Files, shape: CheckpointShape, lineages: Mapping[str, Lineage]
) -> Iterator[PlanItem]:
    """What scripts alone say: whether they lead further than the state."""
    envelopes: Mapping[int, PlanItem] = {}
    if any(map(in_envelopes, shape.operators)):
        from statemigrate.commands.compared_envelopes import envelopes_by_scripts

        envelopes = envelopes_by_scripts(files, shape, lineages)
    for name in shape.offsets[shape.batch].offsets.by_source:
        yield PlanItem(f"source {name}", "goes on", "it continues at its offset")
    for operator in shape.operators:
        if operator.number in envelopes:
            yield envelopes[operator.number]
        else:
            yield from _scripted(operator, lineages)


def _scripted(operator: OperatorShape, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
    name, is_live = operator_name(operator), kind_of(operator.name).has_variables
    families: dict[str, list[str]] = {}
    for label, place in store_families(operator):
        variable = place.family.name
        if is_live and variable.startswith("$"):
            continue
        families.setdefault(store_of(variable) if is_live else label, []).append(variable)
    for store, found in families.items():
        revisions = {revision_in(each) or BASE for each in found} if is_live else {BASE}
        yield by_scripts(store, revisions, lineages.get(store), name, is_live=is_live)


def _steps_without_code(files: Files, items: Sequence[PlanItem]) -> Iterator[PlanStep]:
    for each in items:
        if each.verdict == "live":
            yield PlanStep(
                f"Try the scripts of {each.store} on the state",
                f"statemigrate dry-run {argument(each.store)} {argument(files.location)}",
            )
    if any(each.asks for each in items):
        yield PlanStep(
            "Name the code, which says whether Spark takes it",
            f"statemigrate plan {argument(files.location)} --code MODULE:FUNCTION",
        )
