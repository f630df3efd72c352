"""What becomes of stores whose formats this package records: on pages, and the embedded engine's.

Spark knows nothing of their types. The record of a checkpoint has the families of each store, and
new code has a target for each that it declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.formats import Format
from statemigrate.formats.struct import shape_of
from statemigrate.meaning.plan_items import BEGINS_EMPTY, PlanItem, Verdict, short_text
from statemigrate.migration import BASE, Lineage
from statemigrate.rewrite import state_ddl


def compare_stores(
    old: Mapping[str, StoredStore],
    new: Mapping[str, StoredStore],
    lineages: Mapping[str, Lineage],
    operator: str = "",
) -> Iterator[PlanItem]:
    """The verdict on each store of an ``operator``.

    ``old`` are the stores as the checkpoint records them, and ``new`` those that the code declares,
    as they would be recorded of an empty state.
    """
    for store, declared in new.items():
        if store not in old:
            yield PlanItem(store, "goes on", BEGINS_EMPTY, operator, store)
        else:
            yield _store(store, old[store], declared, lineages.get(store), operator)
    for store in old:
        if store not in new:
            text = "the code does not declare it: its values stay, and nothing reads them"
            yield PlanItem(store, "goes on", text, operator, store)


def by_scripts(
    store: str, revisions: set[str], lineage: Lineage | None, operator: str, *, is_live: bool
) -> PlanItem:
    """What scripts alone say of a store that has values of these ``revisions``.

    ``is_live`` says that values migrate while the query runs.
    """
    if lineage is None:
        return PlanItem(store, "goes on", "no script changes it", operator, store)
    # State from before the first script is at the revision of a baseline.
    at = {lineage.oldest if is_live and each == BASE else each for each in revisions}
    if at == {lineage.head}:
        return PlanItem(store, "same", "it is at the head of its scripts", operator, store)
    if is_live and lineage.head in at:
        text = f"values are migrating to revision {lineage.head}"
        return PlanItem(store, "goes on", text, operator, store)
    text = f"its scripts lead to revision {lineage.head}, which no code has written yet"
    return PlanItem(store, "live" if is_live else "rewrite", text, operator, store)


def format_ddl(store: StoredStore) -> str:
    """The DDL of the format that is written to."""
    return _ddl(store.target)


def is_scripted(store: StoredStore, lineage: Lineage | None) -> bool:
    """Whether scripts lead to what is written, and not to another format of that revision.

    Code that is tried before its scripts are written has its format at the first revision.
    """
    target = store.target
    return (
        lineage is not None
        and target.revision in lineage
        and _shape(lineage.format_of(target.revision)) == _shape(target.format)
    )


def _shape(format: Format) -> object:
    return shape_of(format.struct_type())


def _ddl(family: StoredFamily) -> str:
    return state_ddl(family.format.struct_type().jsonValue())


def _store(
    store: str, was: StoredStore, now: StoredStore, lineage: Lineage | None, operator: str
) -> PlanItem:
    if was.kind != now.kind or _user_key(was) != _user_key(now):
        text = (
            f"it was a {was.kind} and is a {now.kind}"
            if was.kind != now.kind
            else "the keys of the map have another type"
        )
        text += ": the query does not start, and no script changes this; give it another name"
        return PlanItem(store, "cannot", text, operator, store)
    target = now.target
    if lineage is None or not is_scripted(now, lineage):
        return _without_script(store, was, target, operator)
    at = {_revision(each, lineage) for each in was.families if each.occupancy != "nothing"}
    verdict, text = by_revisions(at, _revision(was.target, lineage), target, lineage)
    return PlanItem(store, verdict, text, operator, store)


def by_revisions(
    at: set[str], written: str, target: StoredFamily, lineage: Lineage
) -> tuple[Verdict, str]:
    """What becomes of values ``at`` these revisions, and why; new ones were ``written`` at one."""
    goal = target.revision
    unknown = sorted(each for each in at if each not in lineage)
    if unknown:
        return "cannot", f"the state has revision {unknown[0]}, which no script leads to"
    newest = max(at, key=lineage.position, default=goal)
    missing = lineage.missing_downgrade(newest, goal)
    if at <= {goal}:
        found: tuple[Verdict, str] = "same", f"it is at revision {goal}"
    elif missing is not None:
        text = f"the state has revision {newest}, and script {missing.revision} has no `downgrade`"
        found = "cannot", text
    elif written == goal:
        found = "goes on", f"values are migrating to revision {goal}"
    elif lineage.position(newest) > lineage.position(goal):
        found = "live", f"values go back from revision {newest} to {goal}"
    else:
        ddl = short_text(_ddl(target))
        found = "live", f"values become {ddl} (revision {goal}) as they are touched"
    return found


def _without_script(store: str, was: StoredStore, target: StoredFamily, operator: str) -> PlanItem:
    """Of a store whose scripts do not lead to what the code declares, or that has none."""
    newest = was.target
    if _shape(newest.format) == _shape(target.format):
        text = "the code declares the format that the state has"
        return PlanItem(store, "same", text, operator, store)
    text = (
        f"the state has {short_text(_ddl(newest))}, and the code {short_text(_ddl(target))}: the "
        "query does not start before a script leads there"
    )
    return PlanItem(store, "live", text, operator, store)


def _revision(family: StoredFamily, lineage: Lineage) -> str:
    """State from before the first script is at the revision of a baseline, if that is the first."""
    if family.revision == BASE and BASE not in lineage:
        return lineage.oldest
    return family.revision


def _user_key(store: StoredStore) -> object:
    if store.user_key is None:
        return None
    return [(each["name"], each["type"]) for each in store.user_key["fields"]]
