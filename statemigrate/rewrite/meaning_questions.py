"""Questions about aggregate functions and windows whose meaning may have changed.

What is asked of aggregate functions: one question a function, in its words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from statemigrate.errors import RewriteError
from statemigrate.rewrite.aggregate_pairing import (
    EMPTY,
    FunctionPair,
    FunctionPairing,
    PlacedFunction,
)
from statemigrate.rewrite.aggregates import AggregateFunction
from statemigrate.rewrite.family_plans import FunctionRows
from statemigrate.rewrite.questions import UNKNOWN, Asked, Question, buffer_start, plain_start
from statemigrate.rewrite.windows import (
    ChangedKey,
    SessionWindow,
    TimeWindow,
    WindowFinding,
    duration,
    timestamp_text,
)

FUNCTIONS = "functions"
AS_EMPTY = "as empty"
"""Proposed, and noted, of a function that begins with what Spark has for a group without rows."""
_OLD_CODE = "--old-code MODULE:FUNCTION, the code that the old query was made of"


def ask_functions(asked: Asked, family: FunctionRows) -> None:
    """Ask which old functions the new ones go on with, how new ones begin, and which go."""
    pairing, store = family.functions, family.name
    asked.know(f"{store}:{FUNCTIONS}")
    alike = [(each, each.old) for each in pairing.pairs if each.how == "shape" and each.old]
    if alike:
        asked.confirm(_alike(store, pairing, alike))
    for pair in pairing.pairs:
        for label in pairing.labels(pair):
            asked.know(f"{store}.{label}")
        match pair.how:
            case "named":
                asked.confirm(_open(store, pairing, pair))
            case "open":
                asked.confirm(_open(store, pairing, pair))
            case "begun" | "empty":
                _begin(asked, store, pairing, pair)
    for old in pairing.gone:
        asked.confirm(_goes(store, pairing, old))


def _alike(
    store: str, pairing: FunctionPairing, pairs: list[tuple[FunctionPair, PlacedFunction]]
) -> Question:
    listed = ", ".join(f"{_called(pairing, old)} {e.new.function.text}" for e, old in pairs)
    return Question(
        f"{store}:{FUNCTIONS}",
        "function",
        f"the old state of {store} does not say what its functions are of: is {listed}?",
        listed,
        (*_by_code(pairing), f"--take {store}.{pairing.label(pairs[0][0])}=OLD for each"),
    )


def _by_code(pairing: FunctionPairing) -> tuple[str, ...]:
    """The answer that is the old code: none where that was seen, and does not say it."""
    return () if pairing.knows_old else (_OLD_CODE,)


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
        f"do they begin as empty groups do{_begins(pair.new.function, labels, starts)}? The result "
        f"of an old group is then that of its rows after the rewrite alone{_until(starts)}"
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


def _begins(function: AggregateFunction, labels: tuple[str, ...], starts: Mapping[str, Any]) -> str:
    """The values that old groups get, where a person can read them."""
    fields = zip(function.fields, starts.values(), strict=True)
    if any(_is_bytes(function, name, spark) or _is_long(value) for (name, spark), value in fields):
        return ""
    values = zip(labels, starts.values(), strict=True)
    return ", with " + ", ".join(f"{label} {json.dumps(value)}" for label, value in values)


def _is_long(value: Any) -> bool:
    return not (value is None or isinstance(value, bool | int | float))


def _until(starts: Mapping[str, Any]) -> str:
    """What it is before there are any, of a function that has nothing to begin with."""
    return ", and null until the first one" if all(each is None for each in starts.values()) else ""


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


# What is asked where windows in the state are, or may be, others than the new code makes.


_LACK = "Those of the new code begin without the rows that came before: is the state to stay so?"
_LONGEST = 300
_Asked = tuple[str, str]
"""What is asked, and what is proposed."""


def window_questions(
    findings: Iterable[WindowFinding], *, of_tables: bool = False
) -> list[Question]:
    """One of each finding that speaks against the state as it is.

    That ``of_tables`` has no old code that it could begin without.
    """
    found = [_question(each) for each in findings]
    asked = [each for each in found if each is not None]
    return [replace(each, otherwise=()) for each in asked] if of_tables else asked


def key_questions(changed: Iterable[ChangedKey]) -> list[Question]:
    """One of each key column that is computed from something else."""
    return [
        Question(
            each.name,
            "window",
            f"{each.store}.{each.column}: the old code computed this key as {_short(each.old)}, "
            f"and the new code as {_short(each.new)}. Rows keep their keys, and are not found "
            "where the new code gives others: are they to stay so?",
            "they stay",
            (f"a script of {each.store} with new_key and rekey",),
        )
        for each in changed
    ]


def _short(expression: str) -> str:
    return expression if len(expression) <= _LONGEST else f"{expression[:_LONGEST]}..."


def _question(finding: WindowFinding) -> Question | None:
    if finding.verdict == "same":
        return None
    if finding.is_scripted:
        return _of_merged(finding)
    text, proposal = _asked(finding)
    script = (f"a script of {finding.store} with rekey and merge",) if _can_merge(finding) else ()
    return Question(
        finding.name,
        "window",
        f"{finding.store}.{finding.column}: {text}",
        proposal,
        (*script, f"--operator {finding.operator}=gone"),
        facts=_facts(finding),
    )


def _can_merge(finding: WindowFinding) -> bool:
    """Whether each window of the state is as long as others of the new code, or shorter."""
    new = finding.new
    return (
        isinstance(new, TimeWindow)
        and new.is_tumbling
        and all(new.length % each == 0 for each in finding.lengths)
        and bool(finding.lengths)
    )


def _asked(finding: WindowFinding) -> _Asked:
    if finding.verdict == "changed" and finding.old is not None:
        return (
            f"the old code made {finding.old.text}, and the new code makes {finding.new_text}. "
            "What is in the state stays as it is, and no row goes into what the new code does not "
            f"make. {_LACK}",
            "it stays",
        )
    if finding.verdict == "unseen":
        return (
            "nothing is in the state, so what the old code made there is not known, and the new "
            f"code makes {finding.new_text}. If the old code made others, what is open now lacks "
            "what came before: did it make the same?",
            "the same",
        )
    return _of_sessions(finding) if finding.is_session else _of_windows(finding)


def _of_windows(finding: WindowFinding) -> _Asked:
    old, new = finding.old_text, finding.new_text
    if finding.verdict == "unknown":
        return (
            f"the state has {old}, and whether the new code makes just these cannot be seen: does "
            "it?",
            "the same",
        )
    if finding.verdict == "missing":
        return (
            f"the state has {old}, without others that {new} come with, so the old code made other "
            f"windows. {_LACK}",
            "it stays",
        )
    length = finding.new.length if isinstance(finding.new, TimeWindow) else None
    which = ", at other times" if finding.lengths == (length,) else ""
    return (
        f"the state has {old}{which}, and the new code makes {new}. Old windows stay as they are, "
        f"no new row goes into them, and they are given out so. {_LACK}",
        "it stays",
    )


def _of_sessions(finding: WindowFinding) -> _Asked:
    gap = finding.new.gap if isinstance(finding.new, SessionWindow) else None
    if gap is None:
        return (
            f"the state has sessions, and the new code makes {finding.new_text}: no session says "
            "with which gap it was made. Was it that of the new code?",
            "the same",
        )
    if finding.verdict == "unknown":
        return (
            f"every session in the state is longer than {duration(gap)}, the gap of the new code, "
            "so they may have been made with another one. Was it the same?",
            "the same",
        )
    return (
        f"there are sessions in the state that are shorter than {duration(gap)}, the gap of the "
        "new code, so they were made with a shorter one. They keep their ends: what the new gap "
        "brings into one session stays in two. Is the state to stay so?",
        "it stays",
    )


def _of_merged(finding: WindowFinding) -> Question | None:
    """Of windows that a script makes of shorter ones, whether one may lack parts."""
    if finding.right_from is None:
        return None
    return Question(
        finding.name,
        "window",
        f"{finding.store}.{finding.column}: a script makes {finding.new_text} of "
        f"{finding.old_text}. Parts that the watermark has passed may be given out and gone, and "
        "the window that is open now lacks them: is it to stay so?",
        "it stays",
        facts=_facts(finding),
    )


def _facts(finding: WindowFinding) -> str:
    found = []
    if finding.other_rows and not finding.is_scripted:
        which = "sessions" if finding.is_session else "windows"
        which += " that the new code does not make"
        found.append(f"{finding.other_rows:,} of {finding.rows:,} rows are in {which}")
    if finding.right_from is not None:
        found.append(f"what begins at {timestamp_text(finding.right_from)} or later is right")
    return "; ".join(found)
