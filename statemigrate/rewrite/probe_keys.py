"""What the key columns of a query's operators are computed from, read from its plan.

State has names and types of its keys, and a type says little: windows of five minutes and of an
hour are of one type. So the probe keeps what Spark's plan computes each key column from, and which
windows it makes. Catalyst's own trees are asked for it, in a probe only, and never where a query of
the user's runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

from statemigrate.rewrite.plan_expressions import LITERAL, ONE_OF, PlanExpression
from statemigrate.rewrite.plan_tree import Definitions, PlanNode
from statemigrate.rewrite.windows import KeyMeaning, SessionWindow, TimeWindow, Window

_T = TypeVar("_T")
_KEYS = ("keyExpressions", "keyWithoutSessionExpressions", "groupingAttributes")
_SESSION = "sessionExpression"
_AROUND = ("KnownNullable", "KnownNotNull")
_TO_LONG = "PreciseTimestampConversion"
_MADE = "CreateNamedStruct"
_ADDED = ("TimestampAddInterval", "TimeAdd", "TimestampNTZAddInterval")
_TRIED = (0, 1, -1, 59_999_999, 1_767_225_600_000_000, -1_767_225_600_123_457)
"""Times at which an expression is held against the windows that it seems to make."""
_SIZES = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_PART = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?) ([a-z]+)")
_UTC = ("UTC", "Etc/UTC", "Z", "GMT")


def keys_in(root: PlanNode, definitions: Definitions) -> dict[int, tuple[KeyMeaning, ...]]:
    """The key columns of each operator of a plan, by its number."""
    found: dict[int, tuple[KeyMeaning, ...]] = {}
    for node in root.every():
        if node.number is not None and node.number not in found:
            columns = tuple(_meaning(each, definitions) for each in _key_columns(node))
            if columns:
                found[node.number] = columns
    return found


def keys_of_rows(
    root: PlanNode, definitions: Definitions, names: Sequence[str]
) -> tuple[KeyMeaning, ...]:
    """What some columns of the rows that a whole plan gives are computed from.

    Each of the ``names`` is that of one column.
    """
    columns = {str(each.fields.get("name", "")): each for each in root.columns()}
    return tuple(_meaning(columns[name], definitions) for name in names)


def _key_columns(node: PlanNode) -> Iterator[PlanExpression]:
    for name in _KEYS:
        yield from node.expressions(name)
    yield from node.expressions(_SESSION)


def _meaning(column: PlanExpression, definitions: Definitions) -> KeyMeaning:
    found = definitions.resolved(column)
    return KeyMeaning(str(column.fields.get("name", "")), found.text, window_of(found), found)


def window_of(expression: PlanExpression) -> Window | None:
    """The windows that an expression makes, None where it makes none that are known."""
    made = expression.children if expression.name == ONE_OF else (expression,)
    parts = [_parts(each) for each in made]
    if None in parts:
        return None
    pairs = [each for each in parts if each is not None]
    session = _session(*pairs[0]) if len(pairs) == 1 else None
    return session or _time_window(pairs)


def _parts(expression: PlanExpression) -> tuple[PlanExpression, PlanExpression] | None:
    """The start and the end in a struct of both."""
    found = _bare(expression)
    if found.name != _MADE or [each.value for each in found.children[::2]] != ["start", "end"]:
        return None
    return found.children[1], found.children[3]


def _bare(expression: PlanExpression) -> PlanExpression:
    return _bare(expression.children[0]) if expression.name in _AROUND else expression


def _session(start: PlanExpression, end: PlanExpression) -> SessionWindow | None:
    """An end that is the start's column and a gap."""
    added = [each for each in end.every() if each.name in _ADDED]
    column, before = _times(end), _times(start)
    if len(added) != 1 or len(column) != 1 or len(before) != 1:
        return None
    time, gap = added[0].children
    if next(iter(before)) != time.text or next(iter(column)) != added[0].text:
        return None
    zone = str(added[0].fields.get("timeZoneId"))
    return SessionWindow(_micros(str(gap.value), zone) if gap.name == LITERAL else None)


def _times(expression: PlanExpression) -> set[str]:
    """The columns of time that are taken as numbers."""
    return {each.children[0].text for each in _outside(expression) if _is_time(each)}


def _is_time(expression: PlanExpression) -> bool:
    return expression.name == _TO_LONG and expression.fields["toType"] == "long"


def _outside(expression: PlanExpression) -> Iterator[PlanExpression]:
    """An expression and all within it, but not what a time is computed from."""
    yield expression
    if not _is_time(expression):
        for each in expression.children:
            yield from _outside(each)


def _micros(text: str, zone: str) -> int | None:
    """A constant interval; None for one of days in a zone where these are not all as long."""
    total = Fraction(0)
    left = text
    for found in _PART.finditer(text):
        word = found[2].removesuffix("s")
        size = _SIZES.get(word)
        if size is None or (word in ("day", "week") and zone not in _UTC):
            return None
        total += Fraction(found[1]) * size
        left = left.replace(found[0], "", 1)
    return int(total) if not left.strip() and total.denominator == 1 else None


def _time_window(pairs: Sequence[tuple[PlanExpression, PlanExpression]]) -> TimeWindow | None:
    """The windows that all of the pairs make together.

    What the numbers in the expressions seem to say is held against what the expressions compute.
    """
    if len({time for pair in pairs for part in pair for time in _times(part)}) != 1:
        return None
    grid = _only({_grid(start) for start, _ in pairs})
    if grid is None:
        return None
    slide, offset = grid
    starts, ends = ([_computed(part, 0) for part in side] for side in zip(*pairs, strict=True))
    if None in starts or None in ends or slide <= 0:
        return None
    length = _only({e - s for s, e in zip(starts, ends, strict=True) if None not in (s, e)})  # type: ignore[operator]
    if length is None or length < slide:
        return None
    window = TimeWindow(length, slide, offset)
    tried = (*_TRIED, offset - 1, offset, offset + slide - 1)
    return window if all(_makes(window, pairs, time) for time in tried) else None


def _makes(
    window: TimeWindow, pairs: Sequence[tuple[PlanExpression, PlanExpression]], time: int
) -> bool:
    """Whether the pairs make the windows that an event is in, and otherwise only others."""
    made = {(_computed(start, time), _computed(end, time)) for start, end in pairs}
    around = {(each, each + window.length) for each in window.starts_of(time)}
    rest = made - around
    return around <= made and all(
        start is not None and end is not None and window.has(start, end) and not start <= time < end
        for start, end in rest
    )


def _only(found: set[_T]) -> _T | None:
    return next(iter(found)) if len(found) == 1 else None


def _grid(start: PlanExpression) -> tuple[int, int] | None:
    """The slide and the offset, from ``(time - offset) % slide``."""
    found = set()
    for each in _outside(start):
        if each.name == "Remainder" and each.children[1].name == LITERAL:
            moved = each.children[0]
            offset = moved.children[1] if moved.name == "Subtract" else None
            if offset is None:
                found.add((int(each.children[1].value), 0))
            elif offset.name == LITERAL:
                found.add((int(each.children[1].value), int(offset.value)))
    return next(iter(found)) if len(found) == 1 else None


def _computed(expression: PlanExpression, time: int) -> int | None:
    """What an expression makes of an event's time; None for one with anything unknown in it."""
    found = _evaluated(expression, time)
    return None if isinstance(found, bool) else found


def _evaluated(expression: PlanExpression, time: int) -> int | bool | None:
    if _is_time(expression):
        return time
    if expression.name == LITERAL:
        return int(expression.value) if expression.fields["dataType"] == "long" else None
    parts = [_evaluated(each, time) for each in expression.children]
    computed = _COMPUTED.get((expression.name, len(parts)))
    known = [int(each) for each in parts if each is not None]
    return computed(*known) if computed is not None and len(known) == len(parts) else None


def _remainder(one: int, other: int) -> int | None:
    """As Java has it: with the sign of the first."""
    return abs(one) % abs(other) * (1 if one >= 0 else -1) if other else None


_COMPUTED: Mapping[tuple[str, int], Callable[..., int | bool | None]] = {
    ("KnownNullable", 1): int,
    ("KnownNotNull", 1): int,
    ("PreciseTimestampConversion", 1): int,
    ("Add", 2): int.__add__,
    ("Subtract", 2): int.__sub__,
    ("Remainder", 2): _remainder,
    ("LessThan", 2): int.__lt__,
    ("CaseWhen", 3): lambda is_so, then, otherwise: then if is_so else otherwise,
}
"""What the expressions of a window compute, by their names and the number of their parts."""
