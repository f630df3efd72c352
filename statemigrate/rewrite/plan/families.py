"""What becomes of the rows of one family of one operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from statemigrate.checkpoint.operators.catalogue import (
    AGGREGATION,
    DEDUPLICATE,
    is_derived,
    is_timers,
    kind_of,
)
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.operators.shown_keys import is_numbered, shown_key
from statemigrate.errors import RewriteError
from statemigrate.rewrite.plan.fields import StructChange, Take, match_fields
from statemigrate.rewrite.plan.places import (
    Place,
    counted_part,
    crosses,
    families_of,
    is_unused,
    old_places,
    part_of,
    place_name,
)
from statemigrate.rewrite.plan.scripts import Scripted

Change = Literal["kept", "values", "keys", "kind", "new", "derived"]
Way = Literal["rows", "entries", "counts", "timers"]
"""How old rows become new ones: each by itself; taken apart into single entries, which are put
together again; as the numbers of rows of a join's side; or as timers, of what times out."""
Expiry = Literal["never", "kept", "told", "ends"]
"""When new values expire: as the old ones do, or as the author says; or they do not any more."""


@dataclass(frozen=True)
class FamilyPlan:
    """A family of the new checkpoint: ``name`` is how users call it.

    ``old`` is where its rows come from, None where none do. A key whose rows are ``numbered`` is a
    join's; ``counts`` is the part whose rows are counted. What is ``derived`` is written from the
    rows of another family, as the length of a list is. With a ``script`` the author's functions
    say what becomes of rows, and nothing is matched.
    """

    name: str
    new: Place
    old: Place | None = None
    key: StructChange | None = None
    value: StructChange | None = None
    is_derived: bool = False
    script: Scripted | None = None
    way: Way = "rows"
    counts: str = ""
    is_numbered: bool = False

    @property
    def change(self) -> Change:
        """In a word, what becomes of its rows."""
        if self.is_derived:
            return "derived"
        if self.old is None:
            return "new"
        if self.way in ("counts", "timers"):
            return "keys" if self.way == "counts" else "kind"
        if _kind(self.old) != _kind(self.new) or self.old.family.wrapping == "state":
            return "kind"
        if self.script is not None:
            return "keys" if self.changes_keys else "values"
        return _changed(self.key, self.value, self.expiry)

    @property
    def changes_keys(self) -> bool:
        """Whether a script gives entries other keys."""
        return self.script is not None and any(step.key for step in self.script.path.steps)

    @property
    def gathers(self) -> bool:
        """Whether several entries may stand under one key: of a list, or of a side of a join."""
        return self.new.family.is_list or self.is_numbered

    @property
    def expiry(self) -> Expiry:
        """What becomes of the moments at which values expire."""
        if self.old is None:
            return "never"
        old, new = (each.family.wrapping == "expiry" for each in (self.old, self.new))
        if new:
            restarts = self.script is not None and _restarts(self.script)
            return "kept" if old and not restarts else "told"
        return "ends" if old else "never"


def plan_families(
    old: OperatorShape,
    new: OperatorShape,
    take: Mapping[str, str],
    fields: Mapping[str, Take],
    scripts: Mapping[str, Scripted],
) -> Iterator[FamilyPlan]:
    """Each family of the new operator, with where its rows come from.

    ``take`` has the author's matches of families and ``fields`` those of fields, by the names of
    new ones; ``scripts`` the scripts by names of old stores. Raises `RewriteError` for fields and
    families that do not fit, `UnsupportedError` for state that cannot be rewritten yet.
    """
    found = list(old_places(old, new, take))
    rekeyed = {
        part_of(old, source)
        for _, source in found
        if source is not None and _rekeys(old, source, scripts)
    }
    for place, source in found:
        name = place_name(new, place)
        if is_derived(place.family.name):
            yield FamilyPlan(name, place, is_derived=True)
        elif source is None or is_unused(new, place.family):
            yield FamilyPlan(name, place)
        elif crosses(old, new) and is_timers(place.family.name):
            yield FamilyPlan(name, place, source, way="timers")
        elif (counted := counted_part(old, source)) in rekeyed:
            yield FamilyPlan(name, place, source, way="counts", counts=counted or "")
        elif (script := _script(old, source, scripts)) is not None:
            script.check(place.family.content, shown_key(new, place.store, place.family))
            held = replace(source, family=script.taken_of(source.family))
            yield _scripted(new, FamilyPlan(name, place, held, script=script))
        else:
            yield _matched(old, new, FamilyPlan(name, place, source), fields.get(name, {}))


def families_left(old: OperatorShape, plans: list[FamilyPlan]) -> list[str]:
    """The names of old families that no new one goes on with."""
    return [name for name, _ in places_left(old, plans)]


def places_left(
    old: OperatorShape, plans: list[FamilyPlan] | tuple[FamilyPlan, ...]
) -> list[tuple[str, Place]]:
    """The old families that no new one goes on with, by their names."""
    return [
        (name, place)
        for name, place in families_of(old)
        if not any(place.is_at(each.old) for each in plans)
    ]


def is_aggregation(operator: OperatorShape) -> bool:
    """Whether the values are buffers of aggregation functions."""
    return kind_of(operator.name) is AGGREGATION


def _rekeys(old: OperatorShape, source: Place, scripts: Mapping[str, Scripted]) -> bool:
    script = _script(old, source, scripts)
    return script is not None and any(step.key for step in script.path.steps)


def _script(old: OperatorShape, source: Place, scripts: Mapping[str, Scripted]) -> Scripted | None:
    """The scripts that are still to run on a family."""
    found = scripts.get(place_name(old, source))
    return found if found is not None and found.path.steps else None


def _scripted(new: OperatorShape, plan: FamilyPlan) -> FamilyPlan:
    assert plan.old is not None, "a script has old rows"  # noqa: S101
    numbered = is_numbered(new, plan.new.store, plan.new.family)
    is_plain = (
        _is_alike(plan)
        and not (plan.new.family.user_key or numbered)
        and not (plan.new.family.is_list and plan.changes_keys)
    )
    return plan if is_plain else replace(plan, way="entries", is_numbered=numbered)


def _matched(old: OperatorShape, new: OperatorShape, plan: FamilyPlan, take: Take) -> FamilyPlan:
    assert plan.old is not None, "fields are matched with old ones"  # noqa: S101
    name = plan.name
    if _is_alike(plan):
        key = match_fields(plan.old.family.key, plan.new.family.key, take, name)
    else:
        before, after = (
            shown_key(operator, each.store, each.family)
            for operator, each in ((old, plan.old), (new, plan.new))
        )
        key = match_fields(before, after, take, name)
        _check_kind(plan)
    _check_key(name, key, merges_alike=kind_of(new.name) is DEDUPLICATE)
    value = match_fields(plan.old.family.content, plan.new.family.content, take, name)
    found = replace(plan, key=key, value=value)
    return found if _is_alike(plan) else replace(found, way="entries")


def _check_key(name: str, key: StructChange, *, merges_alike: bool) -> None:
    if key.added:
        field = key.added[0].label
        raise RewriteError(
            f"{name}: the key has a new column {field}, and old rows do not say it",
            expected="for every old key a new one",
            found=f"no value of {field}",
            next_action=f"write a script for {name} with new_key and rekey(key, value), which says "
            "the new key of each row",
            store=name,
        )
    if key.dropped and not merges_alike:
        raise RewriteError(
            f"rows of {name} meet, since the key has no {key.dropped[0]} any more",
            expected="one row for each new key",
            found="for several old keys one new key",
            next_action=f"write a script for {name} with new_key, rekey(key, value) and "
            "merge(first, second), which says what two rows make",
            store=name,
        )


def _check_kind(plan: FamilyPlan) -> None:
    """Without a script a value becomes a list of one, and nothing else another kind."""
    before, after = _kind(plan.old), _kind(plan.new)
    if before != after and (before, after) != ("a value", "a list"):
        raise RewriteError(
            f"{plan.name} becomes state of another kind, and only you can say how",
            expected=f"{before}, as it was",
            found=after,
            next_action=f"write a script for {plan.name} with new_key and rekey(key, value), and "
            "merge(first, second) where entries meet under one key",
            store=plan.name,
        )


def _is_alike(plan: FamilyPlan) -> bool:
    """Whether each row becomes one row, by itself."""
    assert plan.old is not None, "asked before"  # noqa: S101
    is_state = plan.old.family.wrapping == "state"
    same = _kind(plan.old) == _kind(plan.new) and not is_state
    if plan.script is not None and plan.expiry != "never":
        return False
    return same and plan.expiry in ("never", "kept")


def _restarts(script: Scripted) -> bool:
    return any(step.time_to_live == "restart" for step in script.path.steps)


def _changed(key: StructChange | None, value: StructChange | None, expiry: Expiry) -> Change:
    if key is None or value is None:
        return "new"
    if not key.is_identity:
        return "keys"
    return "kept" if value.is_identity and expiry in ("never", "kept") else "values"


def _kind(place: Place | None) -> str:
    if place is None:
        return "nothing"
    if place.family.user_key is not None:
        return "a map"
    return "a list" if place.family.is_list else "a value"
