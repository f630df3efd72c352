"""`explain`: cause and cure of the errors that a text or a log has, ours and Spark's."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from statemigrate.errors import CODE, error_codes

_CONDITION = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)?\b")
"""A name of one of Spark's errors, with the part after the dot where there is one."""
_OUR_CODE = re.compile(CODE.pattern, re.IGNORECASE)


@dataclass(frozen=True)
class Explanation:
    """One error in a text.

    ``code`` is a code of this package, as in ``SM-STATE-001``, or the name of one of Spark's
    errors. ``line`` is the first line that has it, counted from 1, and ``count`` the number of such
    lines.
    """

    code: str
    origin: Literal["statemigrate", "Spark"]
    title: str
    cause: str
    cure: str
    line: int = 1
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return dict(vars(self))


def explain(text: str | Iterable[str]) -> list[Explanation]:
    """The cause and the solution of every error in a text, in order of appearance.

    ``text`` is a code, the text of an error, or the lines of a log, which are read one at a time.
    This knows the codes of this package, and those errors of Spark that users of statemigrate
    encounter. The result is empty if it knows none. It keeps nothing of the text.
    """
    lines = text.split("\n") if isinstance(text, str) else text
    found: dict[str, Explanation] = {}
    for number, line in enumerate(lines, start=1):
        for entry in dict.fromkeys(_in_line(line)):
            known = found.get(entry.code, replace(entry, line=number, count=0))
            found[entry.code] = replace(known, count=known.count + 1)
    wrappers = {each.explanation.code for each in _of_spark() if each.wraps}
    return [each for each in found.values() if each.code not in wrappers] or [*found.values()]


def errors_of_spark() -> list[Explanation]:
    """Each error of Spark that is known here."""
    return [each.explanation for each in _of_spark()]


@dataclass(frozen=True)
class _SparkError:
    explanation: Explanation
    conditions: tuple[str, ...]
    texts: tuple[re.Pattern[str], ...] = field(default=())
    wraps: bool = False


@cache
def _of_spark() -> tuple[_SparkError, ...]:
    text = (files("statemigrate") / "spark_errors.toml").read_text(encoding="utf-8")
    return tuple(_spark_error(name, entry) for name, entry in tomllib.loads(text).items())


def _spark_error(name: str, entry: dict[str, Any]) -> _SparkError:
    return _SparkError(
        Explanation(name, "Spark", entry["title"], entry["cause"], entry["cure"]),
        (name, *entry.get("conditions", ())),
        tuple(map(re.compile, entry.get("texts", ()))),
        entry.get("wraps", False),
    )


@cache
def _by_condition() -> dict[str, Explanation]:
    return {name: each.explanation for each in _of_spark() for name in each.conditions}


def _in_line(line: str) -> Iterator[Explanation]:
    for code in _OUR_CODE.findall(line):
        entry = error_codes().get(code.upper())
        if entry is not None:
            yield Explanation(entry.code, "statemigrate", entry.title, entry.cause, entry.cure)
    for condition in _CONDITION.findall(line):
        whole, _, _ = condition.partition(".")
        found = _by_condition().get(condition) or _by_condition().get(whole)
        if found is not None:
            yield found
    for each in _of_spark():
        if any(text.search(line) for text in each.texts):
            yield each.explanation
