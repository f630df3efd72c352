"""The aggregate functions of a query, read from the plan that Spark has run.

The plan that ran is the one that decides what state has: the optimizer may have made another
function of what the code says. Catalyst's own expressions are asked for it, since no public
interface has the fields of a buffer, or what is in one before the first row. This is done in a
probe only, never where a query of the user's runs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from statemigrate.rewrite.aggregates import AggregateFunction, fields_of
from statemigrate.rewrite.plan_tree import (
    UNION,
    UNKNOWN,
    PlanExpression,
    PlanNode,
    members_of,
    of_any_release,
)

_SAVING = ("StateStoreSaveExec", "SessionWindowStateStoreSaveExec")
_ATTRIBUTE, _ALIAS, _CAST = "AttributeReference", "Alias", "Cast"
_LAMBDA, _VARIABLE = "LambdaFunction", "NamedLambdaVariable"
_PYTHON, _UNITED, _GENERATED = "PythonUDF", "Union", "Generated"
_ORDERLESS = frozenset(
    {
        *("And", "Or", "Add", "Multiply", "EqualTo", "EqualNullSafe", "Greatest", "Least"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    }
)
"""Expressions that are the same in whichever order their parts are: Spark takes them for one."""
_WITHOUT_NAME = frozenset({"ScalaUDF", "ScalaAggregator", "ScalaUDAF", "TypedAggregateExpression"})
"""Expressions of compiled functions, which a plan does not tell apart."""
_NOT_MEANT = frozenset(
    {
        "class",
        "num-children",
        "exprId",
        "resultId",
        "mode",
        "qualifier",
        "nullable",
        "metadata",
        "explicitMetadata",
        "nonInheritableMetadataKeys",
        "mutableAggBufferOffset",
        "inputAggBufferOffset",
        "evalContext",
        "evalMode",
        "filter",
        "randomSeed",
        "hideSeed",
    }
)
"""What a plan has of an expression that is another one in each run, or of its place alone."""
_SAME_BUFFERS = ("StddevPop", "StddevSamp", "VariancePop", "VarianceSamp")
"""Functions that keep the same moments of a group, and differ only in what they make of them."""
_NOTHING: Mapping[int, int] = {}
Node = tuple[Mapping[str, Any], tuple[Any, ...]]
"""An expression as JSON has it, and those within it."""


def functions_in(root: PlanNode) -> dict[int, tuple[AggregateFunction, ...]]:
    """The functions of each aggregation of a plan, by operator."""
    origins = _origins(root)
    jvm = _jvm()
    found = {}
    for final, node in _with_aggregates(root):
        if node.name in _SAVING and node.number is not None:
            found[node.number] = tuple(_functions(node, final, origins, jvm))
    return found


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm


def _functions(
    saving: PlanNode, final: PlanNode | None, origins: Mapping[int, Node | str], jvm: Any
) -> Iterator[AggregateFunction]:
    below = [each for each in saving.every() if _is_aggregate(each)]
    partial = next(each for each in below if _is_partial(each))
    results = {} if final is None else _results(final)
    # The filter of a function is in the first of its steps alone.
    pairs = zip(
        _seq(below[0].java.aggregateExpressions()),
        _seq(partial.java.aggregateExpressions()),
        strict=True,
    )
    for number, (merged, begun) in enumerate(pairs):
        yield _function(begun, merged.aggregateFunction(), origins, results.get(number, ""), jvm)


def _function(
    expression: Any, function: Any, origins: Mapping[int, Node | str], result: str, jvm: Any
) -> AggregateFunction:
    whole = _by_buffer(_parsed(expression.toJSON()))
    fields = fields_of(json.loads(function.aggBufferSchema().json()))
    return AggregateFunction(
        str(expression.sql()),
        fields,
        _comparable(whole, origins),
        _comparable(_uncast(whole), origins),
        _class(function),
        _argument(function),
        result,
        _empty(function, len(fields), jvm),
        is_opaque=_is_typed(function),
    )


def _by_buffer(aggregate: Node) -> Node:
    """An aggregate whose function has one name for all that keep the same buffer."""
    head, (function, *filters) = aggregate
    if _short(function) in _SAME_BUFFERS:
        function = ({**function[0], "class": f".{_SAME_BUFFERS[0]}"}, function[1])
    return head, (function, *filters)


def _results(final: PlanNode) -> dict[int, str]:
    """The columns that functions become, by their places."""
    ids = [each[0]["exprId"]["id"] for each in _trees(final, "aggregateAttributes")]
    found = {}
    for node, inner in _trees(final, "resultExpressions"):
        if _short((node, inner)) == _ALIAS and _short(inner[0]) == _ATTRIBUTE:
            number, name = inner[0][0]["exprId"]["id"], str(node["name"])
            # Spark itself names a column after what it is computed from.
            if number in ids and "(" not in name:
                found[ids.index(number)] = name
    return found


def _argument(function: Any) -> Any:
    children = _seq(function.children())
    return json.loads(children[0].dataType().json()) if children else None


def _empty(function: Any, width: int, jvm: Any) -> tuple[Any, ...] | None:
    """What Spark puts into the buffer of a group before its first row; None where it does not say.

    A function of the user's own may need what only a running query gives it. Then the author is
    asked, as of everything that is not known.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        plain = [_plain(each) for each in _initial(function, width, jvm)]
    except Py4JError:
        return None
    return tuple(value for value, _ in plain) if all(known for _, known in plain) else None


def _initial(function: Any, width: int, jvm: Any) -> list[Any]:
    if _has(function, "initialValues"):
        return [each.eval(None) for each in _seq(function.initialValues())]
    row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(width)
    placed = function.withNewMutableAggBufferOffset(0)
    placed.initialize(row)
    if _is_typed(function):
        placed.serializeAggregateBufferInPlace(row)
    return [row.get(place, None) for place in range(width)]


def _is_typed(function: Any) -> bool:
    """Whether the buffer is an object, which is bytes in the state."""
    return _has(function, "serializeAggregateBufferInPlace")


def _plain(value: Any) -> tuple[Any, bool]:
    """A value of Catalyst's as JSON has it, and whether it is one that is known."""
    if value is None or isinstance(value, bool | int | float | str):
        return value, True
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(bytes(value)).decode(), True
    name = value.getClass().getSimpleName()
    if name in ("Decimal", "UTF8String"):
        return str(value.toString()), True
    return None, False


# Plans.


def _with_aggregates(
    node: PlanNode, above: PlanNode | None = None
) -> Iterator[tuple[PlanNode | None, PlanNode]]:
    """Every node with the aggregate next above it: of one that saves state, its last step."""
    yield above, node
    own = node if _is_aggregate(node) else above
    for each in node.children:
        yield from _with_aggregates(each, own)


def _is_aggregate(node: PlanNode) -> bool:
    return "aggregateExpressions" in node.fields


def _is_partial(node: PlanNode) -> bool:
    modes = [each[0]["mode"]["object"] for each in _trees(node, "aggregateExpressions")]
    return all(each.endswith("Partial$") for each in modes)


def _trees(node: PlanNode, name: str) -> list[Node]:
    """The expressions of a field of a node."""
    return [_tree(each) for each in node.fields.get(name) or () if each]


def _seq(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())]


def _has(node: Any, method: str) -> bool:
    return method in members_of(node)


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


# Meanings.


def _origins(root: PlanNode) -> dict[int, Node | str]:
    """What each column of a plan is, by its id: an expression of others, or of an input.

    One that is not in it is made by something that says nothing of how, as a function of pandas.
    """
    nodes = list(root.every())
    found: dict[int, Node | str] = {}
    leaves = [each for each in nodes if not (each.children or each.is_control)]
    streams, tables = (
        [each for each in leaves if bool(each.table) == is_table] for is_table in (False, True)
    )
    for word, own in (("input", streams), ("table", tables)):
        for at, leaf in enumerate(own):
            # How the only input is called does not matter; several go by their order, as in Spark.
            name = word if len(own) == 1 else f"{word}{at}"
            for column in leaf.expressions("output"):
                if column.id is not None:
                    found[column.id] = name
    # What is below comes first, and stays: the first step of an aggregate alone has its filter. But
    # a union's columns have the numbers of those of its first part.
    for node in reversed(nodes):
        if node.name == UNION and node.output:
            _unite(node, found)
        for number, made in _computed_by(node):
            found.setdefault(number, made)
    return found


def _computed_by(node: PlanNode) -> Iterator[tuple[int, Node]]:
    """The columns that a node computes, by their ids."""
    for name in ("projectList", "resultExpressions"):
        for each in _trees(node, name):
            if _short(each) == _ALIAS:
                yield each[0]["exprId"]["id"], each[1][0]
    for each in _trees(node, "aggregateExpressions"):
        yield each[0]["resultId"]["id"], each
    if {"udfs", "resultAttrs"} <= node.fields.keys():
        pairs = zip(_trees(node, "resultAttrs"), _trees(node, "udfs"), strict=True)
        for column, made in pairs:
            yield column[0]["exprId"]["id"], made
    if "generator" in node.fields:
        made = _tree(node.fields["generator"])
        for place, column in enumerate(_trees(node, "generatorOutput")):
            yield column[0]["exprId"]["id"], ({"class": _GENERATED, "column": place}, (made,))


def _unite(union: PlanNode, found: dict[int, Node | str]) -> None:
    """The columns of a union, each computed from those of all its parts."""
    parts = [each.output for each in union.children if not each.is_control]
    made: dict[int, Node | None] = {}
    if len(parts) == 1:
        for column, own in zip(union.output, parts[0], strict=True):
            # A column has its own number in the first part, and is then what it is there.
            if column.id is not None and column.id != own.id:
                found[column.id] = _node(own)
        return
    for column, *of_parts in zip(union.output, *parts, strict=True):
        if column.id is not None:
            united = [_comparable(_node(each), found) for each in of_parts]
            made[column.id] = ({"class": _UNITED, "of": united}, ()) if all(united) else None
    for number, node in made.items():
        if node is None:
            found.pop(number, None)
        else:
            found[number] = node


def _node(expression: PlanExpression) -> Node:
    return expression.fields, tuple(map(_node, expression.children))


def _parsed(text: str) -> Node:
    """The expression of Spark's JSON, which has every node before those within it."""
    return _tree(json.loads(text))


def _tree(listed: list[Any]) -> Node:
    nodes = iter(listed)

    def _next() -> Node:
        node = of_any_release(next(nodes))
        return node, tuple(_next() for _ in range(node["num-children"]))

    return _next()


def _short(node: Node) -> str:
    return str(node[0]["class"]).rpartition(".")[2]


class _NotComparableError(Exception):
    """An expression that the plan names without saying what it computes."""


def _comparable(node: Node, origins: Mapping[int, Node | str]) -> str:
    """The meaning of an expression; empty where two with one meaning may compute other things."""
    try:
        return _meaning(node, origins, frozenset())
    except _NotComparableError:
        return ""


def _meaning(
    node: Node,
    origins: Mapping[int, Node | str],
    seen: frozenset[int],
    bound: Mapping[int, int] = _NOTHING,
) -> str:
    """An expression by what it is computed from, down to the columns of inputs.

    ``bound`` are the variables of the functions such as `transform` that it is within, numbered
    from the outside: Spark's own numbers differ from query to query, and several may share a name.
    """
    kind = _short(node)
    if kind == _ATTRIBUTE:
        number = node[0]["exprId"]["id"]
        origin = origins.get(number)
        if origin is None or number in seen:
            raise _NotComparableError
        if isinstance(origin, tuple):
            return _meaning(origin, origins, seen | {number}, bound)
        return f"{origin}.{json.dumps(node[0]['name'])}"
    if kind in _WITHOUT_NAME or "Subquery" in kind or node[0].get("name") == "<lambda>":
        raise _NotComparableError
    if kind == _PYTHON and node[0].get("code") in (None, UNKNOWN):
        raise _NotComparableError
    own = _meant(node[0], lambda each: _meaning(each, origins, seen, bound))
    if kind == _PYTHON:
        # Its code says what it computes, whatever it is called.
        own.pop("name")
    if kind == _LAMBDA:
        variables = [each[0]["exprId"]["id"] for each in node[1][1:]]
        bound = {**bound, **{each: len(bound) + at for at, each in enumerate(variables)}}
    if kind == _VARIABLE:
        if node[0]["exprId"]["id"] not in bound:
            raise _NotComparableError
        own["name"] = bound[node[0]["exprId"]["id"]]
    # A stream gets another seed in each batch, whatever the code gives.
    children = () if "hideSeed" in node[0] else node[1]
    inner = [_meaning(each, origins, seen, bound) for each in children]
    if kind in _ORDERLESS:
        inner.sort()
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return f"{kind}{text}({','.join(inner)})"


def _meant(value: Any, meaning: Callable[[Node], str]) -> Any:
    """What an expression's own fields say; expressions in them go by their meaning too."""
    if isinstance(value, list):
        if value and all(isinstance(e, Mapping) and "num-children" in e for e in value):
            return meaning(_tree(value))
        return [_meant(each, meaning) for each in value]
    if isinstance(value, Mapping):
        kept = {name: each for name, each in value.items() if name not in _NOT_MEANT}
        return {name: _meant(each, meaning) for name, each in kept.items()}
    return value


def _uncast(node: Node) -> Node:
    """The same aggregate of arguments that are not cast."""
    head, inner = node
    function, *filters = inner
    bare = tuple(_bare(each) for each in function[1])
    return head, ((function[0], bare), *filters)


def _bare(node: Node) -> Node:
    return _bare(node[1][0]) if _short(node) == _CAST else node
