"""What becomes of each source, operator and state of a checkpoint under other code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.checkpoint.operators.catalogue import VARIABLES, is_internal, kind_of
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.deployment import revision_in, store_of
from statemigrate.formats.struct.ddl import without_not_null
from statemigrate.meaning.code_meaning import CodeMeaning, OperatorMeaning, state_ddl
from statemigrate.meaning.spark_check import RowReading, reads
from statemigrate.migration import BASE, Lineage
from statemigrate.rewrite.column_pairing import FamilyAddress, operator_name, store_families
from statemigrate.rewrite.probe_facts import OperatorFact
from statemigrate.rewrite.python_code import python_releases, without_bytecode
from statemigrate.rewrite.windows import KeyMeaning

if TYPE_CHECKING:
    from statemigrate.rewrite.sources import NewSources

Verdict = Literal["same", "goes on", "live", "rewrite", "unnoticed", "unknown", "cannot"]
VERDICTS: Mapping[Verdict, str] = {
    "same": "same",
    "goes on": "goes on",
    "live": "live",
    "rewrite": "rewrite",
    "unnoticed": "Spark will not notice",
    "unknown": "not known",
    "cannot": "cannot",
}
"""Verdict: the words for it. ``same`` and ``goes on`` ask for nothing."""
_NOTHING_TO_DO = ("same", "goes on")
_LONGEST = 200


@dataclass(frozen=True)
class PlanItem:
    """A source, a state or a meaning by its ``name``, the ``verdict`` on it, and why in ``text``.

    ``operator`` is the name of the operator that it is of, empty for a source. ``store`` is set for
    a state that scripts can migrate live. ``rule`` names the kind of change, empty for one that
    Spark itself refuses; ``level`` is what the project says of the rule, empty where it does not.
    """

    name: str
    verdict: Verdict
    text: str
    operator: str = ""
    store: str = ""
    rule: str = ""
    level: str = ""

    @property
    def asks(self) -> bool:
        """Whether something is to be done, decided or found out."""
        return self.level == "error" if self.level else self.verdict not in _NOTHING_TO_DO

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.name,
            "operator": self.operator,
            "store": self.store,
            "verdict": self.verdict,
            "text": self.text,
            "rule": self.rule,
            "level": self.level,
        }


@dataclass(frozen=True)
class PlanStep:
    """One thing to do: in words, and as a ``command`` where there is one.

    ``seconds`` are about what it takes; None where that is not known, or is up to a person.
    """

    text: str
    command: str = ""
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {"text": self.text, "command": self.command, "seconds": self.seconds}


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


def compare_operators(
    old: Sequence[OperatorShape],
    new: Sequence[OperatorShape],
    lineages: Mapping[str, Lineage],
    *,
    evolves: bool,
) -> Iterator[PlanItem]:
    """What becomes of the states, by the types that Spark compares.

    ``lineages`` are those of the scripts, by store; ``evolves`` says that variables are kept as
    Avro.
    """
    before = {each.number: each for each in old}
    after = {each.number: each for each in new}
    for number in sorted(before.keys() | after.keys()):
        was, now = before.get(number), after.get(number)
        if was is None or now is None or kind_of(was.name) is not kind_of(now.name):
            yield _other_operator(number, was, now)
        elif kind_of(now.name) is VARIABLES:
            yield from _variables(was, now, lineages, evolves=evolves)
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
        yield _state(label, name, key, value)


def _state(label: str, operator: str, key: RowReading, value: RowReading) -> PlanItem:
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
        return PlanItem(label, "unnoticed", text, operator, rule="state")
    return PlanItem(label, "same", "names and types of the state are the same", operator)


def _field_name(name: str) -> str:
    return "a computed key" if name == _UNNAMED else name


def _variables(
    was: OperatorShape, now: OperatorShape, lineages: Mapping[str, Lineage], *, evolves: bool
) -> Iterator[PlanItem]:
    """Of ``transformWithState``: each variable, or the families of a store that has scripts."""
    name = operator_name(now)
    for setting in ("timeMode", "outputMode"):
        one, other = ((each.properties or {}).get(setting) for each in (was, now))
        if one != other:
            text = f"{setting} was {one} and is {other}: Spark does not start"
            yield PlanItem(f"{name}.{setting}", "rewrite", text, name)
    old, new = _by_store(was), _by_store(now)
    for store in [*new, *(each for each in old if each not in new)]:
        if store not in old:
            text = "it is new, and begins empty"
            yield PlanItem(store, "goes on", text, name, store)
        elif store not in new:
            text = "the code does not declare it: Spark deletes it with all its values"
            yield PlanItem(store, "unnoticed", text, name, store, "variable")
        else:
            yield _store(store, old[store], new[store], name, lineages.get(store), evolves=evolves)


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
        listed = ", ".join(lost)
        text = f"the code does not declare {listed}: Spark deletes it with all its values"
        return PlanItem(store, "unnoticed", text, operator, store, "variable")
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


# What the state means.


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
        both = [*now.state, *(each for each in was.state if each not in now.state)]
        for state in both if was.state and now.state else ():
            texts = [each.state.get(state) for each in (was, now)]
            if not _is_same_state(*texts, of_one_release=old.spark == new.spark):
                # A variable of another type migrates live, by scripts.
                is_live = kind_of(now.kind) is VARIABLES and None not in texts
                text = _other_state(texts[0], texts[1])
                yield PlanItem(state, "live" if is_live else "rewrite", text, now.name)
        yield from compare_meanings(was, now)


def _is_same_state(
    was: tuple[str, str] | None, now: tuple[str, str] | None, *, of_one_release: bool
) -> bool:
    """Whether two states have the same types.

    Spark 4.3 declares nullable what earlier releases declare as NOT NULL, and goes on with both.
    """
    if of_one_release or was is None or now is None:
        return was == now
    return [list(without_not_null(each)) for each in was] == [
        list(without_not_null(each)) for each in now
    ]


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


def _other_state(was: tuple[str, str] | None, now: tuple[str, str] | None) -> str:
    shown = [
        "nothing" if each is None else f"{short_text(each[1])} by {short_text(each[0])}"
        for each in (was, now)
    ]
    return f"it kept {shown[0]}, and keeps {shown[1]}"


def compare_meanings(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    """Where two versions of an operator keep the same types, and mean something else by them."""
    releases = tuple(python_releases(_texts(each)) for each in (old, new))
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
        old, new = _without_bytecode(old), _without_bytecode(new)
    yield from _keys(old, new)
    yield from _functions(old, new)
    yield from compare_facts(old, new)


def _texts(operator: OperatorMeaning) -> Iterator[str]:
    """All that says what an operator's state is computed from."""
    yield from (each.expression for each in operator.keys)
    yield from (each.meaning for each in operator.functions)
    yield from (each.text for each in operator.facts)


def _without_bytecode(operator: OperatorMeaning) -> OperatorMeaning:
    return replace(
        operator,
        keys=tuple(
            replace(each, expression=without_bytecode(each.expression)) for each in operator.keys
        ),
        functions=tuple(
            replace(
                each,
                meaning=without_bytecode(each.meaning),
                uncast=without_bytecode(each.uncast),
            )
            for each in operator.functions
        ),
        facts=tuple(replace(each, text=without_bytecode(each.text)) for each in operator.facts),
    )


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
    from statemigrate.pages.rows import BUCKET

    return _LAST_LITERAL.sub("", key.expression) if key.name == BUCKET else key.expression


_LAST_LITERAL = re.compile(r"'\d+': \w+(?=[^']*$)")


def _key_name(key: KeyMeaning) -> str:
    """The column's name; of an expression without one, the expression."""
    return computation(key.expression) if key.name == _UNNAMED else key.name


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
        if before.meaning != after.meaning and before.has_types_of(after):
            yield PlanItem(
                f"{new.name} {after.result or after.text}",
                "unnoticed",
                f"{after.text} continues with the values of {before.text}, which have the same "
                "types",
                new.name,
                rule="function",
            )


_WHAT_FOLLOWS = {
    "filter": "what was counted stays counted by the old condition",
    "key": "rows under old keys are not found again",
    "table": "what was computed from rows of the old table stays",
    "column": "values that are kept were computed the old way",
    "rows": "what came of the old rows stays",
    "watermark": "state is cleaned up by another column's time",
    "join type": "rows that are kept were not checked by the new rule",
    "join key": "rows under old keys are not found again",
    "join condition": "what was joined, or given up, stays as the old condition had it",
}


def compare_facts(old: OperatorMeaning, new: OperatorMeaning) -> Iterator[PlanItem]:
    """What else differs than keys and functions: filters, joins, tables, columns, watermarks.

    A column that is a key is not among them: its change is one of the key.
    """
    keys = _key_columns(old) & _key_columns(new)
    sides = [[e for e in each.facts if e.side or e.column not in keys] for each in (old, new)]
    facts = _in_both(*sides), _in_both(*reversed(sides))
    before, after = map(Counter, facts)
    gone, added = list((before - after).elements()), list((after - before).elements())
    for words in dict.fromkeys(each.words for each in (*gone, *added)):
        was = [each for each in gone if each.words == words]
        now = [each for each in added if each.words == words]
        kind, text = (was or now)[0].kind, _other_fact(was, now)
        verdict: Verdict = "goes on" if kind in ("delay", "output mode") else "unnoticed"
        if kind == "output mode" and now and now[0].text == "complete" and _removes_groups(old):
            verdict = "unnoticed"
            text += ": groups that the watermark has passed were removed, and the result lacks them"
        rule = kind.replace(" ", "-")
        yield PlanItem(f"{new.name} {words}", verdict, text, new.name, rule=rule)


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


_BOOKKEEPING = re.compile(r", (?:left|right|child|start|interval)=\d+")
_FUNCTION = re.compile(r"\b[A-Z][A-Za-z]*(?=\()")
_UNNAMED = "_groupingexpression"
"""Spark's name for a key that is an expression without a name."""
_LITERAL = re.compile(r"('(?:[^'\\]|\\.)*'): [a-z_]+(?: [a-z]+)?")


def readable(expression: str) -> str:
    """A canonical expression without the places of its parts, cut where it is long."""
    return short_text(_LITERAL.sub(r"\1", _BOOKKEEPING.sub("", expression)))


def key_text(key: KeyMeaning, other: KeyMeaning | None = None) -> str:
    """What a key is: its windows, or what it is computed from where ``other`` has the same ones."""
    if key.window is None or (other is not None and other.window == key.window):
        return computation(key.expression)
    return key.window.text


def computation(expression: str) -> str:
    """What a key is computed from, with functions written as in SQL."""
    return _FUNCTION.sub(lambda found: found[0].lower(), readable(expression))


def short_text(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
