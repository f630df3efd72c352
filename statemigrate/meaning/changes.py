"""What two versions of a query's code mean by the same types: what Spark does not compare.

Expressions that compute the same in other words are brought to the same text first. Spark itself
takes ``1 = a`` for ``a = 1`` where it looks for equal expressions, and leaves both as they are in a
plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from json import JSONDecoder

from statemigrate.checkpoint.operators import kind_of
from statemigrate.meaning.code_meaning import CodeMeaning, OperatorMeaning
from statemigrate.meaning.plan_items import (
    UNNAMED,
    WARNING,
    PlanItem,
    Verdict,
    computation,
    key_text,
    readable,
    short_text,
)
from statemigrate.meaning.setting_changes import (
    Computed,
    compare_settings,
    in_any_sessions,
    with_texts,
)
from statemigrate.meaning.states import compare_states
from statemigrate.rewrite import (
    ROWS_OF_CODE,
    WITHOUT_NULLS,
    AggregateFunction,
    KeyMeaning,
    OperatorFact,
    is_hidden,
    python_releases,
    without_bytecode,
    without_settings,
)

_EITHER_WAY = frozenset(
    {
        *("And", "Or", "Add", "Multiply", "EqualTo", "EqualNullSafe"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    }
)
"""Expressions of two parts that are the same in either order."""
_STEPS = frozenset({"HashAggregate", "ObjectHashAggregate", "SortAggregate"})
"""Steps that name what they group by and compute, in any order."""
_TURNED = {"LessThan": "GreaterThan", "LessThanOrEqual": "GreaterThanOrEqual"}
"""Expressions that are another one if their two parts change places."""
_VALUE = r"""(?:None|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): [a-z]+(?:\([0-9,]+\))?"""
_VALUES = re.compile(rf"((?:, {_VALUE})+)(?=, value=0\))")
_PARTS = re.compile(r"""(?<![^(\s=])(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=: )|[(),]|[^(),]""")
_OWN_FIELD = re.compile(r"(?:left|right|try|[a-z]+OnError|spark\.sql\.[A-Za-z.]+)=")
_NAME = re.compile(r"[A-Za-z]+$")


def in_one_order(text: str) -> str:
    """The text with what may have any order in one: values of ``IN (...)``, and parts of ``=``."""
    return _with_parts_in_order(
        _VALUES.sub(lambda found: ", ".join(["", *sorted(re.findall(_VALUE, found[0]))]), text)
    )


def _with_parts_in_order(text: str) -> str:
    """A text that is not written as expressions are, as by names of columns, is as given."""
    before: list[tuple[str, list[str]]] = []
    parts: list[str] = []
    current = ""
    for token in (found[0] for found in _PARTS.finditer(text)):
        if token == "(":  # noqa: S105 - a part of a text
            before.append((current, parts))
            current, parts = "", []
        elif token == ",":  # noqa: S105
            parts.append(current)
            current = ""
        elif token == ")":  # noqa: S105
            if not before:
                return text
            name, above = before.pop()
            current = _expression(name, [*parts, current])
            parts = above
        else:
            current += token
    return text if before else ",".join([*parts, current])


def _expression(called: str, parts: list[str]) -> str:
    name = _NAME.search(called)
    if name is not None and name[0] in _STEPS:
        return f"{called}({', '.join(sorted(each.strip() for each in parts))})"
    bare = [each.strip() for each in parts]
    if name is None or len(bare) < 2 or not all(map(_OWN_FIELD.match, bare[2:])):
        return f"{called}({','.join(parts)})"
    if name[0] in _TURNED:
        called = called[: name.start()] + _TURNED[name[0]]
        bare[:2] = bare[1::-1]
    elif name[0] in _EITHER_WAY:
        bare[:2] = sorted(bare[:2])
    else:
        return f"{called}({','.join(parts)})"
    return f"{called}({', '.join(bare)})"


HIDDEN = "hidden"
"""The rule of code that is compared by its name. It is never more than a warning by itself."""


def compare_code(old: CodeMeaning, new: CodeMeaning) -> Iterator[PlanItem]:
    """What differs between two versions of a query's code, without any checkpoint.

    A start has no names of sources and no types of state: Spark itself compares the types.
    """
    if any(old.sources) and any(new.sources):
        yield from _read_otherwise(old.sources, new.sources)
    else:
        yield from _read_otherwise(old.schemas, new.schemas)
    before = {each.number: each for each in old.operators}
    after = {each.number: each for each in new.operators}
    for number in sorted(before.keys() | after.keys()):
        was, now = before.get(number), after.get(number)
        if was is None or now is None or was.name != now.name:
            names = [each.name if each else "none" for each in (was, now)]
            text = f"operator {number} was {names[0]}, and is {names[1]}: Spark does not start"
            yield PlanItem(f"operator {number}", "rewrite", text)
            continue
        yield from compare_states(was, now, of_one_release=old.spark == new.spark)
        yield from compare_meanings(was, now)


def _read_otherwise(old: Sequence[str], new: Sequence[str]) -> Iterator[PlanItem]:
    """Of sources by their names or schemas, in the order in which Spark counts them."""
    if old == new:
        return
    listed = [short_text(", ".join(each)) or "none" for each in (old, new)]
    text = f"they were {listed[0]}, and are {listed[1]}"
    if sorted(old) == sorted(new):
        text += ": Spark counts sources in the order of the code, and exchanges their offsets"
        yield PlanItem("sources", "unnoticed", text, rule="source")
    elif len(old) != len(new):
        yield PlanItem("sources", "rewrite", f"{text}: Spark does not start")
    else:
        yield PlanItem("sources", "goes on", text)


def compare_meanings(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    """Where two versions of an operator keep the same types, and mean something else by them."""
    releases = tuple(python_releases(each.texts) for each in (old, new))
    if all(releases) and releases[0] != releases[1]:
        listed = [" and ".join(sorted(each)) for each in releases]
        yield PlanItem(
            f"{new.name} Python functions",
            "unknown",
            f"no source was at hand of some of them, and bytecode of Python {listed[0]} is not "
            f"comparable with that of Python {listed[1]}: look at both with one release of Python",
            new.name,
            rule="meaning",
        )
        old, new = (with_texts(each, without_bytecode) for each in (old, new))
    if _is_on_pages(old) != _is_on_pages(new):
        old, new = _keys_as_of_pages(old), _keys_as_of_pages(new)
    yield from compare_settings(old, new, partial(_parts, min(old.format, new.format)))
    old, new = in_any_sessions(old, new)
    yield from _keys(old, new)
    yield from _functions(old, new)
    yield from compare_facts(old, new)
    yield from _hidden(old, new)


def _is_on_pages(operator: OperatorMeaning) -> bool:
    from statemigrate.pages import BUCKET

    return any(each.name == BUCKET for each in operator.keys)


def _keys_as_of_pages(operator: OperatorMeaning) -> OperatorMeaning:
    """An operator with what its keys are computed from as pages have it: as one fact."""
    if _is_on_pages(operator):
        return replace(operator, keys=())
    key = OperatorFact("key", ", ".join(each.expression for each in operator.keys))
    return replace(operator, keys=(), facts=(*operator.facts, key))


def _parts(known: int, operator: OperatorMeaning) -> Iterator[Computed]:
    """What an operator's state is computed from, as a document of the format ``known`` has it."""
    for at, key in enumerate(operator.keys):
        yield Computed("key", str(at), f"key {_key_name(key)}", _compared(key))
    for at, function in enumerate(operator.functions):
        text = _comparable(function) or function.shown
        yield Computed("function", str(at), function.result or function.text, text)
    for fact in map(partial(_as_in_format, known), operator.facts):
        if fact is not None:
            yield Computed(fact.kind, fact.side, fact.words, in_one_order(fact.text))


def _keys(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    if len(old.keys) != len(new.keys):
        return
    for before, after in zip(old.keys, new.keys, strict=True):
        if _compared(before) != _compared(after):
            name = f"{new.name} key {_key_name(after)}"
            rule = "window" if before.window or after.window else "key"
            text = _other_key(before, after)
            yield PlanItem(name, "unnoticed", text, new.name, rule=rule)


def _compared(key: KeyMeaning) -> str:
    """What a key is computed from; of pages without their number, which the pages' record has."""
    from statemigrate.pages import BUCKET

    text = _LAST_LITERAL.sub("", key.expression) if key.name == BUCKET else key.expression
    return in_one_order(text)


_LAST_LITERAL = re.compile(r"'\d+': \w+(?=[^']*$)")


def _key_name(key: KeyMeaning) -> str:
    """The column's name; of an expression without one, the expression."""
    return computation(key.expression) if key.name == UNNAMED else key.name


def _other_key(before: KeyMeaning, after: KeyMeaning) -> str:
    if before.window != after.window and before.window and after.window:
        return (
            f"the old code makes {before.window.text}, and the new code {after.window.text}: old "
            "windows get no new row, and new ones lack the rows that came before"
        )
    was, now = key_text(before, after), key_text(after, before)
    return f"it was computed as {was}, and is now {now}: rows under old keys are not found again"


def _functions(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    if len(old.functions) != len(new.functions):
        return
    for before, after in zip(old.functions, new.functions, strict=True):
        both = [_comparable(each) for each in (before, after)]
        is_known = all(both)
        is_same = both[0] == both[1] if is_known else _seems_same(before, after)
        if not is_same and before.has_types_of(after):
            text = f"{after.text} continues with the values of {before.text}, which have the same "
            text += (
                "types" if is_known else "types: the plan does not show what one of them computes"
            )
            verdict: Verdict = "unnoticed" if is_known else "unknown"
            name = f"{new.name} {after.result or after.text}"
            yield PlanItem(name, verdict, text, new.name, rule="function")


def _comparable(function: AggregateFunction) -> str:
    """What a function computes; empty where nothing shows all of it.

    A column that a step of Python makes has no meaning of its own, and goes by its name: the step
    is compared as such.
    """
    if function.meaning or is_hidden(function.shown):
        return _without_branches(function.meaning)
    return function.shown


_CASE = "CaseWhen{"


def _without_branches(meaning: str) -> str:
    """The meaning of a function without the fields of a CASE, which records of 0.1.0 have."""
    found, at = [], 0
    while (start := meaning.find(_CASE, at)) >= 0:
        start += len(_CASE) - 1
        try:
            _, end = JSONDecoder().raw_decode(meaning, start)
        except ValueError:  # the text of a literal, and no field
            return meaning
        found += [meaning[at:start], "{}"]
        at = end
    return "".join([*found, meaning[at:]])


def _seems_same(old: AggregateFunction, new: AggregateFunction) -> bool:
    """Whether all is the same that plans show of two functions, the meaning of one being hidden."""
    if old.shown and new.shown:
        return old.shown == new.shown
    return old.text == new.text


_ROWS_OF_CODE_1 = "rows made by code"
"""Rows that are not shown, as format 1 has them, and as a person reads it."""


def _hidden(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    """What no plan shows of an operator, and whose name is the same."""
    texts = [each.expression for each in new.keys] + [each.text for each in new.facts]
    found = [short_text(readable(_bare(each))) for each in texts if is_hidden(each)]
    pairs = zip(old.functions, new.functions, strict=False)
    found += [
        after.words for pair in pairs if not all(map(_comparable, pair)) for after in pair[1:]
    ]
    if found:
        text = (
            f"the plan does not show all of {', '.join(dict.fromkeys(found))}. That goes by its "
            "name here: look whether its code has changed"
        )
        name = f"{new.name} hidden code"
        yield PlanItem(name, "unknown", text, new.name, rule=HIDDEN, level=WARNING)


def _bare(text: str) -> str:
    """The name of rows that are not shown, without saying so."""
    return _ROWS_OF_CODE_1 if text == ROWS_OF_CODE else text


_WHAT_FOLLOWS = {
    "filter": "what was counted stays counted by the old condition",
    "key": "rows under old keys are not found again",
    "table": "what was computed from rows of the old table stays",
    "column": "values that are kept were computed the old way",
    "rows": "what came of the old rows stays",
    "watermark": "state is cleaned up by another column's time",
    "timeout": "when a group is to time out stays as the old clock had it",
    "join type": "rows that are kept were not checked by the new rule",
    "join key": "rows under old keys are not found again",
    "join condition": "what was joined, or given up, stays as the old condition had it",
}


def compare_facts(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    """What else differs than keys and functions: filters, joins, tables, columns, watermarks.

    A column that is a key is not among them: its change is one of the key.
    """
    old, new = (with_texts(each, without_settings) for each in (old, new))
    keys = _key_columns(old) & _key_columns(new)
    known = min(old.format, new.format)
    sides = [
        [
            e
            for e in map(partial(_as_in_format, known), each.facts)
            if e is not None and (e.side or e.column not in keys)
        ]
        for each in (old, new)
    ]
    facts = _in_both(*sides), _in_both(*reversed(sides))
    gone, added = _others(*facts), _others(*reversed(facts))
    for words in dict.fromkeys(each.words for each in (*gone, *added)):
        was = [each for each in gone if each.words == words]
        now = [each for each in added if each.words == words]
        kind, text = (was or now)[0].kind, _other_fact(was, now)
        rule = kind.replace(" ", "-")
        verdict: Verdict = "goes on" if kind in ("delay", "output mode") else "unnoticed"
        if kind == "output mode" and now and now[0].text == "complete" and _removes_groups(old):
            verdict = "unnoticed"
            text += ": groups that the watermark has passed were removed, and the result lacks them"
        is_timed_out = kind == "timeout" and "NoTimeout" in [each.text for each in (*was, *now)]
        if is_timed_out or (kind.endswith(" mode") and kind_of(new.kind).has_variables):
            verdict, rule, text = "rewrite", "", f"{text}: Spark does not start"
        yield PlanItem(f"{new.name} {words}", verdict, text, new.name, rule=rule)


def _others(facts: Sequence[OperatorFact], others: Sequence[OperatorFact]) -> list[OperatorFact]:
    """The facts that are not among others, be these in other words."""
    known = Counter(replace(each, text=in_one_order(each.text)) for each in others)
    found = []
    for each in facts:
        same = replace(each, text=in_one_order(each.text))
        known[same] -= 1
        if known[same] < 0:
            found.append(each)
    return found


def _as_in_format(known: int, fact: OperatorFact) -> OperatorFact | None:
    """A fact as a document of the format ``known`` has it; None for one that it has not."""
    if known > 1:
        return fact
    if fact.kind == "filter" and fact.text.startswith("IsNotNull("):
        return None
    text = fact.text.replace(ROWS_OF_CODE, _ROWS_OF_CODE_1)
    if fact.kind == "table":
        text = text.removesuffix(WITHOUT_NULLS).replace("Cross join where", "Inner join where")
    return replace(fact, text=text)


def _key_columns(operator: OperatorMeaning) -> set[str]:
    """The columns of rows that are keys as they are."""
    computed = {each.text for each in operator.facts if each.kind == "column"}
    return {each.name for each in operator.keys if f"{each.name} = {each.expression}" in computed}


def _removes_groups(operator: OperatorMeaning) -> bool:
    """Whether Spark removes groups by a watermark, as it does in every mode but ``complete``."""
    times = {each.text for each in operator.facts if each.kind == "watermark"}
    return bool(times) and any(
        key.window is not None or key.expression in times for key in operator.keys
    )


def _in_both(facts: Sequence[OperatorFact], others: Sequence[OperatorFact]) -> list[OperatorFact]:
    """The facts without columns that only one version has: no old value was computed from them.

    What a join keeps goes by its place; of another number of columns Spark itself says that they
    are others.
    """
    places = [
        sorted((each.side, each.column) for each in found if each.is_by_place)
        for found in (facts, others)
    ]
    named = {(each.side, each.column) for each in others if not each.is_by_place}
    return [
        each
        for each in facts
        if each.kind != "column"
        or (places[0] == places[1] if each.is_by_place else (each.side, each.column) in named)
    ]


def _other_fact(was: Sequence[OperatorFact], now: Sequence[OperatorFact]) -> str:
    texts = [" and ".join(readable(each.text) for each in side) or "none" for side in (was, now)]
    follows = _WHAT_FOLLOWS.get((*was, *now)[0].kind, "")
    return f"it was {texts[0]}, and is {texts[1]}" + (f": {follows}" if follows else "")
