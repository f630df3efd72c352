"""Which old operator each new one goes on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from statemigrate.checkpoint.operators.catalogue import GROUPS, VARIABLES, kind_of
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.errors import RewriteError

Pair = tuple[OperatorShape | None, OperatorShape | None]
"""An old operator and the new one it becomes: None for one that is new, or gone."""


def match_operators(
    old: Sequence[OperatorShape],
    new: Sequence[OperatorShape],
    told: Mapping[int, int | None],
) -> tuple[Pair, ...]:
    """Match operators as ``told`` by their numbers, the others by their kind, in their order.

    Raises `RewriteError` where both have operators of a kind, and not as many.
    """
    before, after = {each.number: each for each in old}, {each.number: each for each in new}
    _check_told(told, before, after)
    pairs: list[Pair] = [
        (before[first], None if second is None else after[second]) for first, second in told.items()
    ]
    taken = {each.number for _, each in pairs if each}
    left = [each for each in old if each.number not in told]
    open_ = [each for each in new if each.number not in taken]
    words = dict.fromkeys(_word(each) for each in (*left, *open_))
    for word in words:
        pairs += _in_order(_of_kind(word, left), _of_kind(word, open_))
    return tuple(sorted(_crossed(pairs), key=_place))


def operator_name(operator: OperatorShape) -> str:
    """How users call an operator: its kind and Spark's number, as in ``aggregation-0``."""
    return f"{_word(operator)}-{operator.number}"


def _crossed(pairs: list[Pair]) -> list[Pair]:
    """The pairs, where a function on groups that goes becomes a processor that is new."""
    gone = [each for each in pairs if _is_alone(each[0], each[1], GROUPS.word)]
    begun = [each for each in pairs if _is_alone(each[1], each[0], VARIABLES.word)]
    if len(gone) != 1 or len(begun) != 1:
        return pairs
    rest = [each for each in pairs if each not in (*gone, *begun)]
    return [*rest, (gone[0][0], begun[0][1])]


def _is_alone(one: OperatorShape | None, other: OperatorShape | None, word: str) -> bool:
    return one is not None and other is None and _word(one) == word


def _in_order(old: list[OperatorShape], new: list[OperatorShape]) -> list[Pair]:
    if old and new and len(old) != len(new):
        raise RewriteError(
            "SM-REWRITE-024",
            f"which {_word(old[0])} of the query is which cannot be told",
            expected=f"{len(old)} of them, as before: {_listed(old)}",
            found=f"{len(new)}: {_listed(new)}",
            next_action=f"say what each becomes, as in --operator {old[0].number}={new[0].number}, "
            f"or --operator {old[-1].number}=gone",
        )
    return list(zip_longest(old, new))


def _check_told(
    told: Mapping[int, int | None],
    before: Mapping[int, OperatorShape],
    after: Mapping[int, OperatorShape],
) -> None:
    wrong = [
        f"{first}={second}"
        for first, second in told.items()
        if first not in before or (second is not None and second not in after)
    ]
    targets = [each for each in told.values() if each is not None]
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


def _place(pair: Pair) -> tuple[bool, int]:
    old, new = pair
    return (new is None, (new or old).number)  # type: ignore[union-attr]
