"""The families of operators by name, and which old one each new one goes on with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from statemigrate.checkpoint.operators.catalogue import (
    DEFAULT,
    GROUPS,
    INDEX_TO_VALUE,
    JOIN,
    NUM_VALUES,
    VARIABLES,
    is_derived,
    is_internal,
    is_timers,
    kind_of,
    user_name,
)
from statemigrate.checkpoint.operators.shapes import (
    GROUP_STATE,
    TIMEOUT,
    FamilyShape,
    OperatorShape,
    StoreShape,
)
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.rewrite.plan.pairing.operators import operator_name


@dataclass(frozen=True)
class Place:
    """A family, by the names of its store and of itself, and its shape."""

    store: StoreShape
    family: FamilyShape

    def is_at(self, other: Place | None) -> bool:
        """Whether both are the same family of one operator."""
        names = (self.store.name, self.family.name)
        return other is not None and names == (other.store.name, other.family.name)


def all_places(operator: OperatorShape) -> Iterator[Place]:
    """Every family, also those that Spark alone looks at."""
    for store in operator.stores:
        for family in store.families:
            yield Place(store, family)


def families_of(operator: OperatorShape) -> Iterator[tuple[str, Place]]:
    """The families of an operator that have rows of their own, each with its name for users."""
    for place in all_places(operator):
        if not is_derived(place.family.name) and not is_unused(operator, place.family):
            yield place_name(operator, place), place


def place_name(operator: OperatorShape, place: Place) -> str:
    """How users call a family."""
    known = user_name(operator, place.store.name, place.family.name)
    return known or f"{operator_name(operator)}.{part_of(operator, place)}"


def is_unused(operator: OperatorShape, family: FamilyShape) -> bool:
    """The family that every store with families has, where Spark keeps nothing."""
    return kind_of(operator.name) is VARIABLES and family.name == DEFAULT


def part_of(operator: OperatorShape, place: Place) -> str:
    """What stays the same where a join's four stores become families of one."""
    is_join = kind_of(operator.name) is JOIN
    return place.store.name if is_join and place.store.name != DEFAULT else place.family.name


def counted_part(operator: OperatorShape, place: Place) -> str | None:
    """Of a family with the numbers of rows in a join the part that has the rows."""
    part = part_of(operator, place)
    if kind_of(operator.name) is JOIN and part.endswith(NUM_VALUES):
        return part.removesuffix(NUM_VALUES) + INDEX_TO_VALUE
    return None


def crosses(old: OperatorShape, new: OperatorShape) -> bool:
    """Whether a function's state in groups becomes variables of a processor."""
    kinds = kind_of(old.name), kind_of(new.name)
    return kinds == (GROUPS, VARIABLES)


def taken_names(said: str, known: Collection[str]) -> tuple[str, ...]:
    """The old families that an author says for a new one: one, or several with commas between.

    What is the name of one stands for that one.
    """
    return (said,) if said in known else tuple(each.strip() for each in said.split(","))


def old_places(
    old: OperatorShape, new: OperatorShape, take: Mapping[str, str]
) -> Iterator[tuple[Place, tuple[Place, ...]]]:
    """Each family of the new operator, with the old ones that it goes on with.

    ``take`` has the names of old families for a new one. Raises `RewriteError` for a name that none
    has, for several of what does not become one, and where a function's state could go into several
    variables.
    """
    if crosses(old, new):
        yield from _of_groups(old, new, take)
        return
    before = {part_of(old, place): place for place in all_places(old)}
    named = dict(families_of(old))
    for place in all_places(new):
        told = take.get(place_name(new, place))
        if told is not None:
            yield place, _told(new, place, told, named)
        else:
            found = before.get(part_of(new, place))
            yield place, () if found is None else (found,)


def _told(
    new: OperatorShape, place: Place, told: str, named: Mapping[str, Place]
) -> tuple[Place, ...]:
    name, names = place_name(new, place), taken_names(told, named)
    unknown = next((each for each in names if each not in named), None)
    if unknown is not None:
        raise _unknown(name, unknown, named)
    own = [each for each in (place, *(named[n] for n in names)) if is_internal(each.family.name)]
    if len(names) > 1 and (own or kind_of(new.name) is not VARIABLES or len({*names}) < len(names)):
        raise RewriteError(
            "SM-REWRITE-026",
            f"{name} cannot go on with all of {', '.join(names)}",
            expected="different variables of transformWithState, which become one",
            found=told,
            next_action="name one old state",
            store=name,
        )
    return tuple(named[each] for each in names)


def _of_groups(
    old: OperatorShape, new: OperatorShape, take: Mapping[str, str]
) -> Iterator[tuple[Place, tuple[Place, ...]]]:
    (name, held) = next(iter(families_of(old)))
    variable = _variable_of(name, new, take)
    for place in all_places(new):
        if place.family.name == variable:
            yield place, (_as_state(name, held),)
        elif is_timers(place.family.name) and _has_timeouts(held):
            yield place, (held,)
        else:
            yield place, ()


def _variable_of(name: str, new: OperatorShape, take: Mapping[str, str]) -> str:
    """The variable that the state of groups goes into."""
    told = [variable for variable, source in take.items() if source == name]
    variables = [place.family for _, place in families_of(new)]
    known = [each.name for each in variables if not is_internal(each.name)]
    values = [
        each.name for each in variables if each.name in known and not each.is_list | _is_map(each)
    ]
    found = [each for each in told if each in known] or values
    if len(found) != 1:
        raise RewriteError(
            "SM-REWRITE-027",
            f"which variable goes on with the state of {name} cannot be told",
            expected=f"one of {', '.join(known) or 'no variable'}",
            found=", ".join(found) or "none that has one value for each key",
            next_action=f"say it, as in --take {(known or ['VARIABLE'])[0]}={name}; or let the "
            f"state go, with --operator {name.rpartition('-')[2]}=gone",
            store=name,
        )
    return found[0]


def _is_map(family: FamilyShape) -> bool:
    return family.user_key is not None


def _as_state(name: str, held: Place) -> Place:
    if held.family.value["fields"][0]["name"] != GROUP_STATE:
        raise UnsupportedError(
            "SM-REWRITE-028",
            f"the state of {name} is of format 1, in which its fields and timeouts are mixed",
            expected="state of format 2, which Spark writes since 2.4",
            found=str([each["name"] for each in held.family.value["fields"]])[:200],
            next_action="begin the query anew",
            store=name,
        )
    return replace(held, family=replace(held.family, wrapping="state"))


def _has_timeouts(held: Place) -> bool:
    return any(each["name"] == TIMEOUT for each in held.family.value["fields"])


def _unknown(name: str, told: str, known: Mapping[str, Place]) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-029",
        f"{name} cannot go on with {told}, which there is not",
        expected=f"one of {', '.join(known)}",
        found=told,
        next_action="correct the name of the old state",
        store=name,
    )
