"""What a rewrite cannot know, and what its author said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

from statemigrate.errors import RewriteError

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
    none. ``otherwise`` are the answers on the command line beside --accept. ``facts`` are of this
    very state, as counts are: they help to answer, and are no part of what is asked.
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
    """What the author said, each by the name of what it is about.

    ``accept`` takes what was proposed, by the `Question.acceptance` of what was asked; ``by_name``
    lets a name alone do, whatever is asked under it, for code that has read the questions itself.
    ``start`` has plain values of JSON for fields that old rows
    lack; ``take`` has the old field, or the old state, that a new one goes on with, or several
    states with commas between; ``operators`` the new number of an old operator, None for one that
    goes. ``accept_new`` lets every aggregate function that is new begin as in an empty group.
    """

    accept: frozenset[str] = frozenset()
    start: Mapping[str, Any] = field(default_factory=dict)
    take: Mapping[str, str] = field(default_factory=dict)
    operators: Mapping[int, int | None] = field(default_factory=dict)
    by_name: bool = False
    accept_new: bool = False

    def accepts(self, question: Question) -> bool:
        """Whether what this very question proposes was accepted."""
        if question.kind == "new function" and self.accept_new and question.proposal is not None:
            return True
        name_alone = self.by_name and question.name in self.accept
        return question.proposal is not None and (name_alone or question.acceptance in self.accept)

    def take_by_store(self) -> dict[str, dict[str, str | None]]:
        """By store and field the old field that it goes on with, None where it starts anew."""
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
    """A question and what was said to it, as the new checkpoint's record keeps them."""

    question: Question
    said: str
