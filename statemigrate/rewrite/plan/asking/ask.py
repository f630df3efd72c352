"""What a plan has to ask its author, and which of it is answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.rewrite.plan.asking.questions import Answered, Question, RewriteAnswers
from statemigrate.rewrite.plan.asking.starting import (
    UNKNOWN,
    buffer_start,
    other_start,
    plain_start,
)
from statemigrate.rewrite.plan.families import FamilyPlan, is_aggregation
from statemigrate.rewrite.plan.pairing.fields import FieldChange, StructChange

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
        said = self._answers.start
        return {name: said[name] for name in names if name in said}

    def takes(self, name: str) -> str | None:
        """What the author says that a field of this name goes on with."""
        return self._answers.take.get(name)

    def begin(self, question: Question, starts: Mapping[str, Any]) -> None:
        """A function whose fields have these ``starts``, if that is accepted."""
        if self._proposed(question):
            self.starts |= starts

    def close(self, question: Question, said: str) -> None:
        """Take what was ``said`` for an answer."""
        self._close(question, said)

    def confirm(self, question: Question) -> None:
        """Anything that is accepted or not."""
        if question.kind in ("take", "state") and question.name in self._answers.take:
            self._close(question, self._answers.take[question.name])
        else:
            self._proposed(question)

    def told(self, question: Question) -> None:
        """Something that only ``--start`` can answer, with what is not a field's value."""
        if question.name in self._answers.start:
            self.starts[question.name] = self._answers.start[question.name]
            self._close(question, json.dumps(self.starts[question.name]))
        else:
            self._proposed(question)

    def may_tell(self, question: Question) -> None:
        """Take an answer that need not be given."""
        self.know(question.name)
        if question.name in self._answers.start:
            self.told(question)

    def may_take(self, question: Question) -> None:
        """Take, and note, an old state for a new one that need not be said."""
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

    def _close(self, question: Question, said: str) -> None:
        self._known.add(question.name)
        self.answered.append(Answered(question, said))


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
    for each in left:
        asked.confirm(_gone(each, f"the new code does not keep {each}: is it to go?"))
    for family in families:
        if family.key and family.value:
            _ask_fields(asked, family, new)


def _gone(name: str, text: str) -> Question:
    return Question(name, "gone", text, "gone")


def _ask_fields(asked: Asked, family: FamilyPlan, operator: OperatorShape | None) -> None:
    assert family.key and family.value, "rows go on"  # noqa: S101, PT018
    if family.functions is not None:
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


def _doubt(change: StructChange, field: FieldChange, name: str) -> str:
    others = [each.label for each in change.fields if each.place == field.place and each != field]
    if others:
        return f"{', '.join(others)} has the old {field.source}, and {name} is there too:"
    return f"several have the name of {name}:"


def dropped(name: str) -> Question:
    """Whether a field goes."""
    return Question(name, "drop", f"the new code does not keep {name}: is it to go?", "gone")


def _meeting(family: FamilyPlan) -> Question:
    name = f"{family.name}.merge"
    return Question(
        name,
        "merge",
        f"rows of {family.name} that differ only in what goes from the key meet under one key: is "
        "one of them to stay?",
        "one stays",
    )


def _proposal(family: FamilyPlan, field: FieldChange, operator: OperatorShape | None) -> object:
    """What Spark has for a group without rows, in an aggregation; elsewhere mostly null."""
    assert family.value is not None, "rows go on"  # noqa: S101
    is_buffer = operator is not None and is_aggregation(operator) and field in family.value.fields
    if not is_buffer:
        # So is a field of a struct that a function such as `max` keeps.
        return other_start({"name": field.label, "type": field.type})
    return buffer_start(family.new.family.value["fields"], family.value.fields.index(field))
