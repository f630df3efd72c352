"""What is asked of aggregate functions: one question a function, in its words."""

from __future__ import annotations

import json
from typing import Any

from statemigrate.errors import RewriteError
from statemigrate.rewrite.plan.asking.ask import Asked
from statemigrate.rewrite.plan.asking.questions import Question
from statemigrate.rewrite.plan.asking.starting import UNKNOWN, buffer_start, plain_start
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.aggregates import AggregateFunction
from statemigrate.rewrite.plan.pairing.functions import (
    EMPTY,
    FunctionPair,
    FunctionPairing,
    PlacedFunction,
)

FUNCTIONS = "functions"
AS_EMPTY = "as empty"
"""Proposed, and noted, of a function that begins with what Spark has for a group without rows."""
_OLD_CODE = "--old-code MODULE:FUNCTION, the code that the old query was made of"


def ask_functions(asked: Asked, family: FamilyPlan) -> None:
    """Ask which old functions the new ones go on with, how new ones begin, and which go."""
    assert family.functions is not None, "of aggregations alone"  # noqa: S101
    pairing, store = family.functions, family.name
    asked.know(f"{store}:{FUNCTIONS}")
    alike = [each for each in pairing.pairs if each.how == "shape"]
    if alike:
        asked.confirm(_alike(store, pairing, alike))
    for pair in pairing.pairs:
        for label in pairing.labels(pair):
            asked.know(f"{store}.{label}")
        match pair.how:
            case "said":
                asked.confirm(_open(store, pairing, pair))
            case "open":
                asked.confirm(_open(store, pairing, pair))
            case "begun" | "empty":
                _begin(asked, store, pairing, pair)
    for old in pairing.gone:
        asked.confirm(_goes(store, pairing, old))


def _alike(store: str, pairing: FunctionPairing, pairs: list[FunctionPair]) -> Question:
    listed = ", ".join(_going_on(pairing, each) for each in pairs)
    return Question(
        f"{store}:{FUNCTIONS}",
        "function",
        f"the old state of {store} does not say what its functions are of: is {listed}?",
        listed,
        (*_by_code(pairing), f"--take {store}.{pairing.label(pairs[0])}=OLD for each"),
    )


def _by_code(pairing: FunctionPairing) -> tuple[str, ...]:
    """The answer that is the old code: none where that was seen, and does not say it."""
    return () if pairing.knows_old else (_OLD_CODE,)


def _going_on(pairing: FunctionPairing, pair: FunctionPair) -> str:
    assert pair.old is not None, "asked of pairs alone"  # noqa: S101
    return f"{_called(pairing, pair.old)} {pair.new.function.text}"


def _called(pairing: FunctionPairing, old: PlacedFunction) -> str:
    """What an old function is called that no code has shown: by its first fields."""
    if pairing.knows_old:
        return old.function.text
    names = pairing.before[old.at : old.end]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _open(store: str, pairing: FunctionPairing, pair: FunctionPair) -> Question:
    name, text = f"{store}.{pairing.label(pair)}", pair.new.function.words
    candidates = ", ".join(pair.candidates)
    return Question(
        name,
        "take",
        f"which old function does {text} go on with, if with any? The old {candidates} would fit, "
        "and whether it is of the same function and argument nothing says: of another one every "
        "result would be wrong, without an error",
        None,
        (
            *_by_code(pairing),
            f"--take {name}={pair.candidates[0] if pair.candidates else 'OLD'}",
            f"--take {name}={EMPTY}, for none: it begins empty",
        ),
    )


def _goes(store: str, pairing: FunctionPairing, old: PlacedFunction) -> Question:
    text = _called(pairing, old)
    name = f"{store}.{pairing.before[old.at]}"
    return Question(
        name, "drop", f"the new code does not keep {text} of {store}: is it to go?", "gone"
    )


# How functions begin that old groups have nothing of.


def _begin(asked: Asked, store: str, pairing: FunctionPairing, pair: FunctionPair) -> None:
    labels, function = pairing.labels(pair), pair.new.function
    name = f"{store}.{labels[0]}"
    given = asked.given_starts(f"{store}.{label}" for label in labels)
    empty = _empty(pair)
    unread = [
        own
        for label, (field, spark), value in zip(labels, function.fields, empty, strict=True)
        for own in (f"{store}.{label}",)
        if own in given and (_is_bytes(function, field, spark) or _is_lost(given[own], value))
    ]
    if unread:
        raise _only_sparks(unread[0], name, function.words, given[unread[0]])
    starts: dict[str, Any] = {}
    for label, (_, spark), value in zip(labels, function.fields, empty, strict=True):
        own = f"{store}.{label}"
        if own in given:
            plain_start(own, spark, given[own])
            starts[own] = given[own]
        elif value is not UNKNOWN:
            starts[own] = value
    is_whole = len(starts) == len(labels)
    question = _new(store, pair, labels, starts if is_whole else None)
    if is_whole and (given or asked.takes(name) == EMPTY):
        asked.close(question, json.dumps(given) if given else AS_EMPTY)
        asked.starts |= starts
    else:
        asked.begin(question, starts)


def _empty(pair: FunctionPair) -> tuple[Any, ...]:
    """What Spark has for a group without rows, as far as it is known."""
    function = pair.new.function
    if function.empty is not None:
        return function.empty
    fields = [{"name": name, "type": spark} for name, spark in function.fields]
    return tuple(buffer_start(fields, place) for place in range(len(fields)))


def _new(
    store: str, pair: FunctionPair, labels: tuple[str, ...], starts: dict[str, Any] | None
) -> Question:
    text = pair.new.function.words
    asks = (
        "do they begin as empty groups do?"
        if starts is not None
        else f"what do they begin with? What {text} keeps is not known without its code"
    )
    answers = tuple(f"--start {store}.{label}=JSON" for label in labels[:1])
    return Question(
        f"{store}.{labels[0]}",
        "new function",
        f"{text} is new, and groups of before have nothing of it: {asks}",
        None if starts is None else AS_EMPTY,
        ("--accept-new for all such", *(() if pair.new.function.is_opaque else answers))
        if starts is not None
        else answers,
    )


def _is_bytes(function: AggregateFunction, field: str, spark: Any) -> bool:
    """Whether nothing but the function itself reads, and writes, a field of its."""
    return function.is_opaque or (spark == "binary" and field in ("buf", "bitmap"))


def _is_lost(given: Any, empty: Any) -> bool:
    """Whether null is given where Spark has a value even of an empty group, and needs one."""
    return given is None and empty is not None and empty is not UNKNOWN


def _only_sparks(field: str, name: str, text: str, given: Any) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-007",
        f"{field} cannot start at {json.dumps(given)[:80]}, which Spark could not read",
        expected=f"what Spark itself has for {text} in an empty group, or a value of its kind",
        found=f"--start {field}={json.dumps(given)[:80]}",
        next_action=f"leave --start out and say --take {name}={EMPTY}, or --accept-new",
        store=name,
    )
