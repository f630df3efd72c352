"""The plan for a query of the embedded engine: verdicts on its stores, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.commands.change_plan import ChangePlan
from statemigrate.commands.plan_costs import StateCosts, embedded_costs
from statemigrate.embedded import Layout, Manifest, batch_time, require_committed
from statemigrate.files import Files
from statemigrate.meaning import (
    PROCESSOR,
    CodeMeaning,
    PlanItem,
    PlanStep,
    by_scripts,
    compare_code,
    compare_stores,
    format_ddl,
    unset_as_warnings,
    with_levels,
)
from statemigrate.migration import BASE, Lineage
from statemigrate.quoting import argument
from statemigrate.state import Project

if TYPE_CHECKING:
    from statemigrate.commands.embedded_code import DeclaredCode
    from statemigrate.commands.new_code import NewCode


def plan_of_embedded(
    checkpoint: str,
    files: Files,
    target: NewCode | None,
    project: Project,
    rules: Mapping[str, str],
) -> ChangePlan:
    """The plan for a checkpoint of the embedded engine.

    The code is a processor, which `init` is called of, or a function from the input streams to the
    `EmbeddedQuery`, which runs on empty streams. Raises as `plan`.
    """
    layout = Layout.over(files)
    manifest = require_committed(layout)
    unplanned = ChangePlan(
        checkpoint,
        None if target is None else target.code,
        str(CheckpointDirectory(files).query_id()),
        manifest.version,
        batch_time(layout, manifest.version),
        sum(each.size for each in files.list("statemigrate/partitions", recursive=True)),
    )
    if target is None:
        found = tuple(with_levels(_without_code(manifest, project.lineages), rules))
        return replace(unplanned, items=found, steps=tuple(_tries(checkpoint, found)))
    # What scripts alone need not: PySpark, and the user's code.
    from statemigrate.commands.embedded_code import declared_by, meant_before

    code = declared_by(target, project, checkpoint)
    verdicts = [*_with_code(manifest, code, project.lineages)]
    if code.meaning is not None:
        known = meant_before(target, files, manifest.version, project)
        # Of another key there is nothing more to say.
        has_key = all(each.name != "key" or each.verdict == "same" for each in verdicts)
        verdicts += [
            each for each in _of_meaning(known, code.meaning) if has_key or each.rule != "key"
        ]
    items = tuple(with_levels(verdicts, rules))
    has_folder = project.survey is not None
    is_live = any(each.asks and each.verdict == "live" for each in items)
    costs = embedded_costs(unplanned.size) if is_live else None
    steps = _steps(target, checkpoint, items, code, project.lineages, costs, has_folder=has_folder)
    return replace(
        unplanned,
        items=items,
        steps=tuple(steps),
        undo=_undo(checkpoint, items, manifest),
        basis="" if costs is None else costs.basis,
    )


# Verdicts.


def _without_code(manifest: Manifest, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
    for store, each in manifest.stored_stores().items():
        revisions = {family.revision for family in each.families if family.occupancy != "nothing"}
        yield by_scripts(store, revisions, lineages.get(store), store, is_live=True)


def _with_code(
    manifest: Manifest, code: DeclaredCode, lineages: Mapping[str, Lineage]
) -> Iterator[PlanItem]:
    if code.key is not None:
        was = _columns(manifest.key_schema)
        now = _columns(code.key.jsonValue())
        if was == now:
            yield PlanItem("key", "same", "names and types of the grouping columns are the same")
        else:
            text = f"it was {was}, and is {now}: the query does not start, and no command gives "
            yield PlanItem("key", "cannot", text + "the state of this engine other keys")
    committed = len(manifest.partitions)
    if code.partitions not in (None, committed):
        text = (
            f"the checkpoint was made with {committed}, and the code asks for {code.partitions}: "
        )
        text += "the query does not start, and the number is fixed for the life of a checkpoint"
        yield PlanItem("partitions", "cannot", text)
    for store in code.expiring:
        text = "the code gives its values one: the query does not start, as this engine has none"
        yield PlanItem(f"{store} time to live", "cannot", text, store=store)
    yield from compare_stores(manifest.stored_stores(), code.stores, lineages)


def _of_meaning(old: CodeMeaning | None, new: CodeMeaning) -> Iterator[PlanItem]:
    """What the processor's rows and keys were computed from, and what they are."""
    if old is None:
        text = "nothing says what its rows and keys were computed from"
        yield PlanItem(PROCESSOR, "unknown", text, rule="meaning")
        return
    found = [*unset_as_warnings(compare_code(old, new), old, new)]
    if not any(each.asks for each in found):
        text = "its rows and keys are computed from the same"
        yield PlanItem(PROCESSOR, "same", text)
    yield from found


def _columns(struct: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['name']} {each['type']}" for each in struct["fields"])


# Steps.


def _tries(checkpoint: str, items: tuple[PlanItem, ...]) -> Iterator[PlanStep]:
    for each in items:
        if each.verdict == "live":
            yield _dry_run(checkpoint, each.store)
    if any(each.asks for each in items):
        yield PlanStep(
            "Name the code, a processor or a function, which says what it reads",
            f"statemigrate plan {argument(checkpoint)} --code MODULE:OBJECT",
        )


def _steps(
    target: NewCode,
    checkpoint: str,
    items: tuple[PlanItem, ...],
    code: DeclaredCode,
    lineages: Mapping[str, Lineage],
    costs: StateCosts | None,
    *,
    has_folder: bool,
) -> Iterator[PlanStep]:
    from statemigrate.commands.plan_steps import options_of, script_to_write, taken_back

    asking = [each for each in items if each.asks]
    for each in asking:
        if each.verdict == "unnoticed":
            yield taken_back(each, "values", "EmbeddedQuery(..., accept=...)")
        elif each.verdict == "unknown":
            yield PlanStep(
                "Say what the state means, and look again",
                f"statemigrate plan {argument(checkpoint)}{options_of(target)} "
                "--old-code MODULE:FUNCTION",
            )
        elif each.verdict != "live":
            yield PlanStep(f"Decide about {each.name}: {each.text}")
    live = [each.store for each in asking if each.verdict == "live"]
    for store in live:
        lineage, ddl = lineages.get(store), format_ddl(code.stores[store])
        yield from script_to_write(checkpoint, store, ddl, lineage, has_folder=has_folder)
        yield _dry_run(checkpoint, store)
    if live and not code.is_migrated:
        yield PlanStep("Put `@statemigrate.migrated` on the processor, which reads old values")
    if len(live) == len(asking):
        yield PlanStep("Restart the query with the new code on the same checkpoint")
    if live:
        yield PlanStep(
            "Watch the old values go, which the query migrates beside its rows",
            f"statemigrate status {argument(checkpoint)}",
            None if costs is None else costs.backfill,
        )


def _dry_run(checkpoint: str, store: str) -> PlanStep:
    return PlanStep(
        f"Try the scripts of {store} on the state",
        f"statemigrate dry-run {argument(store)} {argument(checkpoint)}",
    )


def _undo(checkpoint: str, items: tuple[PlanItem, ...], manifest: Manifest) -> str:
    """How to go back once the code runs."""
    live = sorted(each.store for each in items if each.asks and each.verdict == "live")
    at = {store: manifest.stores[store].target.revision for store in live}
    words = " ".join(
        f"--to {argument(f'{store}={revision or BASE}')}" for store, revision in at.items()
    )
    return f"statemigrate rollback {argument(checkpoint)} {words}" if words else ""
