"""What becomes of the families of an operator: by scripts, or by the names of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from statemigrate.checkpoint.operators.catalogue import (
    DEDUPLICATE,
    SESSION_WINDOW,
    is_derived,
    is_numbered,
    is_timers,
    kind_of,
    shown_key,
)
from statemigrate.checkpoint.operators.shapes import FamilyShape, OperatorShape
from statemigrate.errors import RewriteError
from statemigrate.rewrite.aggregate_pairing import function_changes, pair_functions
from statemigrate.rewrite.aggregates import KnownFunctions
from statemigrate.rewrite.column_pairing import (
    FamilyAddress,
    counted_part,
    crosses,
    family_label,
    is_unused,
    old_families,
    part_of,
)
from statemigrate.rewrite.families import FamilyPlan, has_functions, state_kind
from statemigrate.rewrite.fields import (
    StructChange,
    Take,
    check_owners,
    match_fields,
    takes_of_parts,
)
from statemigrate.rewrite.scripts import Scripted, Scripts


def plan_families(
    old: OperatorShape,
    new: OperatorShape,
    take: Mapping[str, str],
    fields: Mapping[str, Take],
    scripts: Scripts,
    functions: KnownFunctions | None = None,
) -> Iterator[FamilyPlan]:
    """Each family of the new operator, with where its rows come from.

    ``take`` has the author's matches of families and ``fields`` those of fields, by the names of
    new ones. With ``functions``, all that is known of both codes, buffers are paired by them; None
    is of values whose fields go by their names. Raises `RewriteError` for fields and families that
    do not fit, `UnsupportedError` for state that cannot be rewritten yet.
    """
    found = list(old_families(old, new, take))
    rekeyed = {
        part_of(old, source)
        for _, sources in found
        for source in sources
        if _rekeys(scripts.open_of(family_label(old, source)))
    }
    for place, sources in found:
        name = family_label(new, place)
        if is_derived(place.family.name):
            yield FamilyPlan(name, place, is_derived=True)
        elif not sources or is_unused(new, place.family):
            yield FamilyPlan(name, place)
        elif len(sources) > 1:
            yield _joined(old, new, FamilyPlan(name, place), sources, fields.get(name, {}), scripts)
        else:
            (source,) = sources
            counted = counted_part(old, source)
            if crosses(old, new) and is_timers(place.family.name):
                yield FamilyPlan(name, place, source, way="timers")
            elif counted in rekeyed:
                yield FamilyPlan(name, place, source, way="counts", counts=counted or "")
            else:
                script = scripts.between(family_label(old, source), name)
                plan = FamilyPlan(name, place, source, script=script)
                own = fields.get(name, {})
                if functions is None or script is not None or not has_functions(new):
                    yield _of_one(old, new, plan, own)
                else:
                    yield _by_functions(old, new, plan, own, functions)


def _by_functions(
    old: OperatorShape,
    new: OperatorShape,
    plan: FamilyPlan,
    take: Take,
    functions: KnownFunctions,
) -> FamilyPlan:
    """The plan of buffers of aggregate functions, which are paired as these are."""
    assert plan.old is not None, "functions are paired with old ones"  # noqa: S101
    key = match_fields(plan.old.family.key, plan.new.family.key, take, plan.name)
    _check_key(plan.name, key, merges_alike=False)
    before, after = plan.old.family.content, plan.new.family.content
    known = functions.old.get(old.number), functions.new.get(new.number)
    kept = _before_buffers(new, plan.new.family)
    pairing = pair_functions(before, after, known, take, plan.name, kept)
    value = function_changes(pairing, before, after, plan.name, kept)
    return replace(plan, key=key, value=value, functions=pairing)


def _before_buffers(operator: OperatorShape, family: FamilyShape) -> int:
    """How many fields are in front of the buffers: in session windows the grouping columns.

    These are as many as the key has, which has the window's start in its place.
    """
    return len(family.key["fields"]) if kind_of(operator.name) is SESSION_WINDOW else 0


def _rekeys(script: Scripted | None) -> bool:
    return script is not None and any(step.key for step in script.path.steps)


def _of_one(old: OperatorShape, new: OperatorShape, plan: FamilyPlan, take: Take) -> FamilyPlan:
    """The plan of a family whose rows come from one, by its script or else by names of fields."""
    script, place, source = plan.script, plan.new, plan.old
    if script is None:
        return _matched(old, new, plan, take)
    assert source is not None, "a script has old rows"  # noqa: S101
    script.check(place.family.content, shown_key(new, place.store, place.family))
    held = replace(source, family=script.taken_of(source.family))
    return _scripted(new, replace(plan, old=held))


def _joined(
    old: OperatorShape,
    new: OperatorShape,
    plan: FamilyPlan,
    sources: Sequence[FamilyAddress],
    take: Take,
    scripts: Scripts,
) -> FamilyPlan:
    """The plan of a family whose rows come from several: each brought to one form, then merged."""
    script = scripts.new.get(plan.name)
    script = script if script is not None and script.is_open else None
    if script is not None:
        place = plan.new
        script.check(place.family.content, shown_key(new, place.store, place.family))
    form = plan.new if script is None else _form(new, plan.new, script)
    names = [family_label(old, each) for each in sources]
    parts = []
    for name, source, own in zip(names, sources, takes_of_parts(names, take), strict=True):
        # Scripts of the store that parts become are run on all of them together.
        of_part = None if name == plan.name else scripts.open_of(name)
        part = FamilyPlan(plan.name, form, source, script=of_part)
        parts.append(_part(old, new, part, own))
    if script is None and not plan.gathers:
        check_owners(plan.name, dict(zip(names, (each.value for each in parts), strict=True)))
    found = replace(plan, script=script, way="joined", parts=tuple(parts))
    _check_tables(found)
    return found


def _form(new: OperatorShape, place: FamilyAddress, script: Scripted) -> FamilyAddress:
    """What entries are that a script of several families takes."""
    shown = shown_key(new, place.store, place.family)
    return replace(place, family=script.taken_as(place.family, shown))


def _part(old: OperatorShape, new: OperatorShape, plan: FamilyPlan, take: Take) -> FamilyPlan:
    if plan.script is not None:
        _check_tables(plan)
        return replace(_of_one(old, new, plan, take), way="entries")
    return _matched_entries(old, new, plan, take)


def _scripted(new: OperatorShape, plan: FamilyPlan) -> FamilyPlan:
    assert plan.old is not None, "a script has old rows"  # noqa: S101
    numbered = is_numbered(new, plan.new.store, plan.new.family)
    is_plain = (
        plan.is_alike
        and plan.new.family.wrapping != "key"
        and not (plan.new.family.user_key or numbered)
        and not (plan.new.family.is_list and (plan.changes_keys or _has_tables(plan.script)))
    )
    if is_plain:
        return plan
    _check_tables(plan)
    return replace(plan, way="entries", is_numbered=numbered)


def _has_tables(script: Scripted | None) -> bool:
    return script is not None and any(step.table is not None for step in script.path.steps)


def _check_tables(plan: FamilyPlan) -> None:
    """Entries take along where they stood and when they expire, which no table tells of new keys.

    Raises `RewriteError` for a script that changes them in tables alone.
    """
    for step in plan.script.path.steps if plan.script else ():
        if step.key is not None and step.transform is None:
            raise RewriteError(
                "SM-REWRITE-013",
                f"the script of revision {step.target} changes keys of {plan.name} in tables",
                expected="rekey(key, value) and upgrade(value) where entries are of a list, a map "
                "or a join, expire, or become another kind of state",
                found="upgrade_table and new_key, which do not tell which entry has become which",
                next_action=f"write rekey(key, value) and upgrade(value) in "
                f"{step.script or 'the script'}; nothing was written",
                store=plan.name,
            )


def _matched(old: OperatorShape, new: OperatorShape, plan: FamilyPlan, take: Take) -> FamilyPlan:
    if not plan.is_alike:
        return _matched_entries(old, new, plan, take)
    assert plan.old is not None, "fields are matched with old ones"  # noqa: S101
    key = match_fields(plan.old.family.key, plan.new.family.key, take, plan.name)
    _check_key(plan.name, key, merges_alike=kind_of(new.name) is DEDUPLICATE)
    return replace(plan, key=key, value=_matched_content(plan, take))


def _matched_entries(
    old: OperatorShape, new: OperatorShape, plan: FamilyPlan, take: Take
) -> FamilyPlan:
    assert plan.old is not None, "fields are matched with old ones"  # noqa: S101
    before, after = (
        shown_key(operator, each.store, each.family)
        for operator, each in ((old, plan.old), (new, plan.new))
    )
    key = match_fields(before, after, take, plan.name)
    _check_kind(plan)
    _check_key(plan.name, key, merges_alike=kind_of(new.name) is DEDUPLICATE)
    return replace(plan, key=key, value=_matched_content(plan, take), way="entries")


def _matched_content(plan: FamilyPlan, take: Take) -> StructChange:
    assert plan.old is not None, "asked before"  # noqa: S101
    return match_fields(plan.old.family.content, plan.new.family.content, take, plan.name)


def _check_key(name: str, key: StructChange, *, merges_alike: bool) -> None:
    if key.added:
        field = key.added[0].label
        raise RewriteError(
            "SM-REWRITE-014",
            f"{name}: the key has a new column {field}, and old rows do not say it",
            expected="for every old key a new one",
            found=f"no value of {field}",
            next_action=f"write a script for {name} with new_key and rekey(key, value), which says "
            "the new key of each row",
            store=name,
        )
    if key.dropped and not merges_alike:
        raise RewriteError(
            "SM-REWRITE-015",
            f"rows of {name} meet, since the key has no {key.dropped[0]} any more",
            expected="one row for each new key",
            found="for several old keys one new key",
            next_action=f"write a script for {name} with new_key, rekey(key, value) and "
            "merge(first, second), which says what two rows make",
            store=name,
        )


def _check_kind(plan: FamilyPlan) -> None:
    """Without a script a value becomes a list of one, and nothing else another kind."""
    before, after = state_kind(plan.old), state_kind(plan.new)
    if before != after and (before, after) != ("a value", "a list"):
        raise RewriteError(
            "SM-REWRITE-016",
            f"{plan.name} becomes state of another kind, and only you can say how",
            expected=f"{before}, as it was",
            found=after,
            next_action=f"write a script for {plan.name} with new_key and rekey(key, value), and "
            "merge(first, second) where entries meet under one key",
            store=plan.name,
        )
