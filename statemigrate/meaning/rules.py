"""The rules of a plan: which kinds of change are an error, a warning, or not reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from statemigrate.configuration import ConfigurationError
from statemigrate.meaning.plan_items import PlanItem

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
