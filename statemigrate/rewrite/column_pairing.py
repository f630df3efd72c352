"""Pairing old state with new: which family, and which column, goes on as which.

The families of operators by name, and which old one each new one goes on with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from statemigrate.checkpoint.operators import (
    DEFAULT,
    GROUP_STATE,
    INDEX_TO_VALUE,
    NUM_VALUES,
    TIMEOUT,
    FamilyShape,
    OperatorShape,
    StoreShape,
    is_derived,
    is_internal,
    is_timers,
    kind_of,
    user_name,
)
from statemigrate.errors import RewriteError, UnsupportedError

# Which old operator each new one goes on with.


Pair = tuple[OperatorShape | None, OperatorShape | None]
"""An old operator and the new one it becomes: None for one that is new, or gone."""


def match_operators(
    old: Sequence[OperatorShape],
    new: Sequence[OperatorShape],
    given: Mapping[int, int | None],
) -> tuple[Pair, ...]:
    """Match operators by the numbers in ``given``, the others by their kind, in their order.

    Raises `RewriteError` where both have operators of a kind, and not as many.
    """
    before, after = {each.number: each for each in old}, {each.number: each for each in new}
    _check_named(given, before, after)
    pairs: list[Pair] = [
        (before[first], None if second is None else after[second])
        for first, second in given.items()
    ]
    taken = {each.number for _, each in pairs if each}
    left = [each for each in old if each.number not in given]
    open_ = [each for each in new if each.number not in taken]
    words = dict.fromkeys(_word(each) for each in (*left, *open_))
    for word in words:
        pairs += _in_order(_of_kind(word, left), _of_kind(word, open_))
    return tuple(sorted(_crossed(pairs), key=_order))


def operator_name(operator: OperatorShape) -> str:
    """How users call an operator: its kind and Spark's number, as in ``aggregation-0``."""
    return f"{_word(operator)}-{operator.number}"


def _crossed(pairs: list[Pair]) -> list[Pair]:
    """The pairs, where a function on groups that goes becomes a processor that is new."""
    gone = [
        (old, new)
        for old, new in pairs
        if old is not None and new is None and kind_of(old.name).has_function
    ]
    begun = [
        (old, new)
        for old, new in pairs
        if old is None and new is not None and kind_of(new.name).has_variables
    ]
    if len(gone) != 1 or len(begun) != 1:
        return pairs
    rest = [each for each in pairs if each not in (*gone, *begun)]
    return [*rest, (gone[0][0], begun[0][1])]


def _in_order(old: list[OperatorShape], new: list[OperatorShape]) -> list[Pair]:
    if old and new and len(old) != len(new):
        raise RewriteError(
            "SM-REWRITE-024",
            f"which {_word(old[0])} of the query is which is not clear",
            expected=f"{len(old)} of them, as before: {_listed(old)}",
            found=f"{len(new)}: {_listed(new)}",
            next_action=f"say what each becomes, as in --operator {old[0].number}={new[0].number}, "
            f"or --operator {old[-1].number}=gone",
        )
    return list(zip_longest(old, new))


def _check_named(
    given: Mapping[int, int | None],
    before: Mapping[int, OperatorShape],
    after: Mapping[int, OperatorShape],
) -> None:
    wrong = [
        f"{first}={second}"
        for first, second in given.items()
        if first not in before or (second is not None and second not in after)
    ]
    targets = [each for each in given.values() if each is not None]
    if wrong or len(targets) != len(set(targets)):
        raise RewriteError(
            "SM-REWRITE-025",
            "--operator does not fit the operators that there are",
            expected=f"OLD=NEW, of the old {_listed(before.values())}, each to another one of the "
            f"new {_listed(after.values())}",
            found=", ".join(wrong) or "two old operators for one new",
            next_action="correct the numbers",
        )


def _of_kind(word: str, operators: Sequence[OperatorShape]) -> list[OperatorShape]:
    return [each for each in operators if _word(each) == word]


def _word(operator: OperatorShape) -> str:
    return kind_of(operator.name).word


def _listed(operators: object) -> str:
    return ", ".join(map(operator_name, operators)) or "none"  # type: ignore[call-overload]


def _order(pair: Pair) -> tuple[bool, int]:
    old, new = pair
    return (new is None, (new or old).number)  # type: ignore[union-attr]


@dataclass(frozen=True)
class FamilyAddress:
    """A family, by the names of its store and of itself, and its shape."""

    store: StoreShape
    family: FamilyShape

    def is_at(self, other: FamilyAddress | None) -> bool:
        """Whether both are the same family of one operator."""
        names = (self.store.name, self.family.name)
        return other is not None and names == (other.store.name, other.family.name)


def all_families(operator: OperatorShape) -> Iterator[FamilyAddress]:
    """Every family, also those that Spark alone looks at."""
    for store in operator.stores:
        for family in store.families:
            yield FamilyAddress(store, family)


def store_families(operator: OperatorShape) -> Iterator[tuple[str, FamilyAddress]]:
    """The families of an operator that have rows of their own, each with its name for users."""
    for place in all_families(operator):
        if not is_derived(place.family.name) and not is_unused(operator, place.family):
            yield family_label(operator, place), place


def family_label(operator: OperatorShape, place: FamilyAddress) -> str:
    """How users call a family."""
    known = user_name(operator, place.store.name, place.family.name)
    return known or f"{operator_name(operator)}.{part_of(operator, place)}"


def is_unused(operator: OperatorShape, family: FamilyShape) -> bool:
    """The family that every store with families has, where Spark keeps nothing."""
    return kind_of(operator.name).has_variables and family.name == DEFAULT


def part_of(operator: OperatorShape, place: FamilyAddress) -> str:
    """What stays the same where a join's four stores become families of one."""
    is_join = kind_of(operator.name).has_sides
    return place.store.name if is_join and place.store.name != DEFAULT else place.family.name


def counted_part(operator: OperatorShape, place: FamilyAddress) -> str | None:
    """Of a family with the numbers of rows in a join the part that has the rows."""
    part = part_of(operator, place)
    if kind_of(operator.name).has_sides and part.endswith(NUM_VALUES):
        return part.removesuffix(NUM_VALUES) + INDEX_TO_VALUE
    return None


def crosses(old: OperatorShape, new: OperatorShape) -> bool:
    """Whether a function's state in groups becomes variables of a processor."""
    return kind_of(old.name).has_function and kind_of(new.name).has_variables


def taken_names(given: str, known: Collection[str]) -> tuple[str, ...]:
    """The old families that an author says for a new one: one, or several with commas between.

    What is the name of one stands for that one.
    """
    return (given,) if given in known else tuple(each.strip() for each in given.split(","))


def old_families(
    old: OperatorShape, new: OperatorShape, take: Mapping[str, str]
) -> Iterator[tuple[FamilyAddress, tuple[FamilyAddress, ...]]]:
    """Each family of the new operator, with the old ones that it goes on with.

    ``take`` has the names of old families for a new one. Raises `RewriteError` for a name that none
    has, for several of what does not become one, and where a function's state could go into several
    variables.
    """
    if crosses(old, new):
        yield from _of_groups(old, new, take)
        return
    before = {part_of(old, place): place for place in all_families(old)}
    named = dict(store_families(old))
    for place in all_families(new):
        given = take.get(family_label(new, place))
        if given is not None:
            yield place, _given_sources(new, place, given, named)
        else:
            found = before.get(part_of(new, place))
            yield place, () if found is None else (found,)


def _given_sources(
    new: OperatorShape, place: FamilyAddress, given: str, named: Mapping[str, FamilyAddress]
) -> tuple[FamilyAddress, ...]:
    name, names = family_label(new, place), taken_names(given, named)
    unknown = next((each for each in names if each not in named), None)
    if unknown is not None:
        raise _unknown(name, unknown, named)
    own = [each for each in (place, *(named[n] for n in names)) if is_internal(each.family.name)]
    are_variables = kind_of(new.name).has_variables and not own
    if len(names) > 1 and not (are_variables and len({*names}) == len(names)):
        raise RewriteError(
            "SM-REWRITE-026",
            f"{name} cannot go on with all of {', '.join(names)}",
            expected="different variables of transformWithState, which become one",
            found=given,
            next_action="name one old state",
            store=name,
        )
    return tuple(named[each] for each in names)


def _of_groups(
    old: OperatorShape, new: OperatorShape, take: Mapping[str, str]
) -> Iterator[tuple[FamilyAddress, tuple[FamilyAddress, ...]]]:
    (name, held) = next(iter(store_families(old)))
    variable = _variable_of(name, new, take)
    for place in all_families(new):
        if place.family.name == variable:
            yield place, (_as_state(name, held),)
        elif is_timers(place.family.name) and _has_timeouts(held):
            yield place, (held,)
        else:
            yield place, ()


def _variable_of(name: str, new: OperatorShape, take: Mapping[str, str]) -> str:
    """The variable that the state of groups goes into."""
    given = [variable for variable, source in take.items() if source == name]
    variables = [place.family for _, place in store_families(new)]
    known = [each.name for each in variables if not is_internal(each.name)]
    values = [
        each.name for each in variables if each.name in known and not each.is_list | _is_map(each)
    ]
    found = [each for each in given if each in known] or values
    if len(found) != 1:
        raise RewriteError(
            "SM-REWRITE-027",
            f"it is not clear which variable goes on with the state of {name}",
            expected=f"one of {', '.join(known) or 'no variable'}",
            found=", ".join(found) or "none that has one value for each key",
            next_action=f"say it, as in --take {(known or ['VARIABLE'])[0]}={name}; or let the "
            f"state go, with --operator {name.rpartition('-')[2]}=gone",
            store=name,
        )
    return found[0]


def _is_map(family: FamilyShape) -> bool:
    return family.user_key is not None


def _as_state(name: str, held: FamilyAddress) -> FamilyAddress:
    if held.family.value["fields"][0]["name"] != GROUP_STATE:
        raise UnsupportedError(
            "SM-REWRITE-028",
            f"the state of {name} is of format 1, in which its fields and timeouts are mixed",
            expected="state of format 2, which Spark writes since 2.4",
            found=str([each["name"] for each in held.family.value["fields"]])[:200],
            next_action="start the query with a new checkpoint",
            store=name,
        )
    return replace(held, family=replace(held.family, wrapping="state"))


def _has_timeouts(held: FamilyAddress) -> bool:
    return any(each["name"] == TIMEOUT for each in held.family.value["fields"])


def _unknown(name: str, given: str, known: Mapping[str, FamilyAddress]) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-029",
        f"{name} cannot go on with {given}, which there is not",
        expected=f"one of {', '.join(known)}",
        found=given,
        next_action="correct the name of the old state",
        store=name,
    )


# Which values of one type Spark takes for another without losing any.


_WIDER = {
    "byte": ("short", "integer", "long", "float", "double"),
    "short": ("integer", "long", "float", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def is_same(old: Any, new: Any) -> bool:
    """Whether two types in Spark's JSON form have the same values; what is noted does not count."""
    return bool(_bare(old) == _bare(new))


def is_wider(old: Any, new: Any) -> bool:
    """Whether the single type ``new`` holds every value of ``old``."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return False
    decimal = _DECIMAL.fullmatch(new)
    if decimal is None:
        return new in _WIDER.get(old, ())
    precision, scale = int(decimal[1]), int(decimal[2])
    before = _DECIMAL.fullmatch(old)
    whole = int(before[1]) - int(before[2]) if before else _WHOLE_DIGITS.get(old)
    return (
        whole is not None
        and whole <= precision - scale
        and (before is None or int(before[2]) <= scale)
    )


def type_text(spark: Any) -> str:
    """A type as a person reads it."""
    return spark if isinstance(spark, str) else json.dumps(spark, separators=(",", ":"))[:80]


def _bare(spark: Any) -> Any:
    """The type without comments and without what may be null: Spark keeps every field so."""
    if not isinstance(spark, dict):
        return spark
    match spark["type"]:
        case "struct":
            return [(field["name"], _bare(field["type"])) for field in spark["fields"]]
        case "array":
            return ("array", _bare(spark["elementType"]))
        case "map":
            return ("map", _bare(spark["keyType"]), _bare(spark["valueType"]))
    return spark
