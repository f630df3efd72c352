"""What becomes of the rows of one family of one operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from statemigrate.checkpoint.operators.catalogue import (
    AGGREGATION,
    DEDUPLICATE,
    DEFAULT,
    JOIN,
    ROW_COUNTER,
    VARIABLES,
    kind_of,
    user_name,
)
from statemigrate.checkpoint.operators.shapes import FamilyShape, OperatorShape, StoreShape
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.rewrite.plan.fields import StructChange, Take, match_fields
from statemigrate.rewrite.plan.operators import operator_name
from statemigrate.rewrite.plan.scripts import Scripted

Change = Literal["kept", "values", "keys", "new", "derived"]


@dataclass(frozen=True)
class Place:
    """A family, by the names of its store and of itself, and its shape."""

    store: StoreShape
    family: FamilyShape


@dataclass(frozen=True)
class FamilyPlan:
    """A family of the new checkpoint: ``name`` is how users call it.

    ``old`` is where its rows come from, None where none do. What is ``derived`` is written from the
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

    @property
    def change(self) -> Change:
        """In a word, what becomes of its rows."""
        if self.is_derived:
            return "derived"
        if self.script is not None:
            return "keys" if any(step.key for step in self.script.path.steps) else "values"
        if self.key is None or self.value is None:
            return "new"
        if not self.key.is_identity:
            return "keys"
        return "kept" if self.value.is_identity else "values"


def plan_families(
    old: OperatorShape,
    new: OperatorShape,
    take: Mapping[str, Take],
    scripts: Mapping[str, Scripted],
) -> Iterator[FamilyPlan]:
    """Each family of the new operator, with where its rows come from.

    ``take`` has the author's matches of fields, ``scripts`` the scripts, by names of old stores.
    Raises `RewriteError` for fields and families that do not fit, `UnsupportedError` for state that
    cannot be rewritten yet.
    """
    before = {_part(old, store, family): Place(store, family) for store, family in _all(old)}
    for store, family in _all(new):
        name = _name(new, store, family)
        place, source = Place(store, family), before.get(_part(new, store, family))
        if family.name.startswith(ROW_COUNTER):
            yield FamilyPlan(name, place, is_derived=True)
        elif source is None or _is_unused(new, family):
            yield FamilyPlan(name, place)
        elif (script := _script(old, source, scripts)) is not None:
            _check_kind(name, source, place)
            script.check(place.family)
            yield FamilyPlan(name, place, source, script=script)
        else:
            _check_kind(name, source, place)
            alike = kind_of(new.name) is DEDUPLICATE
            yield _matched(name, source, place, take.get(name, {}), merges_alike=alike)


def families_of(operator: OperatorShape) -> Iterator[tuple[str, Place]]:
    """The families of an operator that have rows of their own, each with its name for users."""
    for store, family in _all(operator):
        if not family.name.startswith(ROW_COUNTER) and not _is_unused(operator, family):
            yield _name(operator, store, family), Place(store, family)


def families_left(old: OperatorShape, plans: list[FamilyPlan]) -> list[str]:
    """The names of old families that no new one goes on with."""
    used = [each.old for each in plans]
    return [name for name, place in families_of(old) if place not in used]


def is_aggregation(operator: OperatorShape) -> bool:
    """Whether the values are buffers of aggregation functions."""
    return kind_of(operator.name) is AGGREGATION


def _script(old: OperatorShape, source: Place, scripts: Mapping[str, Scripted]) -> Scripted | None:
    """The scripts that are still to run on a family."""
    found = scripts.get(_name(old, source.store, source.family))
    return found if found is not None and found.path.steps else None


def _matched(name: str, old: Place, new: Place, take: Take, *, merges_alike: bool) -> FamilyPlan:
    key = match_fields(old.family.key, new.family.key, take, name)
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
    value = match_fields(old.family.value, new.family.value, take, name)
    return FamilyPlan(name, new, old, key, value)


def _all(operator: OperatorShape) -> Iterator[tuple[StoreShape, FamilyShape]]:
    for store in operator.stores:
        for family in store.families:
            yield store, family


def _part(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> str:
    """What stays the same where a join's four stores become families of one."""
    is_join = kind_of(operator.name) is JOIN
    return store.name if is_join and store.name != DEFAULT else family.name


def _name(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> str:
    known = user_name(operator, store.name, family.name)
    return known or f"{operator_name(operator)}.{_part(operator, store, family)}"


def _is_unused(operator: OperatorShape, family: FamilyShape) -> bool:
    """The family that every store with families has, where Spark keeps nothing."""
    return kind_of(operator.name) is VARIABLES and family.name == DEFAULT


def _check_kind(name: str, old: Place, new: Place) -> None:
    if old.family.is_list != new.family.is_list or bool(old.family.user_key) != bool(
        new.family.user_key
    ):
        raise UnsupportedError(
            f"{name} becomes state of another kind",
            expected=_kind(old.family),
            found=_kind(new.family),
            next_action="keep its kind; or give the new variable another name, and migrate from "
            "one to the other in the processor",
            store=name,
        )


def _kind(family: FamilyShape) -> str:
    if family.user_key is not None:
        return "a map"
    return "a list" if family.is_list else "a value"
