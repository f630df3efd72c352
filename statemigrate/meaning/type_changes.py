"""What becomes of sources and states by the names and types that Spark compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs import Offsets
from statemigrate.checkpoint.operators import OperatorShape, is_internal, kind_of
from statemigrate.deployment import StorePlan, revision_in, revision_of, store_of
from statemigrate.meaning.plan_items import (
    BEGINS_EMPTY,
    DELETED,
    UNNAMED,
    PlanItem,
    deleted_families,
    short_text,
)
from statemigrate.meaning.spark_check import RowReading, reads
from statemigrate.meaning.store_changes import by_revisions
from statemigrate.migration import BASE, Lineage
from statemigrate.rewrite import FamilyAddress, operator_name, state_ddl, store_families

if TYPE_CHECKING:
    from statemigrate.rewrite import NewSources

# Sources.


def compare_sources(
    old: Offsets, new: NewSources, inputs: Sequence[str] | None, streams: int | None = None
) -> Iterator[PlanItem]:
    """What becomes of the sources; ``inputs`` are the old code's parameters in their order.

    ``streams`` is how many the new code reads without the backfill's own; None where no plan was
    seen of it.
    """
    before, after = tuple(old.by_source), new.names
    shown = [_source(name, new.inputs.get(name, "")) for name in after]
    if old.named or new.named:
        yield from _named_sources(before, after, old.named and new.named)
        return
    if len(before) != len(after):
        extra = [name for name in after if name not in new.inputs]
        is_backfill = bool(extra) and (streams is None or streams < len(after))
        if len(after) == len(before) + 1 and is_backfill:
            yield PlanItem(
                f"source {extra[-1]}",
                "live",
                "the backfill source is new: the checkpoint needs room for it",
            )
            return
        yield PlanItem(
            "sources",
            "rewrite",
            f"the checkpoint has offsets of {len(before)}, and the code reads {len(after)}: Spark "
            "does not start",
        )
        return
    now = [new.inputs.get(name, "") for name in after]
    for place, (name, called) in enumerate(zip(after, shown, strict=True)):
        if inputs is not None and place < len(inputs):
            was = inputs[place]
            if was == now[place]:
                yield PlanItem(called, "same", "it continues at its offset")
            else:
                yield PlanItem(
                    called,
                    "unnoticed",
                    f"source {name} was {was or 'without a name'} in the old code: Spark counts "
                    "sources in the order of the code, and gives this one the other's offset",
                    rule="source",
                )
        elif len(after) == 1:
            yield PlanItem(called, "goes on", "it continues at its offset")
        else:
            yield PlanItem(
                called,
                "unknown",
                f"it gets the offset of the old source {name}: Spark counts sources in the order "
                "of the code, and the old order is not known",
                rule="source",
            )


def _source(name: str, parameter: str) -> str:
    return f"source {name} ({parameter})" if parameter else f"source {name}"


def _named_sources(before: Sequence[str], after: Sequence[str], both: bool) -> Iterator[PlanItem]:
    if not both:
        yield PlanItem(
            "sources", "rewrite", "sources have names in one of checkpoint and code alone"
        )
        return
    for name in after:
        if name in before:
            yield PlanItem(f"source {name}", "same", "it continues at its offset, by its name")
        else:
            yield PlanItem(f"source {name}", "goes on", "it is new, and begins by itself")
    for name in before:
        if name not in after:
            yield PlanItem(
                f"source {name}",
                "unnoticed",
                "the code does not read it any more: what is new there is never processed",
                rule="source",
            )


# Operators and their states.


@dataclass(frozen=True)
class StoreTargets:
    """How the code's ``plan`` reads and writes a store, and the family that was ``written``.

    That is None where no start has recorded it.
    """

    plan: StorePlan
    written: str | None


NO_TARGETS: Mapping[str, StoreTargets] = {}


def compare_operators(
    old: Sequence[OperatorShape],
    new: Sequence[OperatorShape],
    lineages: Mapping[str, Lineage],
    targets: Mapping[str, StoreTargets] = NO_TARGETS,
    *,
    evolves: bool,
) -> Iterator[PlanItem]:
    """What becomes of the states, by the types that Spark compares.

    ``lineages`` are those of the scripts, by store, and ``targets`` are of the variables that
    scripts lead to; ``evolves`` says that variables are kept as Avro.
    """
    before = {each.number: each for each in old}
    after = {each.number: each for each in new}
    for number in sorted(before.keys() | after.keys()):
        was, now = before.get(number), after.get(number)
        if was is None or now is None or kind_of(was.name) is not kind_of(now.name):
            yield _other_operator(number, was, now)
        elif kind_of(now.name).has_variables:
            yield from _variables(was, now, lineages, targets, evolves=evolves)
        else:
            yield from _states(was, now)


def _other_operator(number: int, was: OperatorShape | None, now: OperatorShape | None) -> PlanItem:
    name = operator_name(now or was)  # type: ignore[arg-type]
    if was is None:
        text = "it is new: Spark refuses an operator that the checkpoint does not have"
    elif now is None:
        text = "the code does not have it any more: Spark refuses to start without it"
    else:
        text = f"it was {operator_name(was)}: Spark refuses another operator as number {number}"
    return PlanItem(name, "rewrite", text, name)


def _states(was: OperatorShape, now: OperatorShape) -> Iterator[PlanItem]:
    """Of an operator whose state only a rewrite changes."""
    name = operator_name(now)
    old, new = dict(store_families(was)), dict(store_families(now))
    for label in [*new, *(each for each in old if each not in new)]:
        if label not in old or label not in new:
            which = "the code alone" if label in new else "the checkpoint alone"
            text = f"{which} has this state: Spark does not start"
            yield PlanItem(label, "rewrite", text, name)
            continue
        key, value = reads(old[label].family, new[label].family, evolves=False)
        yield _state(label, name, key, value, is_of_code=kind_of(now.name).has_function)


def _state(
    label: str, operator: str, key: RowReading, value: RowReading, *, is_of_code: bool = True
) -> PlanItem:
    refused = [
        f"{part}: {read.refused}" for part, read in (("key", key), ("value", value)) if read.refused
    ]
    if refused:
        text = f"Spark does not start: {'; '.join(refused)}"
        return PlanItem(label, "rewrite", text, operator)
    others = [*key.as_other, *value.as_other]
    if others:
        names = [[_field_name(each) for each in pair] for pair in others]
        pairs = ", ".join(f"{one} is read as {other}" for one, other in names)
        text = f"Spark compares types alone, and starts: {pairs}"
        # Only the code of a function knows what it keeps: the name of a field is its meaning.
        rule = "variable" if is_of_code and value.as_other else "state"
        return PlanItem(label, "unnoticed", text, operator, rule=rule)
    return PlanItem(label, "same", "names and types of the state are the same", operator)


def _field_name(name: str) -> str:
    return "a computed key" if name == UNNAMED else name


def _variables(
    was: OperatorShape,
    now: OperatorShape,
    lineages: Mapping[str, Lineage],
    targets: Mapping[str, StoreTargets],
    *,
    evolves: bool,
) -> Iterator[PlanItem]:
    """Of ``transformWithState``: each variable, or the families of a store that has scripts."""
    name = operator_name(now)
    for setting, words in (("timeMode", "time mode"), ("outputMode", "output mode")):
        one, other = ((each.properties or {}).get(setting) for each in (was, now))
        if one != other:
            text = f"it was {one}, and is {other}: Spark does not start"
            yield PlanItem(f"{name} {words}", "rewrite", text, name)
    old, new = _by_store(was), _by_store(now)
    for store in [*new, *(each for each in old if each not in new)]:
        if store not in old:
            yield PlanItem(store, "goes on", BEGINS_EMPTY, name, store)
        elif store not in new:
            yield PlanItem(store, "unnoticed", DELETED, name, store, "variable")
        else:
            item = _store(store, old[store], new[store], name, lineages.get(store), evolves=evolves)
            others = item.verdict in ("same", "goes on") and store in targets
            yield _of_target(item, old[store], targets[store]) if others else item


def _of_target(item: PlanItem, old: Mapping[str, FamilyAddress], targets: StoreTargets) -> PlanItem:
    """The verdict where the code may write another family than was written, both being there."""
    written = next(iter(old)) if len(old) == 1 else targets.written
    target, lineage = targets.plan.target, targets.plan.lineage
    if written == target.name:
        return item
    if written is None:
        text = f"values of another revision than {target.revision} become that as they are touched"
        return replace(item, verdict="goes on", text=text)
    at = {revision_of(lineage, name) for name in old}
    verdict, text = by_revisions(at, revision_of(lineage, written), target, lineage)
    return replace(item, verdict=verdict, text=text)


def _by_store(operator: OperatorShape) -> dict[str, dict[str, FamilyAddress]]:
    """The user's variables by their store, which may have several families."""
    found: dict[str, dict[str, FamilyAddress]] = {}
    for _, place in store_families(operator):
        variable = place.family.name
        if not is_internal(variable):
            found.setdefault(store_of(variable), {})[variable] = place
    return found


def _store(
    store: str,
    old: Mapping[str, FamilyAddress],
    new: Mapping[str, FamilyAddress],
    operator: str,
    lineage: Lineage | None,
    *,
    evolves: bool,
) -> PlanItem:
    shared = [name for name in new if name in old]
    for name in shared:
        was, now = old[name].family.kind, new[name].family.kind
        if was != now:
            text = f"it was a {was}, and is a {now}: Spark does not start"
            return PlanItem(store, "rewrite", text, operator, store)
        key, value = reads(old[name].family, new[name].family, evolves=evolves)
        if value.refused and not key.refused:
            text = f"Spark does not start: {value.refused}"
            return PlanItem(store, "live", text, operator, store)
        if not (key.is_same and value.is_same):
            read = _evolved if value.dropped or value.empty else _state
            return replace(read(store, operator, key, value), store=store)
    lost = [name for name in old if name not in new]
    begun = [name for name in new if name not in old]
    is_migrated = any(revision_in(name) for name in new)
    if lost and not is_migrated:
        return deleted_families(store, lost, operator)
    if not begun and not lost:
        return PlanItem(store, "same", "names and types are the same", operator, store)
    return _migrating(store, old, new, operator, lineage)


def _evolved(store: str, operator: str, key: RowReading, value: RowReading) -> PlanItem:
    if not key.is_same:
        return _state(store, operator, key, value)
    if value.dropped:
        text = f"Spark starts, and reads {', '.join(value.dropped)} no more"
        if value.empty:
            text += f"; {', '.join(value.empty)} is null in old values, also where it is a new name"
        return PlanItem(store, "unnoticed", text, operator, store, "variable")
    text = f"Spark reads old values with null for {', '.join(value.empty)}"
    return PlanItem(store, "goes on", text, operator, store)


def _migrating(
    store: str,
    old: Mapping[str, FamilyAddress],
    new: Mapping[str, FamilyAddress],
    operator: str,
    lineage: Lineage | None,
) -> PlanItem:
    """Of a store whose code has `migrated`, and declares other families than there are."""
    target = next((revision_in(name) for name in new if name not in old), None)
    if target is None:
        text = "older families are empty, or were retired"
        return PlanItem(store, "goes on", text, operator, store)
    if lineage is None or target not in lineage:
        text = f"the code writes revision {target}, which no script of {store} leads to"
        return PlanItem(store, "cannot", text, operator, store)
    for name in old:
        revision = revision_in(name) or BASE
        known = lineage.oldest if revision == BASE else revision
        if known not in lineage or lineage.position(known) > lineage.position(target):
            text = (
                f"the state has revision {revision}, and the code writes {target}: values go back "
                "where each script has `downgrade`"
            )
            return PlanItem(store, "live", text, operator, store)
    ddl = state_ddl(next(new[name].family.content for name in new if revision_in(name) == target))
    text = f"values become {short_text(ddl)} (revision {target}) as they are touched"
    return PlanItem(store, "live", text, operator, store)
