"""What a plan says of each source, state and meaning, and how it shows expressions.

The rules of a plan say which kinds of change are an error, a warning, or not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from statemigrate.configuration import ConfigurationError
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


def deleted_families(store: str, names: Iterable[str], operator: str) -> PlanItem:
    """The verdict on families of a store that code without scripts does not declare."""
    text = f"the code does not declare {', '.join(names)}: Spark deletes it with all its values"
    return PlanItem(store, "unnoticed", text, operator, store, "variable")


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


RULES: Mapping[str, str] = {
    "source": "sources in another order, or one that is not read any more",
    "state": "fields of the state that are read as others",
    "variable": "a variable that the code does not declare, or whose fields are read as others",
    "time-to-live": "values that live longer, or less long",
    "key": "a key that is computed from something else",
    "window": "windows of another length, slide or column, or another gap of sessions",
    "function": "an aggregate function that continues with the values of another one",
    "filter": "another filter before the operator",
    "watermark": "another column whose time cleans up the state",
    "timeout": "timeouts of groups by another clock",
    "delay": "another delay of a watermark",
    "output-mode": "another output mode",
    "join-type": "another type of a join",
    "join-key": "another key of a join",
    "join-condition": "another condition of a join",
    "table": "a table that rows are joined with, or how they are joined",
    "column": "a column of rows that the state keeps, or that a processor gets, computed otherwise",
    "rows": "a step before the operator that makes other rows, as explode or a union",
    "setting": "a setting of the session under which the same expression has other results",
    "meaning": "an operator whose state has no recorded meaning",
    "hidden": "a function that a plan does not show, which is compared by its name",
}
"""The name of each rule, and which changes it is about.

A change that Spark refuses has none: it cannot be switched off.
"""
LEVELS = ("error", "warning", "off")


def with_levels(items: Iterable[PlanItem], rules: Mapping[str, str]) -> Iterator[PlanItem]:
    """The items with the levels that ``rules`` give their rules, without those that are off.

    A rule that is not among them leaves an item its own level.

    Raises `ConfigurationError` for a rule or a level that there is not.
    """
    for name, level in rules.items():
        if name not in RULES:
            raise _unknown(f"there is no rule {name}", RULES, name)
        if level not in LEVELS:
            raise _unknown(f"the rule {name} has no level {level}", LEVELS, level)
    for each in items:
        level = rules.get(each.rule, each.level)
        if level != "off":
            yield replace(each, level=level)


def _unknown(summary: str, known: Iterable[str], found: str) -> ConfigurationError:
    return ConfigurationError(
        "SM-CONFIG-012",
        summary,
        expected=f"one of {', '.join(known)}",
        found=found,
        next_action="correct it under rules in [tool.statemigrate], as in rules = "
        '{ delay = "error", filter = "warning" }',
    )
