"""What a rewrite cannot know, and what its author answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from hashlib import sha256
from typing import Any, Literal

from statemigrate.checkpoint.operators import (
    TIMEOUT,
    CheckpointShape,
    OperatorShape,
    StructJson,
    is_internal,
    is_timers,
)
from statemigrate.errors import RewriteError, ValueMismatchError, shown
from statemigrate.formats import struct_from_json, value_from_json
from statemigrate.rewrite.column_pairing import (
    crosses,
    family_label,
    operator_name,
    store_families,
)
from statemigrate.rewrite.family_plans import (
    ContinuedFamily,
    FamilyPlan,
    FunctionRows,
    JoinedFamily,
    MatchedEntries,
    MatchedFamily,
    is_aggregation,
)
from statemigrate.rewrite.fields import FieldOrigin, StructChange

Kind = Literal[
    "start",
    "take",
    "drop",
    "merge",
    "gone",
    "watermark",
    "source",
    "begin",
    "empty",
    "partitions",
    "state",
    "expiry",
    "window",
    "function",
    "new function",
    "forgotten",
]


_DIGITS = 6
_BOUND = re.compile(rf"(.+):[0-9a-f]{{{_DIGITS}}}", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """Something that only the author knows: ``text`` asks, ``proposal`` is what --accept means.

    ``name`` is what it is about, as ``aggregation-0.max``; None as a proposal means that there is
    none. ``otherwise`` are the other answers on the command line than --accept. ``facts`` are of
    this very state, as counts are: they help to answer, and are no part of what is asked.
    """

    name: str
    kind: Kind
    text: str
    proposal: str | None
    otherwise: tuple[str, ...] = ()
    facts: str = ""

    @property
    def acceptance(self) -> str:
        """What --accept takes: the name, and six digits that are those of this very question.

        So what was accepted of one question is never taken for another one of the same name. They
        are the same for every checkpoint that is asked the same.
        """
        asked = json.dumps([self.name, self.kind, self.text, self.proposal])
        return f"{self.name}:{sha256(asked.encode()).hexdigest()[:_DIGITS]}"

    @property
    def answer(self) -> str:
        """How to answer on the command line."""
        accept = () if self.proposal is None else (f"--accept {self.acceptance}",)
        return ", or ".join((*accept, *self.otherwise))


@dataclass(frozen=True)
class RewriteAnswers:
    """Your answers, each by the name of its question.

    ``accept`` accepts proposals, by the `Question.acceptance` of each question. With ``by_name`` a
    name alone is enough, whatever the question, for code that has read the questions itself.
    ``start`` has plain JSON values for fields that old rows lack. ``take`` has the old field, or
    the old state, that a new one continues, or several states with commas between them.
    ``operators`` has the new number of an old operator, None to remove it. ``accept_new`` lets
    every new aggregate function begin as in an empty group.
    """

    accept: frozenset[str] = frozenset()
    start: Mapping[str, Any] = dataclass_field(default_factory=dict)
    take: Mapping[str, str] = dataclass_field(default_factory=dict)
    operators: Mapping[int, int | None] = dataclass_field(default_factory=dict)
    by_name: bool = False
    accept_new: bool = False

    def accepts(self, question: Question) -> bool:
        """Whether the proposal of this question was accepted."""
        if question.kind == "new function" and self.accept_new and question.proposal is not None:
            return True
        name_alone = self.by_name and question.name in self.accept
        return question.proposal is not None and (name_alone or question.acceptance in self.accept)

    def take_by_store(self) -> dict[str, dict[str, str | None]]:
        """By store and field the old field that it goes on with, None where it starts empty."""
        found: dict[str, dict[str, str | None]] = {}
        for name, source in {**dict.fromkeys(self.start), **self.take}.items():
            for store, field_name in _splits(name):
                found.setdefault(store, {})[field_name] = source
        return found

    def check_used(self, known: set[str], asked: Sequence[Question]) -> None:
        """Raise `RewriteError` for an answer to what was not ``asked``, by name or at all."""
        accepted = {_name_in(each): each for each in self.accept}
        unused = sorted({*accepted, *self.start, *self.take} - known)
        if unused:
            raise RewriteError(
                "SM-REWRITE-008",
                f"there is nothing to say about {', '.join(unused)}",
                expected=f"one of {', '.join(sorted(known))}" if known else "no answer",
                found=unused[0],
                next_action="correct the name, or leave the answer out",
            )
        if not self.by_name:
            self._check_bound(asked)

    def _check_bound(self, asked: Sequence[Question]) -> None:
        for given in sorted(self.accept - {each.acceptance for each in asked}):
            name = _name_in(given)
            question = next((each for each in asked if each.name == name), None)
            if question is None or question.proposal is None:
                raise RewriteError(
                    "SM-REWRITE-009",
                    f"--accept {given}: nothing is proposed for {name}",
                    expected="no --accept" if question is None else question.answer,
                    found=given,
                    next_action="leave the answer out" if question is None else "say it",
                )
            raise _of_another(given, question)


def _of_another(given: str, question: Question) -> RewriteError:
    is_bound = given != question.name
    what = "belongs to another question" if is_bound else "does not say which question it is about"
    return RewriteError(
        "SM-REWRITE-010",
        f"--accept {given} {what} than what is asked now: {question.text}"
        if is_bound
        else f"--accept {given} {what}: {question.text}",
        expected=question.acceptance,
        found=given,
        next_action=f"if what is proposed ({question.proposal}) is meant: {question.answer}",
    )


def _name_in(accepted: str) -> str:
    """The name that an acceptance is about, whether it has the digits of a question or not."""
    found = _BOUND.fullmatch(accepted)
    return accepted if found is None else found[1]


def _splits(name: str) -> list[tuple[str, str]]:
    """``store.field`` in every way that it may be meant: both may have dots."""
    parts = name.split(".")
    return [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts))]


@dataclass(frozen=True)
class Answered:
    """A question and its answer, as the new checkpoint's record keeps them."""

    question: Question
    answer: str


# Where a field starts that old rows lack.
#
# For an aggregation it is what Spark has for a group without rows, where the name of a buffer
# tells: see ``initialValues`` of the functions in ``catalyst/expressions/aggregate`` of
# apache/spark. Any other field starts as null, which every field of state may be.


_ZERO = ("n", "avg", "m2", "m3", "m4", "ck", "xAvg", "yAvg", "xMk", "yMk")
_FALSE = ("valueSet",)
_NULL = ("max", "min", "first", "last", "sum", "bit_and", "bit_or", "bit_xor")
_ELSEWHERE = {"timeoutTimestamp": -1, "matched": False}
"""Where fields of other operators start that Spark reads without looking for null."""
UNKNOWN = object()
"""There is no default: the author must answer."""


def buffer_start(fields: Sequence[dict[str, Any]], place: int) -> object:
    """The plain value that the buffer at ``place`` starts with; `UNKNOWN` where that is open."""
    name, spark = fields[place]["name"], fields[place]["type"]
    following = fields[place + 1]["name"] if place + 1 < len(fields) else ""
    if name == "count" or name in _ZERO:
        return 0
    if name == "sum" and following in ("count", "isEmpty"):
        return 0
    if name == "isEmpty":
        return True
    if name in _FALSE:
        return False
    # What a user-defined or collecting function keeps is bytes, and null is no such bytes.
    return None if name in _NULL and spark != "binary" else UNKNOWN


def other_start(field: dict[str, Any]) -> object:
    """The plain value that a field of an operator without buffers starts with."""
    if field["name"] == "expiresAtMicros":
        return UNKNOWN
    return _ELSEWHERE.get(field["name"])


def is_never_null(fields: Sequence[dict[str, Any]], place: int, *, is_aggregate: bool) -> bool:
    """Whether Spark has a value in the field of every row, and reads it as if there were one."""
    start = buffer_start(fields, place) if is_aggregate else other_start(fields[place])
    return start is not None and (start is not UNKNOWN or not is_aggregate)


def plain_start(name: str, spark: Any, given: Any) -> Any:
    """The plain value that ``given``, JSON, is for a field of the type ``spark``, as JSON has it.

    Raises `RewriteError` for what the field cannot hold.
    """
    field = {"name": "value", "type": spark, "nullable": True, "metadata": {}}
    fmt = struct_from_json({"type": "struct", "fields": [field]})
    try:
        return fmt.conform(value_from_json(fmt, {"value": given}))["value"]
    except ValueMismatchError as error:
        raise RewriteError(
            "SM-REWRITE-011",
            f"{name} cannot start at {shown(given)}",
            expected=f"a value of the field's type, {_type(spark)}, as JSON",
            found=error.found,
            next_action=f"say --start {name}=JSON with such a value",
        ) from error


def _type(spark: Any) -> str:
    return spark if isinstance(spark, str) else str(spark["type"])


# What a plan has to ask its author, and which of it is answered.


OF_TABLES = "the rows of the table"
"""What rows are called that are of tables."""


class Asked:
    """The questions of one plan, held against the ``answers`` of its author.

    ``rows`` is what its rows are called.
    """

    def __init__(self, answers: RewriteAnswers, rows: str = "old rows") -> None:
        self._answers = answers
        self.rows = rows
        self._known: set[str] = set()
        self.open: list[Question] = []
        self.answered: list[Answered] = []
        self.starts: dict[str, Any] = {}

    def start(self, name: str, proposal: object, spark: Any, rows: str | None = None) -> None:
        """A field of the type ``spark`` that ``rows`` lack, and where Spark would let it start.

        Raises `RewriteError` for an answer that the field cannot hold.
        """
        known = proposal is not UNKNOWN
        text = json.dumps(proposal) if known else None
        question = Question(
            name,
            "start",
            f"{name} is new, and {rows or self.rows} have nothing of it"
            + (f": does it start at {text}?" if known else ": what does it start with?"),
            text,
            (f"--start {name}=JSON",),
        )
        if name in self._answers.start:
            plain_start(name, spark, self._answers.start[name])
            self.starts[name] = self._answers.start[name]
            self._close(question, json.dumps(self.starts[name]))
        elif self._proposed(question):
            self.starts[name] = proposal

    def given_starts(self, names: Iterable[str]) -> dict[str, Any]:
        """What the author says that fields of these names start with."""
        start = self._answers.start
        return {name: start[name] for name in names if name in start}

    def takes(self, name: str) -> str | None:
        """What the author says that a field of this name goes on with."""
        return self._answers.take.get(name)

    def begin(self, question: Question, starts: Mapping[str, Any]) -> None:
        """A function whose fields have these ``starts``, if that is accepted."""
        if self._proposed(question):
            self.starts |= starts

    def close(self, question: Question, given: str) -> None:
        """Take what was ``given`` for an answer."""
        self._close(question, given)

    def confirm(self, question: Question) -> None:
        """Anything that is accepted or not."""
        if question.kind in ("take", "state") and question.name in self._answers.take:
            self._close(question, self._answers.take[question.name])
        else:
            self._proposed(question)

    def take_start(self, question: Question) -> None:
        """Take an answer that only ``--start`` can give: it is no field's value."""
        if question.name in self._answers.start:
            self.starts[question.name] = self._answers.start[question.name]
            self._close(question, json.dumps(self.starts[question.name]))
        else:
            self._proposed(question)

    def take_optional_start(self, question: Question) -> None:
        """Take an answer that need not be given."""
        self.know(question.name)
        if question.name in self._answers.start:
            self.take_start(question)

    def may_take(self, question: Question) -> None:
        """Take, and note, an old state for a new one without a question."""
        self.know(question.name)
        if question.name in self._answers.take:
            self._close(question, self._answers.take[question.name])

    def know(self, name: str) -> None:
        """Let an answer about ``name`` pass, which is heard elsewhere."""
        self._known.add(name)

    def no_state(self, old: CheckpointShape) -> None:
        """Where no operator was seen, whether there really is none: state may have been lost."""
        if not old.operators:
            self.confirm(
                _gone(
                    "state",
                    "the old checkpoint has no stateful operator: does its query have none?",
                )
            )

    def watermark(self, old: CheckpointShape, wanted: int | None) -> None:
        """A watermark that goes back lets rows in which were late, and closed windows open."""
        before = old.commits[old.batch].watermark
        if wanted is not None and wanted < before:
            self.confirm(
                Question(
                    "watermark",
                    "watermark",
                    f"the watermark goes back from {before} to {wanted} ms: rows that were late "
                    "are taken again, and windows that were given out are given out again",
                    "go back",
                )
            )

    def finish(self) -> None:
        """Raise `RewriteError` for an answer that nothing was asked of, or another question."""
        answered = [each.question for each in self.answered]
        self._answers.check_used(self._known, [*self.open, *answered])

    def _proposed(self, question: Question) -> bool:
        self._known.add(question.name)
        if self._answers.accepts(question):
            self.answered.append(Answered(question, str(question.proposal)))
            return True
        self.open.append(question)
        return False

    def _close(self, question: Question, given: str) -> None:
        self._known.add(question.name)
        self.answered.append(Answered(question, given))


def ask(
    asked: Asked,
    name: str,
    old: OperatorShape | None,
    new: OperatorShape | None,
    families: Sequence[FamilyPlan],
    left: Sequence[str],
) -> None:
    """Ask what is open of one operator, but for its aggregate functions."""
    if old is not None and new is None:
        asked.confirm(_gone(name, f"the new code has no {name}: is all of its state to go?"))
    timers = [each for each in left if _has_timers(old, each)]
    for each in left:
        if each not in timers:
            asked.confirm(_gone(each, f"the new code does not keep {each}: is it to go?"))
    if timers:
        asked.confirm(_timers_left(name, new, timers))
    for family in families:
        if isinstance(family, MatchedFamily):
            _ask_fields(asked, family, new)


def _has_timers(operator: OperatorShape | None, name: str) -> bool:
    places = {} if operator is None else dict(store_families(operator))
    return name in places and is_timers(places[name].family.name)


def _timers_left(name: str, new: OperatorShape | None, left: Sequence[str]) -> Question:
    """One question for timers, which Spark keeps twice: by key and by time."""
    if any(_has_timers(new, each) for each in left):
        text = (
            f"scripts give other keys, and the timers of {name} have the old ones: are they to go? "
            "A key has a timer again when its code registers one"
        )
    else:
        text = f"the new code has no such timers as {name} has: are they to go?"
    return _gone(f"{name}.timers", text)


def _gone(name: str, text: str) -> Question:
    return Question(name, "gone", text, "gone")


def _ask_fields(asked: Asked, family: MatchedFamily, operator: OperatorShape | None) -> None:
    if isinstance(family, FunctionRows):
        _ask_sources(asked, family.name, family.key)
        return
    for field in family.value.added:
        proposal = _proposal(family, field, operator)
        asked.start(f"{family.name}.{field.label}", proposal, field.type)
    for change in (family.key, family.value):
        _ask_sources(asked, family.name, change)
        for label in change.dropped:
            asked.confirm(dropped(f"{family.name}.{label}"))
    if family.key.dropped:
        asked.confirm(_meeting(family))


def _ask_sources(asked: Asked, store: str, change: StructChange) -> None:
    for field in change.fields:
        name = f"{store}.{field.label}"
        asked.know(name)
        if field.label in change.unsure and field.source:
            asked.confirm(
                Question(
                    name,
                    "take",
                    f"{_doubt(change, field, name)} does it go on with the old {field.source}?",
                    field.source,
                    (f"--take {name}=OLD_FIELD",),
                )
            )


def _doubt(change: StructChange, field: FieldOrigin, name: str) -> str:
    others = [each.label for each in change.fields if each.place == field.place and each != field]
    if others:
        return f"{', '.join(others)} has the old {field.source}, and {name} is there too:"
    return f"several have the name of {name}:"


def dropped(name: str) -> Question:
    """Whether a field goes."""
    return Question(name, "drop", f"the new code does not keep {name}: is it to go?", "gone")


def _meeting(family: MatchedFamily) -> Question:
    name = f"{family.name}.merge"
    return Question(
        name,
        "merge",
        f"rows of {family.name} that differ only in what goes from the key meet under one key: is "
        "one of them to stay?",
        "one stays",
    )


def _proposal(family: MatchedFamily, field: FieldOrigin, operator: OperatorShape | None) -> object:
    """What Spark has for a group without rows, in an aggregation; elsewhere mostly null."""
    is_buffer = operator is not None and is_aggregation(operator) and field in family.value.fields
    if not is_buffer:
        # So is a field of a struct that a function such as `max` keeps.
        return other_start({"name": field.label, "type": field.type})
    return buffer_start(family.new.family.value["fields"], family.value.fields.index(field))


# What is asked where a function's state in groups becomes variables of a processor.


_EVENT_TIME = "$event"


def ask_groups_to_variables(
    asked: Asked,
    old: OperatorShape | None,
    new: OperatorShape | None,
    families: Sequence[FamilyPlan],
) -> None:
    """Ask for the variable that goes on with the state, and for what becomes of timeouts."""
    for each in families:
        asked.may_take(_variable(each.name, each.name))
    if old is None or new is None or not crosses(old, new):
        return
    for each in families:
        if isinstance(each, ContinuedFamily) and not is_internal(each.new.family.name):
            asked.confirm(_variable(each.name, family_label(old, each.old)))
    if any(TIMEOUT in _fields(store.families[0].value) for store in old.stores):
        asked.confirm(_timers(operator_name(old), families))


def _variable(name: str, source: str) -> Question:
    return Question(
        name,
        "state",
        f"a processor goes on with the state of {source}: is it what {name} has?",
        source,
        (f"--take VARIABLE={source}",),
    )


def _timers(source: str, families: Sequence[FamilyPlan]) -> Question:
    timers = [each.new.family.name for each in families if is_timers(each.new.family.name)]
    name = f"{source}.timeouts"
    if not timers:
        text, proposal = f"the new code has no timers: are the timeouts of {source} to go?", "gone"
    else:
        time = "event time" if timers[0].startswith(_EVENT_TIME) else "processing time"
        text = (
            f"timeouts of {source} become timers in {time}, which the new code has: "
            "were they in that time?"
        )
        proposal = time
    return Question(name, "state", text, proposal)


def _fields(struct: StructJson) -> list[str]:
    return [each["name"] for each in struct["fields"]]


# What is asked of variables with a time to live: when old values expire, if they did not before.
#
# Only the code has how long values live: Spark notes when each expires. So that is
# what the author says, as a moment, or as an expression of Spark's SQL over old entries.


EXPIRES = "expires"


def ask_expiry(asked: Asked, families: Sequence[FamilyPlan]) -> None:
    """Ask of each family whose values begin to expire, or do not any more."""
    for each in families:
        name = f"{each.name}:{EXPIRES}"
        match each.expiry:
            case "told":
                asked.take_start(_when(name, each.name, asked.rows))
            case "ends":
                asked.confirm(_never(name, each.name))
            case "kept":
                asked.take_optional_start(_when(name, each.name, asked.rows))


def _when(name: str, variable: str, rows: str) -> Question:
    by_column = (f"--take {name}=COLUMN",) if rows == OF_TABLES else ()
    return Question(
        name,
        "expiry",
        f"values of {variable} have a time to live, and {rows} do not say when they expire: when "
        "do they? A number of milliseconds since 1970, or an expression over batch_time, key and "
        "value",
        None,
        (f"--start '{name}=\"batch_time + 3600000\"'", *by_column),
    )


def _never(name: str, variable: str) -> Question:
    return Question(
        name,
        "gone",
        f"values of {variable} do not expire any more: do all that have not yet expired stay?",
        "they stay",
    )


# What is asked where several old states become one.


def ask_joining(asked: Asked, family: JoinedFamily, old: OperatorShape) -> None:
    """Ask what entries have in fields that their old state lacks, and which fields go."""
    named = [
        (family_label(old, each.old), each.value)
        for each in family.parts
        if isinstance(each, MatchedEntries)
    ]
    lacking: dict[str, list[str]] = {}
    types: dict[str, Any] = {}
    for name, value in named:
        for field in value.every:
            asked.know(f"{family.name}.{field.label}")
            if field.change == "new":
                lacking.setdefault(field.label, []).append(name)
                types[field.label] = field.type
        for label in value.dropped:
            asked.confirm(dropped(f"{name}.{label}"))
    for label, names in lacking.items():
        proposal = other_start({"name": label, "type": types[label]})
        rows = "old rows" if len(names) == len(family.parts) else f"rows of {' and '.join(names)}"
        asked.start(f"{family.name}.{label}", proposal, types[label], rows)
