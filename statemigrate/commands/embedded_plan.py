"""The plan for a query of the embedded engine: verdicts on its stores, and the steps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.commands.change_plan import ChangePlan
from statemigrate.commands.plan_costs import StateCosts, embedded_costs
from statemigrate.deployment import (
    SETTINGS,
    DeploymentSettings,
    StoredStore,
    fitting_lineages,
    named_object,
    only_looking,
    plan_store,
)
from statemigrate.embedded import Layout, Manifest, batch_time, require_committed
from statemigrate.errors import CodeError
from statemigrate.files import Files
from statemigrate.meaning import (
    PlanItem,
    PlanStep,
    by_scripts,
    compare_stores,
    format_ddl,
    with_levels,
)
from statemigrate.migration import BASE, Lineage
from statemigrate.quoting import argument
from statemigrate.state import Project

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from statemigrate.commands.new_code import NewCode
    from statemigrate.embedded import QueryParts


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
    code = _tried(target, project, checkpoint)
    items = tuple(with_levels(_with_code(manifest, code, project.lineages), rules))
    has_folder = project.survey is not None
    is_live = any(each.asks and each.verdict == "live" for each in items)
    costs = embedded_costs(unplanned.size) if is_live else None
    steps = tuple(_steps(checkpoint, items, code, project.lineages, costs, has_folder=has_folder))
    return replace(
        unplanned,
        items=items,
        steps=steps,
        undo=_undo(checkpoint, items, manifest),
        basis="" if costs is None else costs.basis,
    )


# What the code declares.


@dataclass(frozen=True)
class _Code:
    """The ``stores`` that code declares, as its first start would record them.

    ``key`` is the type of the grouping key and ``partitions`` the number of them, both None where
    the code is a processor alone. ``is_migrated`` says whether it is marked by `migrated`, and
    ``expiring`` are the stores that it gives a time to live.
    """

    stores: Mapping[str, StoredStore]
    key: StructType | None
    partitions: int | None
    is_migrated: bool
    expiring: tuple[str, ...] = ()


def _tried(target: NewCode, project: Project, checkpoint: str) -> _Code:
    from statemigrate.inspect import code_of

    reference = str(target.code)
    if target.code is None or target.like or target.old_code or target.lock:
        raise CodeError(
            "SM-CODE-016",
            f"code for the embedded engine's state in {checkpoint} is compared by its stores",
            expected="--code alone",
            found="--like, --old-code or --lock",
            next_action="leave it out: what the values mean is not recorded there",
            reference=reference,
        )
    with only_looking():
        found, key, partitions = named_object(reference), None, None
        if not isinstance(found, type) and not hasattr(found, "handleInputRows"):
            parts = _query_of(found, target, project, checkpoint)
            found, key, partitions = parts.processor, parts.schema.key, parts.options.partitions
        declared = code_of(found, reference).declared
    settings: DeploymentSettings = getattr(found, SETTINGS, DeploymentSettings())
    is_migrated = hasattr(found, SETTINGS)
    lineages = fitting_lineages(declared, project.lineages if is_migrated else {}, settings)
    stores = {}
    for each in declared:
        lineage = lineages.get(each.store)
        own = DeploymentSettings() if lineage is None else settings
        stores[each.store] = plan_store(each, lineage, None, own).stored()
    expiring = tuple(each.store for each in declared if each.ttl)
    return _Code(stores, key, partitions, is_migrated, expiring)


def _query_of(function: Any, target: NewCode, project: Project, checkpoint: str) -> QueryParts:
    """The query that a function makes of empty streams."""
    from statemigrate.embedded import EmbeddedQuery, parts_of
    from statemigrate.native import session_of
    from statemigrate.rewrite import call_on_empty_streams, input_schemas

    reference = str(target.code)
    input_schemas(function, target.inputs, reference)
    session = session_of(project.spark, checkpoint)
    with tempfile.TemporaryDirectory(prefix="statemigrate-probe-") as folder:
        made, _ = call_on_empty_streams(
            function, Path(folder), session, inputs=target.inputs, reference=reference
        )
        if isinstance(made, EmbeddedQuery):
            return parts_of(made)
    raise CodeError(
        "SM-CODE-017",
        f"{reference} returns no query of the embedded engine, whose state {checkpoint} has",
        expected="an EmbeddedQuery that is not started, or the name of its processor",
        found=type(made).__name__,
        next_action="return the EmbeddedQuery from the function, or give --code MODULE:PROCESSOR",
        reference=reference,
    )


# Verdicts.


def _without_code(manifest: Manifest, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
    for store, each in manifest.stored_stores().items():
        revisions = {family.revision for family in each.families if family.occupancy != "nothing"}
        yield by_scripts(store, revisions, lineages.get(store), store, is_live=True)


def _with_code(
    manifest: Manifest, code: _Code, lineages: Mapping[str, Lineage]
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
    checkpoint: str,
    items: tuple[PlanItem, ...],
    code: _Code,
    lineages: Mapping[str, Lineage],
    costs: StateCosts | None,
    *,
    has_folder: bool,
) -> Iterator[PlanStep]:
    from statemigrate.commands.plan_steps import script_to_write

    asking = [each for each in items if each.asks]
    for each in asking:
        if each.verdict != "live":
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
