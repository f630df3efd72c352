"""What decides which rows an operator's state is of, read from the plan that ran.

Two queries may keep state of one schema under the same keys, and still mean something else by it:
rows are filtered before an aggregation, a join has another condition, the watermark another delay.
Spark compares none of these when a query starts. Catalyst's own trees are asked for them, in a
probe only, and never where a query of the user's runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.rewrite.probe_expressions import Definitions, Expression, parse_tree
from statemigrate.rewrite.probe_keys import PlanThatRan

FactKind = Literal[
    "filter", "watermark", "delay", "join type", "join key", "join condition", "output mode"
]


@dataclass(frozen=True)
class OperatorFact:
    """One fact about an operator: its ``kind``, and its ``text``, the same in each run.

    ``side`` is ``left`` or ``right`` for what is on one side of a join, else empty. ``text`` is
    over columns of the sources.
    """

    kind: FactKind
    text: str
    side: str = ""

    @property
    def words(self) -> str:
        """How a person calls it."""
        return f"{self.kind} of the {self.side} side" if self.side else self.kind


Facts = Mapping[int, tuple[OperatorFact, ...]]
"""The facts of operators by their numbers, sorted."""

_WATERMARK, _FILTER, _JOIN = (
    "EventTimeWatermarkExec",
    "FilterExec",
    "StreamingSymmetricHashJoinExec",
)
_PLANNER_ADDS = ("IsNotNull",)
"""Conditions that Spark's optimizer adds by itself where others need them."""


@dataclass(frozen=True)
class _Node:
    """A node of the plan with what is below it."""

    fields: Mapping[str, Any]
    number: int | None
    more: Mapping[str, str]
    children: tuple[_Node, ...]
    is_control: bool = False

    @property
    def name(self) -> str:
        return str(self.fields["class"]).rpartition(".")[2]

    def expressions(self, field: str) -> Iterator[Expression]:
        """Those of a field, which has one tree or a list of them."""
        found = self.fields.get(field)
        if isinstance(found, list) and found:
            for tree in found if isinstance(found[0], list) else [found]:
                yield parse_tree(tree)


def operator_facts(plan: PlanThatRan) -> dict[int, tuple[OperatorFact, ...]]:
    """The facts of each stateful operator of a plan."""
    definitions = plan.definitions()
    control = plan.control or [False] * len(plan.nodes)
    parts = iter(zip(plan.nodes, plan.numbers, _beyond_json(plan.root), control, strict=True))
    found: dict[int, tuple[OperatorFact, ...]] = {}
    for node in _every(_tree(parts)):
        if node.number is not None and node.number not in found:
            facts = {*_of_operator(node, definitions), *_below(node, definitions)}
            found[node.number] = tuple(
                sorted(facts, key=lambda each: (each.kind, each.side, each.text))
            )
    return found


def _tree(
    parts: Iterator[tuple[Mapping[str, Any], int | None, Mapping[str, str], bool]],
) -> _Node:
    """The next node of a plan in the order of its JSON, each before those below it."""
    fields, number, more, is_control = next(parts)
    children = tuple(_tree(parts) for _ in range(fields["num-children"]))
    return _Node(fields, number, more, children, is_control)


def _every(node: _Node) -> Iterator[_Node]:
    yield node
    for each in node.children:
        yield from _every(each)


def _of_operator(node: _Node, definitions: Definitions) -> Iterator[OperatorFact]:
    """What the operator itself says."""
    mode = node.fields.get("outputMode")
    if isinstance(mode, Mapping):
        yield OperatorFact("output mode", _object(mode).lower())
    if node.name != _JOIN:
        return
    yield OperatorFact("join type", _object(node.fields["joinType"]))
    for side in ("left", "right"):
        for place, each in enumerate(node.expressions(f"{side}Keys")):
            yield OperatorFact("join key", f"{place}: {definitions.resolved(each).text}", side)
    if "condition" in node.more:
        condition = parse_tree(json.loads(node.more["condition"]))
        for each in _conjuncts(condition):
            yield OperatorFact("join condition", definitions.resolved(each).text)


def _below(
    node: _Node, definitions: Definitions, side: str = "", number: int | None = None
) -> Iterator[OperatorFact]:
    """What becomes of rows on their way here from the sources, or from the operator before."""
    number = node.number if number is None else number
    for place, each in enumerate(node.children):
        is_other = each.number not in (None, number)
        side_of = ("left", "right")[place] if node.name == _JOIN else side
        if is_other or each.is_control:
            continue
        yield from _on_the_way(each, definitions, side_of)
        yield from _below(each, definitions, side_of, number)


def _on_the_way(node: _Node, definitions: Definitions, side: str) -> Iterator[OperatorFact]:
    if node.name == _FILTER:
        for condition in node.expressions("condition"):
            for each in _conjuncts(condition):
                if each.name not in _PLANNER_ADDS:
                    yield OperatorFact("filter", definitions.resolved(each).text, side)
    if node.name == _WATERMARK:
        for each in node.expressions("eventTime"):
            yield OperatorFact("watermark", definitions.resolved(each).text, side)
        if "delay" in node.more:
            yield OperatorFact("delay", node.more["delay"], side)


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if expression.name == "And":
        for each in expression.children:
            yield from _conjuncts(each)
    else:
        yield expression


def _object(found: Mapping[str, Any]) -> str:
    """The name of a Scala object, as JSON has it."""
    return str(found["object"]).rstrip("$").rpartition(".")[2].rpartition("$")[2]


def _beyond_json(node: Any) -> Iterator[dict[str, str]]:
    """What the nodes of a plan have that their JSON lacks, in the order of the JSON."""
    name = str(node.getClass().getSimpleName())
    more = {}
    if name == _WATERMARK:
        more["delay"] = str(node.delay().toString())
    if name == _JOIN and node.condition().full().isDefined():
        more["condition"] = str(node.condition().full().get().toJSON())
    yield more
    children = node.children()
    for place in range(children.size()):
        yield from _beyond_json(children.apply(place))
