"""The aggregate functions of a query, read from the plan that Spark has run.

The plan that ran is the one that decides what state has: the optimizer may have made another
function of what the code says. Catalyst's own expressions are asked for it, since no public
interface has the fields of a buffer, or what is in one before the first row. This is done in a
probe only, never where a query of the user's runs.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from statemigrate.rewrite.aggregates import AggregateFunction, fields_of
from statemigrate.rewrite.plan_expressions import (
    ALIAS,
    ATTRIBUTE,
    BOOKKEEPING,
    NOT_SHOWN,
    UNKNOWN,
    PlanExpression,
    fields_taken,
    members_of,
    parse_tree,
    seq,
)
from statemigrate.rewrite.plan_tree import Definitions, PlanNode
from statemigrate.rewrite.probe_facts import rows_text

_SAVING = ("StateStoreSaveExec", "SessionWindowStateStoreSaveExec")
_CAST, _VARIABLE, _IN = "Cast", "NamedLambdaVariable", "In"
_PYTHON, _UNITED, _GENERATED = "PythonUDF", "Union", "Generated"
_CASE = "CaseWhen"
_ORDERLESS = frozenset(
    {
        *("And", "Or", "Add", "Multiply", "EqualTo", "EqualNullSafe", "Greatest", "Least"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    }
)
"""Expressions that are the same in whichever order their parts are: Spark takes them for one."""
_WITHOUT_NAME = frozenset({"ScalaUDF", "ScalaAggregator", "ScalaUDAF", "TypedAggregateExpression"})
"""Expressions of compiled functions, which a plan does not tell apart."""
_NOT_MEANT = BOOKKEEPING | {"mode", "mutableAggBufferOffset", "inputAggBufferOffset", "filter"}
"""What a plan has of an expression that is another one in each run, or of its place alone."""
_SAME_BUFFERS = ("StddevPop", "StddevSamp", "VariancePop", "VarianceSamp")
"""Functions that keep the same moments of a group, and differ only in what they make of them."""
Origins = Mapping[int, PlanExpression | str]
"""What each column of a plan is, by its number: an expression of others, or the name of an input.

One that is not in it is made by something that says nothing of how, as a function of pandas.
"""


def functions_in(
    root: PlanNode, definitions: Definitions
) -> dict[int, tuple[AggregateFunction, ...]]:
    """The functions of each aggregation of a plan, by operator."""
    origins = _origins(root, definitions)
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
    saving: PlanNode, final: PlanNode | None, origins: Origins, jvm: Any
) -> Iterator[AggregateFunction]:
    below = [each for each in saving.every() if _is_aggregate(each)]
    partial = next(each for each in below if _is_partial(each))
    results = {} if final is None else _results(final)
    # The filter of a function is in the first of its steps alone.
    pairs = zip(
        seq(below[0].java.aggregateExpressions()),
        seq(partial.java.aggregateExpressions()),
        strict=True,
    )
    for number, (merged, begun) in enumerate(pairs):
        whole = _by_buffer(partial.read(begun))
        names = _named(str(begun.sql()), saving), results.get(number, "")
        yield _function(whole, merged.aggregateFunction(), names, origins, jvm)


def _function(
    whole: PlanExpression, function: Any, names: tuple[str, str], origins: Origins, jvm: Any
) -> AggregateFunction:
    """A function by its ``names``: that of itself, and of the column that it becomes."""
    text, result = names
    fields = fields_of(json.loads(function.aggBufferSchema().json()))
    meaning = _comparable(whole, origins)
    return AggregateFunction(
        text,
        fields,
        meaning,
        _comparable(_uncast(whole), origins),
        _class(function),
        _argument(function),
        result,
        _empty(function, len(fields), jvm),
        is_opaque=_is_typed(function),
        shown="" if meaning else fields_taken(_traced(whole, origins, frozenset())).text,
    )


_COMMON = re.compile(r"\b_common_expr_[0-9]+\b")
"""The name of an expression that Spark computes once: another number in each session."""


def _named(text: str, saving: PlanNode) -> str:
    """What users know a function by, with expressions in place of Spark's own names of them."""
    if not _COMMON.search(text):
        return text
    known = {}
    for node in saving.every():
        for each in seq(node.java.projectList()) if "projectList" in node.fields else ():
            if _has(each, "child"):
                known[str(each.name())] = str(each.child().sql())
    return _COMMON.sub(lambda found: known.get(found[0], found[0]), text)


def _by_buffer(aggregate: PlanExpression) -> PlanExpression:
    """An aggregate whose function has one name for all that keep the same buffer."""
    function, *filters = aggregate.children
    if function.name in _SAME_BUFFERS:
        function = replace(function, name=_SAME_BUFFERS[0])
    return replace(aggregate, children=(function, *filters))


def _results(final: PlanNode) -> dict[int, str]:
    """The columns that functions become, by their places."""
    ids = [each.id for each in final.expressions("aggregateAttributes")]
    found = {}
    for each in final.expressions("resultExpressions"):
        if each.name == ALIAS and each.children[0].name == ATTRIBUTE:
            number, name = each.children[0].id, str(each.fields["name"])
            # Spark itself names a column after what it is computed from.
            if number in ids and "(" not in name:
                found[ids.index(number)] = name
    return found


def _argument(function: Any) -> Any:
    children = list(seq(function.children()))
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
        return [each.eval(None) for each in seq(function.initialValues())]
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
    modes = [each.fields["mode"]["object"] for each in node.expressions("aggregateExpressions")]
    return all(each.endswith("Partial$") for each in modes)


def _has(node: Any, method: str) -> bool:
    return method in members_of(node)


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


# Meanings.


def _origins(root: PlanNode, definitions: Definitions) -> Origins:
    """The origins of a plan's columns."""
    nodes = list(root.every())
    found: dict[int, PlanExpression | str] = {}
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
    # What is below comes first, and stays: the first step of an aggregate alone has its filter.
    for node in reversed(nodes):
        for own_number, parts in node.united():
            united = _united(parts, found)
            if united is not None:
                found[own_number] = united
        for number, made in _computed_by(node, definitions):
            if number is not None:
                found.setdefault(number, made)
    return found


def _computed_by(
    node: PlanNode, definitions: Definitions
) -> Iterator[tuple[int | None, PlanExpression]]:
    """The columns that a node computes, by their ids."""
    for name in ("projectList", "resultExpressions"):
        for each in node.expressions(name):
            if each.name == ALIAS:
                yield each.id, each.children[0]
    for each in node.expressions("aggregateExpressions"):
        yield int(each.fields["resultId"]["id"]), each
    if {"udfs", "resultAttrs"} <= node.fields.keys():
        pairs = zip(node.expressions("resultAttrs"), node.expressions("udfs"), strict=True)
        for column, made in pairs:
            yield column.id, made
    yield from node.expanded()
    for made in node.expressions("generator"):
        for place, column in enumerate(node.expressions("generatorOutput")):
            fields = {"column": place}
            if column.id in definitions.repeated:
                fields["again"] = definitions.repeated[column.id]
            yield column.id, PlanExpression(_GENERATED, (made,), fields)


def _united(parts: tuple[PlanExpression, ...], found: Origins) -> PlanExpression | None:
    """A column of a union, which is computed from those of all its parts."""
    if len(parts) == 1:
        return parts[0]
    united = [_comparable(each, found) for each in parts]
    return PlanExpression(_UNITED, (), {"of": united}) if all(united) else None


class _NotComparableError(Exception):
    """An expression that the plan names without saying what it computes."""


def _comparable(expression: PlanExpression, origins: Origins) -> str:
    """The meaning of an expression; empty where two with one meaning may compute other things."""
    try:
        return _meaning(fields_taken(_traced(expression, origins, frozenset())), {})
    except _NotComparableError:
        return ""


def _traced(expression: PlanExpression, origins: Origins, within: frozenset[int]) -> PlanExpression:
    """An expression down to the columns of inputs. ``within`` are the columns on the way here."""
    if expression.name == ATTRIBUTE and expression.id is not None:
        number = expression.id
        origin = None if number in within else origins.get(number)
        if isinstance(origin, PlanExpression):
            return _traced(origin, origins, within | {number})
        return PlanExpression(ATTRIBUTE, (), {"name": expression.fields["name"], "of": origin})
    children = tuple(_traced(each, origins, within) for each in expression.children)
    made = expression.described(rows_text)
    fields = {name: _in_field(each, origins, within) for name, each in made.fields.items()}
    return PlanExpression(expression.name, children, fields)


def _in_field(value: Any, origins: Origins, within: frozenset[int]) -> Any:
    """What a field has, with its expressions down to the columns of inputs."""
    if not isinstance(value, list):
        return value
    if value and all(isinstance(each, Mapping) and "num-children" in each for each in value):
        return _traced(parse_tree(value), origins, within)
    return [_in_field(each, origins, within) for each in value]


def _meaning(expression: PlanExpression, bound: Mapping[int, int]) -> str:
    """What an expression means. ``bound`` are the variables of the lambdas that it is within."""
    kind, fields = expression.name, expression.fields
    if kind == ATTRIBUTE:
        if fields["of"] is None:
            raise _NotComparableError
        return f"{fields['of']}.{json.dumps(fields['name'])}"
    is_hidden = "Subquery" in kind and "rows" not in fields
    if kind in _WITHOUT_NAME or is_hidden or NOT_SHOWN in fields.values():
        raise _NotComparableError
    if kind == _PYTHON and fields.get("code") in (None, UNKNOWN):
        raise _NotComparableError
    # The fields of a CASE repeat its children, with names of columns and variables.
    own = {} if kind == _CASE else _meant(fields, lambda each: _meaning(each, bound))
    if kind == _PYTHON:
        # Its code says what it computes, whatever it is called.
        own.pop("name")
    if kind == _VARIABLE:
        number = bound.get(expression.id or 0)
        if number is None:
            raise _NotComparableError
        own["name"] = number
    bound = expression.binding(bound)
    # A stream gets another seed in each batch, whatever the code gives.
    children = () if "hideSeed" in fields else expression.children
    inner = [_meaning(each, bound) for each in children]
    if kind in _ORDERLESS:
        inner.sort()
    elif kind == _IN:
        inner[1:] = sorted(inner[1:])
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return f"{kind}{text}({','.join(inner)})"


def _meant(value: Any, meaning: Callable[[PlanExpression], str]) -> Any:
    """What an expression's own fields say; expressions in them go by their meaning too."""
    if isinstance(value, PlanExpression):
        return meaning(value)
    if isinstance(value, list):
        return [_meant(each, meaning) for each in value]
    if isinstance(value, Mapping):
        kept = {name: each for name, each in value.items() if name not in _NOT_MEANT}
        return {name: _meant(each, meaning) for name, each in kept.items()}
    return value


def _uncast(aggregate: PlanExpression) -> PlanExpression:
    """The same aggregate of arguments that are not cast."""
    function, *filters = aggregate.children
    bare = replace(function, children=tuple(map(_bare, function.children)))
    return replace(aggregate, children=(bare, *filters))


def _bare(expression: PlanExpression) -> PlanExpression:
    return _bare(expression.children[0]) if expression.name == _CAST else expression
