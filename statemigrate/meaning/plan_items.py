"""What a plan says of each source, state and meaning, and how it shows expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.rewrite import KeyMeaning

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
BEGINS_EMPTY = "it is new, and begins empty"
DELETED = "the code does not declare it: Spark deletes it with all its values"
_NOTHING_TO_DO = ("same", "goes on")
WARNING = "warning"
"""The level of what is reported and asks for nothing."""


@dataclass(frozen=True)
class PlanItem:
    """A source, a state or a meaning by its ``name``, the ``verdict`` on it, and why in ``text``.

    ``operator`` is the name of the operator that it is of, empty for a source. ``store`` is set for
    a state that scripts can migrate live. ``rule`` names the kind of change, empty for one that
    Spark itself refuses; ``level`` is what the project says of the rule, and empty where it does
    not, unless it is a warning by default.
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


# Expressions as a person reads them.


_LONGEST = 200
_BOOKKEEPING = re.compile(r", (?:left|right|child|start|interval)=\d+")
_FUNCTION = re.compile(r"\b[A-Z][A-Za-z]*(?=\()")
UNNAMED = "_groupingexpression"
"""Spark's name for a key that is an expression without a name."""
_RANGE = re.compile(r"\bRange \([^()]*, step=-?[0-9]+(?![0-9)])")
_LITERAL = re.compile(r"('(?:[^'\\]|\\.)*'): [a-z_]+(?: [a-z]+)?")


def readable(expression: str) -> str:
    """A canonical expression without the places of its parts, cut where it is long."""
    # Records have a range of numbers without its end.
    expression = _RANGE.sub(r"\g<0>)", expression)
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
