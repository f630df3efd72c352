"""The plan of a stream as a tree, read from Spark's own in one walk.

Everything that is asked of a plan - keys, aggregate functions, filters, joins, tables - is read
from this tree. ``toJSON`` of Spark has most of a node; what it lacks is asked of Spark's own
object, once for each node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from statemigrate.native import MARKER
from statemigrate.rewrite.plan_expressions import (
    ALIAS,
    ATTRIBUTE,
    LITERAL,
    NOT_SHOWN,
    ONE_OF,
    UNITED,
    UNKNOWN,
    PlanExpression,
    Reading,
    complete,
    expression_of,
    fields_taken,
    has_gaps,
    members_of,
    numbers_in,
    parse_tree,
    seq,
    short_name,
    tree_of,
    with_numbers,
)
from statemigrate.rewrite.plan_settings import settings_of, unset_settings
from statemigrate.rewrite.python_code import digest_of_udf


def is_control(node: Any) -> bool:
    """Whether a node of a plan only brings rows of a backfill source."""
    leaves = node.collectLeaves()
    found = [leaves.apply(at) for at in range(leaves.size())]
    return bool(found) and all(each.schema().getFieldIndex(MARKER).isDefined() for each in found)


WATERMARK, STREAM_JOIN, UNION = (
    "EventTimeWatermarkExec",
    "StreamingSymmetricHashJoinExec",
    "UnionExec",
)
WHOLE_ROWS = ("TransformWithState", "FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState")
"""How the names of operators begin whose code gets whole rows, by the names of the columns."""
_PYTHON = "PythonUDF"
_PROJECTIONS = "projections"
_SOURCE, _REFERENCE = "StreamingRelationExec", "CTERelationRef"
_CACHED, _ADAPTIVE = "InMemoryTableScanExec", "AdaptiveSparkPlanExec"
_REUSED = ("ReusedExchangeExec", "ReusedSubqueryExec")


@dataclass(frozen=True)
class PlanNode:
    """A node of a physical plan, with those below it.

    ``fields`` are its own as JSON has them, in which each Python function says its code. ``java``
    is Spark's object. ``number`` is that of the stateful operator that the node is, and ``kind``
    Spark's name of it. ``delay`` is a watermark's, and ``condition`` a join's. ``output`` are the
    columns of a union and of its parts. ``table`` names the table that a leaf reads, empty for a
    stream. A node that ``is_control`` only brings the rows of a backfill, and means nothing.
    ``renumbered`` are numbers of Spark's own that are others here: a stream that is read twice has
    the same in both places. ``reading`` is how its expressions were read.
    """

    fields: Mapping[str, Any]
    children: tuple[PlanNode, ...] = ()
    java: Any = None
    number: int | None = None
    kind: str = ""
    delay: str = ""
    condition: PlanExpression | None = None
    output: tuple[PlanExpression, ...] = ()
    table: str = ""
    is_control: bool = False
    renumbered: Mapping[int, int] = field(default_factory=dict)
    reading: Reading | None = None

    @property
    def name(self) -> str:
        """The name of its class, without the package."""
        return short_name(self.fields)

    @property
    def is_static(self) -> bool:
        """Whether all its rows are of tables, and none of a stream."""
        leaves = [each for each in self.every() if not each.children]
        return all(each.table for each in leaves)

    def every(self) -> Iterator[PlanNode]:
        """The node itself and all below it, each before those below."""
        yield self
        for each in self.children:
            yield from each.every()

    def expressions(self, name: str) -> Iterator[PlanExpression]:
        """Those of a field, which has one tree or a list of them."""
        found = self.fields.get(name)
        if isinstance(found, list) and found:
            for tree in found if isinstance(found[0], list) else [found]:
                if tree and isinstance(tree[0], Mapping):
                    yield parse_tree(tree)

    def columns(self) -> Iterator[PlanExpression]:
        """The columns of the rows that it gives."""
        return (self.of_spark(each) for each in _output(self.java))

    def of_spark(self, expression: PlanExpression) -> PlanExpression:
        """An expression of Spark's own node, with the numbers that it has here."""
        return expression.renumbered(self.renumbered) if self.renumbered else expression

    def read(self, java: Any) -> PlanExpression:
        """One of the expressions that Spark's own node has."""
        assert self.reading is not None, "walked"  # noqa: S101
        return self.of_spark(expression_of(java, self.reading))

    def expanded(self) -> Iterator[tuple[int, PlanExpression]]:
        """The columns of a node that makes several rows of one, by their numbers."""
        rows = [
            [parse_tree(each) for each in row if each]
            for row in self.fields.get(_PROJECTIONS) or ()
        ]
        for place, column in enumerate(self.expressions("output") if rows else ()):
            made = [row[place] for row in rows]
            if column.id is not None and any(each.id != column.id for each in made):
                yield column.id, PlanExpression(ONE_OF, tuple(made))

    def cached(self) -> Iterator[tuple[int, PlanExpression]]:
        """The columns of a cached table by their numbers: Spark gives each use of it others."""
        if self.name == _CACHED and self.children:
            columns = (self.of_spark(each) for each in _output(self.java.relation()))
            for column, made in zip(columns, self.children[0].columns(), strict=True):
                if column.id is not None and column.id != made.id:
                    yield column.id, made

    def united(self) -> Iterator[tuple[int, tuple[PlanExpression, ...]]]:
        """The columns of a union by their numbers, each with those of all parts in their order."""
        parts = [each.output for each in self.children if not each.is_control]
        if self.name == UNION and parts:
            for column, *of_parts in zip(self.output, *parts, strict=True):
                if column.id is not None:
                    yield column.id, tuple(of_parts)

    def numbers(self) -> set[int]:
        """Those of all columns and expressions that it mentions, and the nodes below it."""
        own: set[int] = set()
        for node in self.every():
            own.update(numbers_in(node.fields))
            own.update(each.id for each in node.output if each.id is not None)
        return own


@dataclass(frozen=True)
class StreamPlan:
    """A plan by its ``root``, and the ``schemas`` of the streams that it reads, in their order.

    The schemas are as Spark writes types. ``unset`` are the settings that nobody has set in its
    session.
    """

    root: PlanNode
    schemas: tuple[str, ...] = ()
    unset: frozenset[str] = frozenset()


def plan_of(execution: Any) -> StreamPlan:
    """The plan of Spark's own ``QueryExecution``."""
    session = execution.sparkSession()
    root = _subplan(execution.executedPlan(), Reading(settings_of(session), _subplan))
    return StreamPlan(root, tuple(_schemas(execution.analyzed())), unset_settings(session))


def _schemas(analyzed: Any) -> Iterator[str]:
    """The schema of each stream at the bottom of an analyzed plan."""
    leaves = analyzed.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        # A reference to a common table expression reads no stream: the expression does.
        is_reference = str(leaf.getClass().getSimpleName()) == _REFERENCE
        if leaf.isStreaming() and not is_reference and not is_control(leaf):
            yield str(leaf.schema().catalogString())


def _subplan(java: Any, reading: Reading) -> PlanNode:
    """A whole plan, as of a subquery."""
    root = _walked(java, iter(json.loads(java.toJSON())), reading, of_union=False)
    return _with_groups_in_order(root, {})


def _walked(
    java: Any, nodes: Iterator[dict[str, Any]], reading: Reading, *, of_union: bool
) -> PlanNode:
    """The next node of a plan in the order of its JSON."""
    fields, members = next(nodes), members_of(java)
    name = short_name(fields)
    listed = java.children()
    below = [listed.apply(at) for at in range(fields["num-children"])]
    children = tuple(_walked(each, nodes, reading, of_union=name == UNION) for each in below)
    if name.startswith(WHOLE_ROWS):
        # The second child is the initial state, which counts in a query's first batch alone.
        children = children[:1]
    _complete_fields(fields, java, members, reading)
    within = _within(java, name)
    if within is not None:
        children = (_subplan(within, reading),)
    if {"udfs", "func"} & members:
        _add_codes(fields, dict(_codes(java, members)))
    state: Any = java.stateInfo() if "stateInfo" in members else None
    has_state = state is not None and state.isDefined()
    output = tuple(_output(java)) if of_union or name == UNION else ()
    return PlanNode(
        fields,
        _with_own_numbers(children, output if name == UNION else None)
        if len(children) > 1
        else children,
        java,
        int(state.get().operatorId()) if has_state else None,
        # Of the two nodes of an aggregation the one that writes has the name.
        str(java.shortName()) if has_state and "shortName" in members else "",
        str(java.delay().toString()) if name == WATERMARK else "",
        _condition(java, name, reading),
        output,
        "" if children or name in (_SOURCE, _CACHED, *_REUSED) else _table(java),
        # Leaves alone are asked: each question is a call of the JVM.
        all(each.is_control for each in children) if children else is_control(java),
        reading=reading,
    )


ROWS_OF_CODE = f"rows made by code, {NOT_SHOWN}"
_NUMBERS = count(2**40)
"""Numbers that Spark has given to nothing."""


def _with_own_numbers(
    children: Sequence[PlanNode], output: Sequence[PlanExpression] | None
) -> tuple[PlanNode, ...]:
    """The children of a node, each with numbers that no other one has.

    ``output`` are the columns of a union, which have the numbers of those of its first part: here
    they have them alone.
    """
    taken = {each.id for each in output or () if each.id is not None}
    made: list[PlanNode] = []
    for child in children:
        own = child.numbers()
        common = own & taken
        # Any other node knows the columns of all its children.
        known = {each.id for each in child.columns()} if common and output is None else set()
        made = [_renumbered(each, {old: next(_NUMBERS) for old in common & known}) for each in made]
        made.append(_renumbered(child, {old: next(_NUMBERS) for old in common - known}))
        taken |= own
    return tuple(made)


def _renumbered(node: PlanNode, numbers: dict[int, int]) -> PlanNode:
    if not numbers:
        return node
    earlier = {old: numbers.get(new, new) for old, new in node.renumbered.items()}
    return replace(
        node,
        fields=with_numbers(node.fields, numbers),
        children=tuple(_renumbered(each, numbers) for each in node.children),
        condition=None if node.condition is None else node.condition.renumbered(numbers),
        output=tuple(each.renumbered(numbers) for each in node.output),
        renumbered={**numbers, **earlier},
    )


# Several distinct counts of a table: Spark makes a row for each, and gives them numbers in another
# order each time.


_EXPAND, _GROUP, _EQUAL = "ExpandExec", "gid", "EqualTo"
Groups = dict[int, dict[str, str]]
"""Columns with such numbers, and by each number the one that it is here."""


def _with_groups_in_order(node: PlanNode, known: Groups) -> PlanNode:
    """A plan with these rows and numbers in an order that follows from what the rows have."""
    children = tuple(_with_groups_in_order(each, known) for each in node.children)
    fields = node.fields
    if node.name == _EXPAND:
        fields = _groups_in_order(node, known)
    elif known:
        fields = {name: _with_groups(each, known) for name, each in fields.items()}
    return node if not known else replace(node, fields=fields, children=children)


def _groups_in_order(node: PlanNode, known: Groups) -> Mapping[str, Any]:
    rows = node.fields.get(_PROJECTIONS) or []
    columns = list(node.expressions("output"))
    for place, column in enumerate(columns):
        numbers = [parse_tree(row[place]) for row in rows]
        is_group = column.fields.get("name") == _GROUP and column.id is not None
        if not is_group or any(each.name != LITERAL for each in numbers):
            continue
        others = [[parse_tree(each) for at, each in enumerate(row) if at != place] for row in rows]
        texts = [
            sorted(each.text for each in row if each.name != LITERAL or each.value is not None)
            for row in others
        ]
        order = sorted(range(len(rows)), key=texts.__getitem__)
        given = [str(each.value) for each in numbers]
        own = {given[at]: each for at, each in zip(order, sorted(given, key=int), strict=True)}
        known[int(column.id or 0)] = own
        made = [[*rows[at]] for at in order]
        for row in made:
            (literal,) = row[place]
            row[place] = [{**literal, "value": own[str(literal["value"])]}]
        return {**node.fields, _PROJECTIONS: made}
    return node.fields


def _with_groups(found: Any, known: Groups) -> Any:
    """The JSON of expressions with other numbers wherever a column of them is compared with one."""
    if not isinstance(found, list):
        return found
    made = [_with_groups(each, known) for each in found]
    for at, node in enumerate(made[:-2]):
        if not isinstance(node, Mapping) or "class" not in node or short_name(node) != _EQUAL:
            continue
        for column, number in ((at + 1, at + 2), (at + 2, at + 1)):
            own = known.get(int(made[column].get("exprId", {"id": -1})["id"]))
            if own is not None and short_name(made[number]) == LITERAL:
                value = str(made[number]["value"])
                made[number] = {**made[number], "value": own.get(value, value)}
    return made


def _complete_fields(
    fields: dict[str, Any], java: Any, members: frozenset[str], reading: Reading
) -> None:
    """Add what JSON leaves out to the expressions in a node's fields."""
    for name, found in fields.items():
        if found is None and name == _PROJECTIONS:
            # JSON has them only where Spark made a list of them, and no array.
            fields[name] = [
                [tree_of(each, reading) for each in seq(row)] for row in seq(java.projections())
            ]
        elif isinstance(found, list) and has_gaps(found):
            own = getattr(java, name)() if name in members else None
            complete(found, own, reading)


def _output(java: Any) -> Iterator[PlanExpression]:
    return (parse_tree(json.loads(each.toJSON())) for each in seq(java.output()))


def _condition(java: Any, name: str, reading: Reading) -> PlanExpression | None:
    """The condition of a join: JSON has nothing of it."""
    if name == STREAM_JOIN:
        found = java.condition().full()
    elif name.endswith("JoinExec") and "condition" in members_of(java):
        found = java.condition()
    else:
        return None
    is_there = "isDefined" in members_of(found) and found.isDefined()
    return expression_of(found.get(), reading) if is_there else None


# Python functions, which a plan has by name alone.


def _codes(java: Any, members: frozenset[str]) -> Iterator[tuple[int, str]]:
    """What tells the Python functions of a node apart, by the number of each in the plan."""
    if "udfs" in members:
        for at in range(java.udfs().size()):
            yield from _codes_in(java.udfs().apply(at))
    elif "getClass" in members_of(java.func()):
        yield from _codes_in(java.func())


def _codes_in(expression: Any) -> Iterator[tuple[int, str]]:
    if "children" not in members_of(expression):
        return
    if str(expression.getClass().getSimpleName()) == _PYTHON:
        yield int(expression.resultId().id()), digest_of_udf(expression)
    for at in range(expression.children().size()):
        yield from _codes_in(expression.children().apply(at))


def _add_codes(found: Any, codes: Mapping[int, str]) -> None:
    """Have each Python function in a node's JSON say its code, not its name alone."""
    if isinstance(found, list):
        for each in found:
            _add_codes(each, codes)
    elif isinstance(found, dict):
        if str(found.get("class")).endswith(f".{_PYTHON}"):
            found["code"] = codes.get(int(found["resultId"]["id"])) or UNKNOWN
        for each in found.values():
            _add_codes(each, codes)


# Tables, which rows of streams are joined with.


def _table(java: Any) -> str:
    """What a leaf that is no stream reads: a table by its name, or files by their place."""
    members = members_of(java)
    if "tableIdentifier" in members and java.tableIdentifier().isDefined():
        return f"table {java.tableIdentifier().get().unquotedString()}"
    if "relation" in members:
        return _relation(java.relation())
    if "table" in members and "name" in members_of(java.table()):
        return f"table {java.table().name()}"
    if "range" in members:
        return str(java.range().toString()).partition(", splits")[0]
    # Rows that are given to Spark as a list are those of any RDD to it: code would have to run.
    return f"rows in the code, {_digest(java.rows())}" if "rows" in members else ROWS_OF_CODE


def _digest(rows: Any) -> str:
    """A short hash of rows that are part of the code, in whichever order they are."""
    texts = sorted(str(rows.apply(at).toString()) for at in range(rows.size()))
    return sha256("\n".join(texts).encode()).hexdigest()[:8]


def _within(java: Any, name: str) -> Any:
    """The plan that a node stands for, which JSON has nothing of; None for another node.

    Rows are cached, used twice, or planned again while they come. None too where rows of a stream
    are used twice, as that part of the plan is walked where it stands.
    """
    if name == _ADAPTIVE:
        return java.inputPlan()
    if name not in (_CACHED, *_REUSED):
        return None
    plan = java.relation().cachedPlan() if name == _CACHED else java.child()
    listed = plan.collectLeaves()
    leaves = (listed.apply(at) for at in range(listed.size()))
    is_stream = any(str(each.getClass().getSimpleName()) == _SOURCE for each in leaves)
    return None if is_stream else plan


def _relation(relation: Any) -> str:
    if "location" not in members_of(relation):
        return str(relation.toString())
    paths = relation.location().rootPaths()
    places = [_place(str(paths.apply(at).toString())) for at in range(paths.size())]
    kind = str(relation.fileFormat().getClass().getSimpleName()).removesuffix("FileFormat")
    return f"{kind.lower()} {', '.join(places)}"


def _place(uri: str) -> str:
    """A place as the code names it: below the working directory relative to that."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return uri
    path = Path(unquote(parts.path))
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()


# What columns are computed from.


class Definitions:
    """What the columns of a plan are computed from, by their numbers.

    What only brings the rows of a backfill is left out.
    """

    def __init__(self, root: PlanNode, rows_text: Callable[[PlanNode], str]) -> None:
        """``rows_text`` says what the rows of a subquery's plan are."""
        self._rows_text = rows_text
        nodes = [each for each in root.every() if not each.is_control]
        self._found: dict[int, PlanExpression] = {}
        leaves = [each for each in nodes if not each.children]
        tables = [each for each in leaves if each.table]
        self._name_columns([each for each in leaves if not each.table], "", ".")
        self._name_columns(tables, "table", ".")
        for node in nodes:
            self._define(node)
        self.repeated: dict[int, int] = {}
        """Of a column that a generator makes: how many equal ones are below it."""
        self._count_generators(nodes)

    def resolved(self, expression: PlanExpression) -> PlanExpression:
        """The expression over columns of the sources alone."""
        return fields_taken(self._resolved(expression, frozenset()))

    def _resolved(self, expression: PlanExpression, within: frozenset[int]) -> PlanExpression:
        """``within`` are the columns on the way here."""
        if expression.name == ALIAS:
            return self._resolved(expression.children[0], within)
        number = expression.id if expression.name == ATTRIBUTE else None
        if number is not None and number in self._found and number not in within:
            return self._resolved(self._found[number], within | {number})
        children = tuple(self._resolved(each, within) for each in expression.children)
        return replace(expression.described(self._rows_text), children=children)

    def _name_columns(self, leaves: Sequence[PlanNode], word: str, dot: str) -> None:
        """Columns of several sources are distinguished by the sources' order in the plan."""
        for at, leaf in enumerate(leaves):
            place = str(at) if len(leaves) > 1 else ""
            before = " ".join(each for each in (word, place) if each)
            if not before:
                continue
            for column in leaf.expressions("output"):
                if column.name == ATTRIBUTE and column.id is not None:
                    name = f"{before}{dot}{column.fields['name']}"
                    self._found[column.id] = PlanExpression(ATTRIBUTE, (), {"name": name})

    def _define(self, node: PlanNode) -> None:
        for name in ("projectList", "resultExpressions", "groupingExpressions"):
            for each in node.expressions(name):
                if each.name == ALIAS and each.id is not None:
                    self._found[each.id] = each.children[0]
        self._pair(node, "resultAttrs", "udfs")
        self._pair(node, "aggregateAttributes", "aggregateExpressions")
        self._generate(node)
        self._found.update(node.expanded())
        self._found.update(node.cached())
        for number, parts in node.united():
            self._found[number] = parts[0] if len(parts) == 1 else PlanExpression(UNITED, parts)

    def _pair(self, node: PlanNode, columns: str, computed: str) -> None:
        pairs = zip(node.expressions(columns), node.expressions(computed), strict=False)
        for column, expression in pairs:
            if column.id is not None:
                self._found[column.id] = expression

    def _generate(self, node: PlanNode) -> None:
        """The columns of a generator such as `explode`."""
        for made in node.expressions("generator"):
            for place, column in enumerate(node.expressions("generatorOutput")):
                if column.id is not None:
                    self._found[column.id] = PlanExpression(
                        made.name, made.children, {"column": place}
                    )

    def _count_generators(self, nodes: Sequence[PlanNode]) -> None:
        """Have the columns of a generator differ from those of an equal one below it."""
        texts: dict[int, list[str]] = {}
        for node in reversed(nodes):
            texts[id(node)] = [self.resolved(each).text for each in node.expressions("generator")]
            if not texts[id(node)]:
                continue
            below = [text for each in node.every() for text in texts.get(id(each), ())]
            again = below.count(texts[id(node)][0]) - 1
            for column in node.expressions("generatorOutput"):
                if again and column.id is not None:
                    self.repeated[column.id] = again
                    made = self._found[column.id]
                    self._found[column.id] = replace(made, fields={**made.fields, "again": again})
