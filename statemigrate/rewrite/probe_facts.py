"""What decides which rows an operator's state is of, and what is in them, read from a plan.

Two queries may keep state of one schema under the same keys, and still mean something else by it:
rows are filtered before an aggregation or joined with another table, a join has another condition,
the watermark another delay. Spark compares none of these when a query starts. A step that is not
known here is a fact by its name and all its fields, so that none goes unnoticed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from statemigrate.native import MARKER
from statemigrate.pages import BUCKET, PACKED_COLUMNS, pack
from statemigrate.rewrite.plan_expressions import ATTRIBUTE, PlanExpression, object_name
from statemigrate.rewrite.plan_tree import (
    STREAM_JOIN,
    WATERMARK,
    WHOLE_ROWS,
    Definitions,
    PlanNode,
)

FactKind = Literal[
    "filter",
    "watermark",
    "delay",
    "join type",
    "join key",
    "join condition",
    "output mode",
    "time mode",
    "timeout",
    "table",
    "column",
    "rows",
    "key",
]


@dataclass(frozen=True)
class OperatorFact:
    """One fact about an operator: its ``kind``, and its ``text``, the same in each run.

    ``side`` is ``left`` or ``right`` for what is on one side of a join, else empty. ``text`` is
    over columns of the sources. A ``table`` is one that rows are joined with, a ``column`` what a
    column of rows that are kept is computed from, and ``rows`` a step that makes others of them. A
    ``key`` is what pages are chosen by; other keys are columns of the state, see `KeyMeaning`. The
    text of a ``column`` begins with its name, or with its place in what a join keeps.
    """

    kind: FactKind
    text: str
    side: str = ""

    @property
    def words(self) -> str:
        """How a person calls it."""
        return f"{self.kind} of the {self.side} side" if self.side else self.kind

    @property
    def column(self) -> str:
        """The name or the place of a ``column``, empty for another kind."""
        if self.kind != "column":
            return ""
        return self.text.partition(": " if self.is_by_place else " = ")[0]

    @property
    def is_by_place(self) -> bool:
        """Whether it is a ``column`` that a join keeps, which has no name that counts."""
        return self.kind == "column" and _BY_PLACE.match(self.text) is not None


_BY_PLACE = re.compile(r"[0-9]+: ")

Facts = Mapping[int, tuple[OperatorFact, ...]]
"""The facts of operators by their numbers, sorted."""

_SIDES = ("left", "right")
_FILTER, _UNION, _EXPAND = "FilterExec", "UnionExec", "ExpandExec"
_SORT = "SortExec"
_NOT_NULL, _PRUNING = "IsNotNull", "DynamicPruningExpression"
"""Conditions that Spark adds by itself where others need them. The first may be the user's, too."""
_TAKES_NULLS = frozenset(
    {
        *("Coalesce", "IsNull", "IsNotNull", "IsNaN", "NaNvl", "AtLeastNNonNulls", "Or"),
        *("CaseWhen", "If", "EqualNullSafe", "PythonUDF", "ScalaUDF", "ScalarSubquery"),
    }
)
"""Expressions that may have a value where a part of them is null."""
_WINDOW_TIME = "PreciseTimestampConversion"
_COLUMNS_ALONE = frozenset(
    {
        *("ProjectExec", "BatchEvalPythonExec", "ArrowEvalPythonExec"),
        *("WholeStageCodegenExec", "InputAdapter", "ShuffleExchangeExec", "BroadcastExchangeExec"),
        *("SortExec", "ColumnarToRowExec", "RowToColumnarExec", "UpdateEventTimeColumnExec"),
        *("SerializeFromObjectExec", "DeserializeToObjectExec", "AppendColumnsExec"),
        *("UpdatingSessionsExec", "MergingSessionsExec", "RDDScanExec", "LocalTableScanExec"),
        *("ReusedExchangeExec", "InMemoryTableScanExec", "StreamingRelationExec", "CoalesceExec"),
        *("CollectMetricsExec", "PythonUDTFExec", "AdaptiveSparkPlanExec"),
        *("SubqueryExec", "ReusedSubqueryExec"),
    }
)
"""Nodes whose columns say everything of them, and those that only move rows."""
_AGGREGATES = ("HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec")
WITHOUT_NULLS = ", and nothing is null"
"""How the text of a join ends that has rows only where no value is null, as ``NOT IN`` does."""
_UNMEANT = frozenset({"class", "num-children", "child", "left", "right", "seed", "isSkewJoin"})


def operator_facts(root: PlanNode, definitions: Definitions) -> dict[int, tuple[OperatorFact, ...]]:
    """The facts of each stateful operator of a plan."""
    found: dict[int, tuple[OperatorFact, ...]] = {}
    needless = _needless(root, definitions)
    for node in root.every():
        if node.number is not None and node.number not in found:
            below = _counted(_below(node, definitions), needless)
            found[node.number] = _sorted({*_of_operator(node, definitions), *below})
    return found


def facts_of_rows(root: PlanNode, definitions: Definitions) -> tuple[OperatorFact, ...]:
    """The facts about the rows that a whole plan gives to code of the user's."""
    found = set(_given(root, definitions, ""))
    if root.number is None:
        way = [*_on_the_way(root, definitions, ""), *_below(root, definitions)]
        found.update(_counted(way, _needless(root, definitions)))
    return _sorted(found)


def _sorted(facts: Iterable[OperatorFact]) -> tuple[OperatorFact, ...]:
    return tuple(sorted(facts, key=lambda each: (each.kind, each.side, each.text)))


def _counted(facts: Iterable[OperatorFact], needless: Container[str]) -> Iterator[OperatorFact]:
    """The facts of all nodes, each once; but for those that follow from others."""
    for fact, times in Counter(facts).items():
        # Spark has one filter once or in each part of a union; other rows are made of each.
        if fact.kind != "filter" or fact.text not in needless:
            yield fact if fact.kind != "rows" or times == 1 else _times(fact, times)


def rows_text(root: PlanNode) -> str:
    """What the rows of a plan are that reads tables alone, the same in each run."""
    definitions = Definitions(root, rows_text)
    facts = {*_on_the_way(root, definitions, ""), *_below(root, definitions)}
    columns = [found.text for _, found in _columns(root, definitions)]
    return "; ".join([*columns, *sorted(f"{each.kind} {each.text}" for each in facts)])


def _needless(root: PlanNode, definitions: Definitions) -> set[str]:
    """Conditions that a value is not null which follow from others: Spark adds them by itself."""
    found = set()
    for node in root.every():
        conditions = [*_conditions(node, "condition"), *_conditions(node, "partitionFilters")]
        conditions += [*node.expressions("generator"), *_of_joined(node)]
        for name in ("projectList", "groupingExpressions"):
            for each in node.expressions(name):
                conditions += [part for part in each.every() if part.name == _WINDOW_TIME]
        for each in conditions:
            if each.name != _NOT_NULL:
                for part in _needed(definitions.resolved(each)):
                    found.add(PlanExpression(_NOT_NULL, (part,), {"child": 0}).text)
    return found


_DROPPED: Mapping[str, tuple[str, ...]] = {
    "Inner": _SIDES,
    "LeftSemi": _SIDES,
    "LeftOuter": ("right",),
    "LeftAnti": ("right",),
    "RightOuter": ("left",),
}
"""The sides of a join whose rows are neither joined nor given out if a part of the key is null."""


def _of_joined(node: PlanNode) -> Iterator[PlanExpression]:
    """What a join takes of the sides whose rows it drops where that is null."""
    sides = _DROPPED.get(_join_type(node), ())
    for side in sides:
        yield from node.expressions(f"{side}Keys")
    if node.condition is None or not sides:
        return
    known = {each.id for side in sides for each in node.children[_SIDES.index(side)].columns()}
    for condition in _conjuncts(node.condition):
        for part in _needed(condition):
            if {each.id for each in part.every() if each.name == ATTRIBUTE} <= known:
                yield part


def _needed(expression: PlanExpression) -> Iterator[PlanExpression]:
    """The parts of an expression without which it is null, the expression itself among them."""
    yield expression
    if expression.name not in _TAKES_NULLS:
        for each in expression.children:
            yield from _needed(each)


def _times(fact: OperatorFact, times: int) -> OperatorFact:
    return OperatorFact(fact.kind, f"{times} times {fact.text}", fact.side)


def _of_operator(node: PlanNode, definitions: Definitions) -> Iterator[OperatorFact]:
    """What the operator itself says."""
    mode = node.fields.get("outputMode")
    # A join had no other mode before Spark 4.2, and its plan none at all.
    if isinstance(mode, Mapping) and (node.name, object_name(mode)) != (STREAM_JOIN, "Append"):
        yield OperatorFact("output mode", object_name(mode).lower())
    times = node.fields.get("timeMode")
    if isinstance(times, Mapping):
        yield OperatorFact("time mode", object_name(times))
    timeouts = node.fields.get("timeoutConf")
    if isinstance(timeouts, Mapping):
        yield OperatorFact("timeout", object_name(timeouts))
    if node.name.startswith(WHOLE_ROWS):
        yield from _given(node.children[0], definitions, "")
    if node.name != STREAM_JOIN:
        return
    yield OperatorFact("join type", _join_type(node))
    for side, part in zip(_SIDES, node.children, strict=True):
        for place, each in enumerate(node.expressions(f"{side}Keys")):
            yield OperatorFact("join key", f"{place}: {definitions.resolved(each).text}", side)
        # What a join keeps has no names that count.
        for place, (_, found) in enumerate(_columns(part, definitions)):
            yield OperatorFact("column", f"{place}: {found.text}", side)
    if node.condition is not None:
        for each in _conjuncts(node.condition):
            yield OperatorFact("join condition", definitions.resolved(each).text)


def _given(node: PlanNode, definitions: Definitions, side: str) -> Iterator[OperatorFact]:
    """What is computed of the rows that a node gives to code of the user's, which goes by names."""
    columns = [each for each in _columns(node, definitions) if each[0] != MARKER]
    if {name for name, _ in columns} == {BUCKET, *PACKED_COLUMNS}:
        # What is packed was compared where it is: the packing is given whole rows.
        return
    for name, found in columns:
        if name == BUCKET:
            for made in found.every():
                if made.name == "Murmur3Hash":
                    keys = ", ".join(each.text for each in made.children)
                    yield OperatorFact("key", keys, side)
        else:
            yield OperatorFact("column", f"{name} = {found.text}", side)


def _packs(function: PlanExpression) -> bool:
    """Whether a function packs the rows of a page: these are given to the processor unpacked."""
    names = [each.fields.get("name") for each in function.children]
    return function.fields.get("name") == pack.__name__ and BUCKET in names


def _columns(node: PlanNode, definitions: Definitions) -> Iterator[tuple[str, PlanExpression]]:
    """The columns of the rows that a node gives, each by its name and what it is computed from."""
    for column in node.columns():
        yield str(column.fields.get("name", "")), definitions.resolved(column)


def _below(
    node: PlanNode, definitions: Definitions, side: str = "", number: int | None = None
) -> Iterator[OperatorFact]:
    """What becomes of rows on their way here from the sources, or from the operator before."""
    number = node.number if number is None else number
    for place, each in enumerate(node.children):
        is_other = each.number not in (None, number)
        side_of = _SIDES[place] if node.name == STREAM_JOIN else side
        if is_other or each.is_control:
            continue
        yield from _on_the_way(each, definitions, side_of)
        yield from _below(each, definitions, side_of, number)


def _on_the_way(node: PlanNode, definitions: Definitions, side: str) -> Iterator[OperatorFact]:
    if node.name == _FILTER:
        for each in _conditions(node, "condition"):
            yield OperatorFact("filter", definitions.resolved(each).text, side)
    elif node.name == WATERMARK:
        for each in node.expressions("eventTime"):
            yield OperatorFact("watermark", definitions.resolved(each).text, side)
        yield OperatorFact("delay", node.delay, side)
    elif node.table:
        yield OperatorFact("table", node.table, side)
        for each in _conditions(node, "partitionFilters"):
            yield OperatorFact("filter", definitions.resolved(each).text, side)
    elif node.name.endswith("JoinExec") or node.name == "CartesianProductExec":
        yield OperatorFact("table", _join(node, definitions), side)
    else:
        yield from _other_rows(node, definitions, side)


def _other_rows(node: PlanNode, definitions: Definitions, side: str) -> Iterator[OperatorFact]:
    """A step that makes other rows of those that it gets."""
    if node.name == _UNION:
        parts = sum(not each.is_control for each in node.children)
        if parts > 1:
            yield OperatorFact("rows", f"of a union of {parts}", side)
    elif node.name in _AGGREGATES:
        # The operator's own are compared function by function.
        if node.is_static:
            yield OperatorFact("table", _step(node, definitions), side)
    elif node.name == _EXPAND:
        yield OperatorFact("rows", f"{len(node.fields['projections'])} rows of each", side)
    elif node.number is None and (node.name not in _COLUMNS_ALONE or _is_ordered(node)):
        if not any(map(_packs, node.expressions("func"))):
            yield OperatorFact("rows", _step(node, definitions), side)
        if "func" in node.fields:
            yield from _given(node.children[0], definitions, side)


def _is_ordered(node: PlanNode) -> bool:
    """Whether it sorts a whole table. Spark leaves such a step out where nothing depends on it."""
    return node.name == _SORT and node.is_static and bool(node.fields.get("global"))


def _join(node: PlanNode, definitions: Definitions) -> str:
    """A join with a table, whichever way Spark does it."""
    sides = (list(node.expressions(each)) for each in ("leftKeys", "rightKeys"))
    pairs = [
        " = ".join(definitions.resolved(each).text for each in pair)
        for pair in zip(*sides, strict=True)
    ]
    if node.condition is not None:
        pairs += [definitions.resolved(each).text for each in _conjuncts(node.condition)]
    nulls = WITHOUT_NULLS if node.fields.get("isNullAwareAntiJoin") else ""
    # Spark has a join of all pairs under either name, as large as the table is.
    kind = _join_type(node).replace("Cross", "Inner")
    return f"{kind} join where {' and '.join(sorted(pairs)) or 'true'}{nulls}"


def _join_type(node: PlanNode) -> str:
    """That of a join, as Spark names it. A join that names none takes all pairs."""
    kind = node.fields.get("joinType")
    return object_name(kind) if isinstance(kind, Mapping) else "Inner"


def _step(node: PlanNode, definitions: Definitions) -> str:
    """A node by its name and what all its fields say."""
    parts = []
    for name, found in sorted(node.fields.items()):
        if name in _UNMEANT or name.startswith(("output", "required", "is")):
            continue
        if isinstance(found, str | int | float):
            parts.append(f"{name}={found}")
        elif name.endswith(("Attributes", "Attrs", "Output")):
            continue
        else:
            parts += [f"{name}={definitions.resolved(e).text}" for e in node.expressions(name)]
    return f"{node.name.removesuffix('Exec')}({', '.join(parts)})"


def _conditions(node: PlanNode, name: str) -> Iterator[PlanExpression]:
    for condition in node.expressions(name):
        for each in _conjuncts(condition):
            if each.name != _PRUNING:
                yield each


def _conjuncts(expression: PlanExpression) -> Iterator[PlanExpression]:
    if expression.name == "And":
        for each in expression.children:
            yield from _conjuncts(each)
    else:
        yield expression
