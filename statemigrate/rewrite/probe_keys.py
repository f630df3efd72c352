"""What the key columns of a query's operators are computed from, read from the plan that ran.

State has names and types of its keys, and a type says little: windows of five minutes and of an
hour are of one type. So the probe keeps what Spark's plan computes each key column from, and which
windows it makes. Catalyst's own trees are asked for it, in a probe only, and never where a query of
the user's runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from statemigrate.rewrite.probe_expressions import (
    LITERAL,
    ONE_OF,
    Definitions,
    Expression,
    Union,
    digest_of_udf,
    is_control,
    members_of,
    parse_tree,
)
from statemigrate.rewrite.windows import KeyMeaning, SessionWindow, TimeWindow, Window

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_T = TypeVar("_T")
_PYTHON = "PythonUDF"
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


@dataclass(frozen=True)
class PlanThatRan:
    """The physical plan of a query's last batch.

    ``nodes`` are those of its JSON, in which each Python function says its code. ``numbers`` has
    the stateful operator that each of them is, None for none; ``unions`` are the plan's, from the
    top. ``root`` is Spark's own object. ``schemas`` are those of the streams that are read, as
    Spark writes types, in the order in which the plan reads them. ``control`` says which nodes only
    bring the rows of a backfill: they mean nothing, and no schema is of them.
    """

    nodes: Sequence[Mapping[str, Any]]
    numbers: Sequence[int | None]
    unions: Sequence[Union]
    root: Any
    schemas: tuple[str, ...] = ()
    control: Sequence[bool] = ()

    def definitions(self) -> Definitions:
        """What the columns of the plan are computed from."""
        return Definitions(self.nodes, self.unions, self.control)


def plan_that_ran(query: StreamingQuery) -> PlanThatRan | None:
    """The plan of a query that has run a batch.

    None for a session that has no plan to show, as one of Spark Connect.
    """
    wrapped = getattr(query, "_jsq", None)
    if wrapped is None:
        return None
    return plan_of(wrapped.streamingQuery().lastExecution())


def plan_of(execution: Any) -> PlanThatRan:
    """The plan of Spark's own ``QueryExecution``."""
    plan = execution.executedPlan()
    nodes = json.loads(plan.toJSON())
    _add_codes(nodes, dict(_codes(plan)))
    schemas = tuple(_schemas(execution.analyzed()))
    control = _control(plan)
    return PlanThatRan(nodes, list(_numbers(plan)), list(_unions(plan)), plan, schemas, control)


def _control(node: Any) -> list[bool]:
    """Which nodes of a plan only bring rows of a backfill, in the order of its JSON.

    Leaves alone are asked: each question is a call of the JVM.
    """
    children = node.children()
    parts = [_control(children.apply(at)) for at in range(children.size())]
    own = all(part[0] for part in parts) if parts else is_control(node)
    return [own, *(each for part in parts for each in part)]


def _schemas(analyzed: Any) -> Iterator[str]:
    """The schema of each stream at the bottom of an analyzed plan."""
    leaves = analyzed.collectLeaves()
    for at in range(leaves.size()):
        if leaves.apply(at).isStreaming() and not is_control(leaves.apply(at)):
            yield str(leaves.apply(at).schema().catalogString())


def key_meanings(query: StreamingQuery) -> dict[int, tuple[KeyMeaning, ...]]:
    """The key columns of each operator of a query that has run a batch.

    Nothing of a session that has no plan to show.
    """
    plan = plan_that_ran(query)
    return {} if plan is None else keys_in(plan)


def keys_in(plan: PlanThatRan) -> dict[int, tuple[KeyMeaning, ...]]:
    """The key columns of each operator of a plan."""
    return read_meanings(plan.nodes, plan.numbers, plan.unions, plan.control)


def _unions(plan: Any) -> Iterator[Union]:
    """The unions of a plan, each before those within it."""
    children = [plan.children().apply(at) for at in range(plan.children().size())]
    if str(plan.getClass().getSimpleName()) == "UnionExec":
        parts = [_output(each) for each in children if not is_control(each)] or [_output(plan)]
        numbers = [each.id for each in _output(plan)]
        columns = zip(numbers, zip(*parts, strict=True), strict=True)
        yield {number: own for number, own in columns if number is not None}
    for each in children:
        yield from _unions(each)


def _output(node: Any) -> list[Expression]:
    found = node.output()
    return [parse_tree(json.loads(found.apply(at).toJSON())) for at in range(found.size())]


def _codes(plan: Any) -> Iterator[tuple[int, str]]:
    """What tells the Python functions in a plan apart, by the number of each in the plan."""
    found = [plan.children().apply(at) for at in range(plan.children().size())]
    if "udfs" in members_of(plan):
        found += [plan.udfs().apply(at) for at in range(plan.udfs().size())]
    if str(plan.getClass().getSimpleName()) == _PYTHON:
        yield int(plan.resultId().id()), digest_of_udf(plan)
    for each in found:
        yield from _codes(each)


def _add_codes(found: Any, codes: Mapping[int, str]) -> None:
    """Have each Python function in a plan's JSON say its code, not its name alone."""
    if isinstance(found, list):
        for each in found:
            _add_codes(each, codes)
    elif isinstance(found, dict):
        if str(found.get("class")).endswith(f".{_PYTHON}"):
            number = int(found["resultId"]["id"])
            # One that is not known is the same as no other.
            found["code"] = codes.get(number) or f"unknown {number}"
        for each in found.values():
            _add_codes(each, codes)


def read_meanings(
    nodes: Sequence[Mapping[str, Any]],
    numbers: Sequence[int | None],
    unions: Sequence[Union] = (),
    control: Sequence[bool] = (),
) -> dict[int, tuple[KeyMeaning, ...]]:
    """The key columns of the operators of a plan.

    ``nodes`` are those of its JSON, ``numbers`` the operator that each is of, None for none.
    ``unions`` are the plan's, from the top; ``control`` is as of `PlanThatRan`.
    """
    definitions = Definitions(nodes, unions, control)
    found: dict[int, tuple[KeyMeaning, ...]] = {}
    for node, number in zip(nodes, numbers, strict=True):
        if number is not None and number not in found:
            columns = tuple(_meaning(each, definitions) for each in _key_columns(node))
            if columns:
                found[number] = columns
    return found


def _numbers(node: Any) -> Iterator[int | None]:
    """For each node of a physical plan, in the order of its JSON, the stateful operator it is."""
    state = node.stateInfo() if "stateInfo" in members_of(node) else None
    yield None if state is None or not state.isDefined() else int(state.get().operatorId())
    children = node.children()
    for place in range(children.size()):
        yield from _numbers(children.apply(place))


def _key_columns(node: Mapping[str, Any]) -> Iterator[Expression]:
    for name in _KEYS:
        for each in node.get(name) or ():
            yield parse_tree(each)
    if node.get(_SESSION):
        yield parse_tree(node[_SESSION])


def _meaning(column: Expression, definitions: Definitions) -> KeyMeaning:
    found = definitions.resolved(column)
    return KeyMeaning(str(column.fields.get("name", "")), found.text, window_of(found))


def window_of(expression: Expression) -> Window | None:
    """The windows that an expression makes, None where it makes none that are known."""
    made = expression.children if expression.name == ONE_OF else (expression,)
    parts = [_parts(each) for each in made]
    if None in parts:
        return None
    pairs = [each for each in parts if each is not None]
    session = _session(*pairs[0]) if len(pairs) == 1 else None
    return session or _time_window(pairs)


def _parts(expression: Expression) -> tuple[Expression, Expression] | None:
    """The start and the end in a struct of both."""
    found = _bare(expression)
    if found.name != _MADE or [each.value for each in found.children[::2]] != ["start", "end"]:
        return None
    return found.children[1], found.children[3]


def _bare(expression: Expression) -> Expression:
    return _bare(expression.children[0]) if expression.name in _AROUND else expression


def _session(start: Expression, end: Expression) -> SessionWindow | None:
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


def _times(expression: Expression) -> set[str]:
    """The columns of time that are taken as numbers."""
    return {each.children[0].text for each in _outside(expression) if _is_time(each)}


def _is_time(expression: Expression) -> bool:
    return expression.name == _TO_LONG and expression.fields["toType"] == "long"


def _outside(expression: Expression) -> Iterator[Expression]:
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


def _time_window(pairs: Sequence[tuple[Expression, Expression]]) -> TimeWindow | None:
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


def _makes(window: TimeWindow, pairs: Sequence[tuple[Expression, Expression]], time: int) -> bool:
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


def _grid(start: Expression) -> tuple[int, int] | None:
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


def _computed(expression: Expression, time: int) -> int | None:
    """What an expression makes of an event's time; None for one with anything unknown in it."""
    found = _evaluated(expression, time)
    return None if isinstance(found, bool) else found


def _evaluated(expression: Expression, time: int) -> int | bool | None:
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
