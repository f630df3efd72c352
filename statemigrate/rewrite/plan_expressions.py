"""Expressions in Spark's plans: what they compute, as a text that is the same in every run.

They are read from the JSON of Catalyst's own trees. It has null for what JSON has no form for, as a
set or a map, and a hash of Java's for bytes: there Spark's own expression is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from statemigrate.rewrite.plan_settings import (
    EFFECTS,
    depends_on_settings,
    fields_of_settings,
    for_schema,
)

BOOKKEEPING = frozenset(
    {
        "class",
        "num-children",
        "exprId",
        "resultId",
        "qualifier",
        "nullable",
        "metadata",
        "explicitMetadata",
        "nonInheritableMetadataKeys",
        "evalContext",
        "evalMode",
        "randomSeed",
        "hideSeed",
    }
)
"""What is another one in each run, or says nothing of what comes out.

What becomes of values without a result is in fields of its own: see `fields_of_settings`.
"""
_MODE = "mode"
"""The field of an aggregate that says which of its steps it is."""
_VARIABLE, _FUNCTION, _PYTHON = "NamedLambdaVariable", "LambdaFunction", "PythonUDF"
NOT_SHOWN = "(not shown)"
"""What stands for a part of an expression that neither JSON nor Spark itself shows."""
_UNBOUND: Mapping[int, int] = {}
ALIAS, ATTRIBUTE, LITERAL = "Alias", "AttributeReference", "Literal"
ONE_OF = "OneOf"
"""Several expressions that make a row each, as where windows overlap."""
UNITED = "United"
"""The expressions of a union's parts. Each gives some of the rows."""
UNKNOWN = "unknown"
"""The code of a Python function that nothing describes."""
_BATCHED, _ARROW_BATCHED = 100, 101
"""PySpark's numbers of a plain Python function, by the way in which rows travel to it."""


@dataclass(frozen=True)
class PlanExpression:
    """An expression by Spark's ``name`` of its class, with its ``fields`` as JSON has them."""

    name: str
    children: tuple[PlanExpression, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> int | None:
        """The number by which other expressions of the plan refer to it."""
        found = self.fields.get("exprId")
        return None if found is None else int(found["id"])

    @property
    def value(self) -> Any:
        """That of a literal, which JSON has as text."""
        return self.fields.get("value")

    @property
    def text(self) -> str:
        """What it computes, the same in every run of the same code."""
        return self._text(_UNBOUND)

    def _text(self, bound: Mapping[int, int]) -> str:
        """``bound`` are the variables of the lambdas around it, numbered from the outside."""
        if self.name == ALIAS:
            return self.children[0]._text(bound)
        if self.name == ATTRIBUTE:
            return str(self.fields["name"])
        if self.name == LITERAL:
            own = [f"{name}={self.fields[name]}" for name in EFFECTS if name in self.fields]
            return ", ".join([f"{self.value!r}: {self.fields.get('dataType')}", *own])
        bound = self.binding(bound)
        # A stream gets another seed in each batch, whatever the code gives.
        children = () if "hideSeed" in self.fields else self.children
        own = sorted(self._own(bound))
        return f"{self.name}({', '.join([*(each._text(bound) for each in children), *own])})"

    def binding(self, bound: Mapping[int, int]) -> Mapping[int, int]:
        """The variables of lambdas within it: those that are ``bound``, and its own.

        They go by numbers. Spark gives those of PySpark's lambdas another name in each run.
        """
        if self.name != _FUNCTION:
            return bound
        own = [each.id for each in self.children[1:] if each.id is not None]
        return {**bound, **{each: len(bound) + at for at, each in enumerate(own)}}

    def _own(self, bound: Mapping[int, int]) -> Iterator[str]:
        """What its own fields say."""
        # A function of the user's is its code, whatever it is called.
        is_known = self.fields.get("code") not in (None, UNKNOWN)
        for name, each in self.fields.items():
            if name in BOOKKEEPING or (name == "name" and is_known):
                continue
            if name == "name" and self.name == _VARIABLE:
                yield f"name={bound.get(self.id or 0, each)}"
            elif isinstance(each, Mapping) and "type" in each:
                yield f"{name}={_type_name(each)}"
            elif isinstance(each, Mapping) and "object" in each and name != _MODE:
                yield f"{name}={object_name(each)}"
            elif isinstance(each, str | bool | int):
                yield f"{name}={each}"

    def described(self, rows_text: Callable[[Any], str]) -> PlanExpression:
        """The expression, of a subquery with what ``rows_text`` says of its plan's rows."""
        if self.name != _SUBQUERY or isinstance(self.fields["plan"], str):
            return self
        rows = rows_text(self.fields["plan"])
        return PlanExpression(_SUBQUERY, (), {"rows": rows})

    def every(self) -> Iterator[PlanExpression]:
        """The expression itself, and all within it."""
        yield self
        for each in self.children:
            yield from each.every()

    def renumbered(self, numbers: Mapping[int, int]) -> PlanExpression:
        """The expression with other ``numbers`` of columns and expressions."""
        children = tuple(each.renumbered(numbers) for each in self.children)
        return PlanExpression(self.name, children, with_numbers(self.fields, numbers))


_NUMBERED = ("exprId", "resultId")


def numbers_in(found: Any) -> Iterator[int]:
    """The numbers of columns and expressions in JSON of a plan."""
    if isinstance(found, Mapping):
        for name, each in found.items():
            if name in _NUMBERED and isinstance(each, Mapping):
                yield int(each["id"])
            else:
                yield from numbers_in(each)
    elif isinstance(found, list):
        for each in found:
            yield from numbers_in(each)


def with_numbers(found: Any, numbers: Mapping[int, int]) -> Any:
    """The same JSON with other ``numbers``, by those that it has."""
    if isinstance(found, Mapping):
        return {
            name: {**each, "id": numbers.get(int(each["id"]), each["id"])}
            if name in _NUMBERED and isinstance(each, Mapping)
            else with_numbers(each, numbers)
            for name, each in found.items()
        }
    return [with_numbers(each, numbers) for each in found] if isinstance(found, list) else found


def parse_tree(nodes: Sequence[Mapping[str, Any]]) -> PlanExpression:
    """The expression of a list of nodes, each before those within it."""
    found, _ = _parsed(nodes, 0)
    return found


def _parsed(nodes: Sequence[Mapping[str, Any]], at: int) -> tuple[PlanExpression, int]:
    node, children, following = of_any_release(nodes[at]), [], at + 1
    for _ in range(node["num-children"]):
        child, following = _parsed(nodes, following)
        children.append(child)
    return PlanExpression(short_name(node), tuple(children), node), following


def of_any_release(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a node as every release of Spark has them, from 4.1 on.

    Since 4.2 rows travel to a Python function in Arrow batches unless the code says otherwise, and
    `collect_list` may keep nulls. Neither is another meaning of the same code.
    """
    name = short_name(node)
    if name == _PYTHON and node.get("evalType") == _ARROW_BATCHED:
        return {**node, "evalType": _BATCHED}
    if name in ("CollectList", "CollectSet") and node.get("ignoreNulls") is True:
        return {key: value for key, value in node.items() if key != "ignoreNulls"}
    return node


def short_name(node: Mapping[str, Any]) -> str:
    """The name of a node's class, which releases of Spark have in several packages."""
    return str(node["class"]).rpartition(".")[2].removesuffix("$")


def object_name(found: Mapping[str, Any]) -> str:
    """The name of a Scala object, as JSON has it."""
    return str(found["object"]).rstrip("$").rpartition(".")[2].rpartition("$")[2]


def _type_name(spark: Any) -> str:
    """A type as Spark writes it, but for what may be null, which follows from what it is of."""
    match spark:
        case {"type": "struct", "fields": list(fields)}:
            pairs = (f"{each['name']}:{_type_name(each['type'])}" for each in fields)
            return f"struct<{','.join(pairs)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{_type_name(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_type_name(key)},{_type_name(value)}>"
    return spark if isinstance(spark, str) else json.dumps(spark, sort_keys=True)


_MEMBERS: dict[str, frozenset[str]] = {}


def members_of(node: Any) -> frozenset[str]:
    """The names of the methods and fields of an object of Java's.

    Python alone sees one under every name. They are asked for once a class: each question is a call
    of the JVM, and a plan has hundreds of nodes.
    """
    name = str(node.getClass().getName())
    if name not in _MEMBERS:
        _MEMBERS[name] = frozenset(dir(node))
    return _MEMBERS[name]


_HIDDEN = re.compile(r"code=unknown|[=,] ?\(not shown\)")


def is_hidden(text: str) -> bool:
    """Whether the text of an expression has a part that nothing shows, but for its name."""
    return _HIDDEN.search(text) is not None


# What JSON leaves out.


_SUBQUERY = "ScalarSubquery"
_HASH = re.compile(r"@[0-9a-f]{1,8}\b|\$\$Lambda")
"""What Java writes of an object that has no text of its own: another one in each run."""
_BETWEEN = "\0"
_FEW = 12
"""So many values of a set are shown as they are."""


@dataclass(frozen=True)
class Reading:
    """How the expressions of a plan are read, from a session with these ``settings``.

    ``walk`` makes a node of the plan of a subquery.
    """

    settings: Mapping[str, str]
    walk: Callable[[Any, Reading], Any]


def expression_of(java: Any, reading: Reading) -> PlanExpression:
    """One of Spark's own expressions."""
    return parse_tree(tree_of(java, reading))


def tree_of(java: Any, reading: Reading) -> list[dict[str, Any]]:
    """The nodes of one of Spark's own expressions, each before those within it."""
    nodes: list[dict[str, Any]] = json.loads(java.toJSON())
    if has_gaps(nodes):
        complete(nodes, java, reading)
    return nodes


def has_gaps(found: Any) -> bool:
    """Whether the JSON of expressions leaves anything out that Spark's own have."""
    if isinstance(found, list):
        return any(map(has_gaps, found))
    return isinstance(found, Mapping) and "class" in found and _is_incomplete(found)


def complete(found: Any, java: Any, reading: Reading) -> None:
    """Add to the nodes of expressions what their JSON leaves out.

    ``found`` is an expression as a list of nodes, or a list of such; ``java`` is what Spark has
    there, also as an option, None where that is not at hand.
    """
    own_members = frozenset() if java is None else members_of(java)
    if "isDefined" in own_members:
        complete(found, java.get() if java.isDefined() else None, reading)
        return
    if found and isinstance(found[0], list):
        for each, own in zip_longest(found, seq(java) if "apply" in own_members else ()):
            complete(each or (), own, reading)
        return
    for node, own in zip_longest(found, _preorder(java) if "children" in own_members else ()):
        if node is not None and _is_incomplete(node):
            is_own = own is not None and str(own.getClass().getName()) == node["class"]
            _fill(node, own if is_own else None, reading)


def _is_incomplete(node: Mapping[str, Any]) -> bool:
    return bool(_gaps(node)) or depends_on_settings(node, short_name(node))


def _gaps(node: Mapping[str, Any]) -> list[str]:
    """The fields of a node that JSON leaves out. A field that is None in Scala is not there."""
    name = short_name(node)
    if name == LITERAL:
        value = node.get("value")
        is_left_out = value is not None and (node.get("dataType") == "binary" or _has_hash(value))
        return ["value"] if is_left_out else []
    if name == _SUBQUERY:
        return ["plan"]
    if name in (_VARIABLE, _PYTHON):
        return []
    return [key for key, each in node.items() if each is None and key not in BOOKKEEPING]


def _has_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.search(value) is not None


def _preorder(java: Any) -> Iterator[Any]:
    yield java
    for each in seq(java.children()):
        yield from _preorder(each)


def seq(java: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    return (java.apply(at) for at in range(java.size()))


def _fill(node: dict[str, Any], java: Any, reading: Reading) -> None:
    """Give a node the fields that JSON leaves out."""
    for name in _gaps(node):
        if java is None or name not in members_of(java):
            node[name] = NOT_SHOWN
        elif name == "plan":
            node[name] = reading.walk(java.plan(), reading)
        else:
            found = getattr(java, name)()
            is_object = short_name(node) == LITERAL and not isinstance(found, bytes)
            node[name] = str(java.sql()) if is_object else _shown(found)
        if _has_hash(node[name]):
            node[name] = NOT_SHOWN
    if depends_on_settings(node, short_name(node)):
        node.update(fields_of_settings(node, short_name(node), java, reading.settings))


def _shown(found: Any) -> Any:
    """A value of Scala's that JSON has no form for, as text; None where there is nothing in it."""
    if found is None or isinstance(found, str | bool | int | float):
        return found
    if isinstance(found, bytes | bytearray):
        return bytes(found).hex()
    members = members_of(found)
    if "mkString" not in members:
        return str(found.toString())
    texts = str(found.mkString(_BETWEEN)).split(_BETWEEN)
    if any(map(_has_hash, texts)):
        texts = [str(_shown(each)) for each in seq(found.toSeq())]
    if "indexOf" not in members:
        # A set or a map has no order.
        texts.sort()
    if found.isEmpty() or len(texts) <= _FEW:
        return ", ".join(texts) or None
    digest = sha256(_BETWEEN.join(texts).encode()).hexdigest()[:8]
    return f"{len(texts)} values, {digest}"


# Fields of parsed text.


_FIELD, _BY_PLACE = "GetStructField", "CsvToStructs"
_PARSERS = ("JsonToStructs", "XmlToStructs", _BY_PLACE)
_CORRUPT = "columnNameOfCorruptRecord"


def fields_taken(expression: PlanExpression) -> PlanExpression:
    """An expression whose text is parsed into those fields alone that are taken out of it.

    Spark itself does so in some places. A field is what the text has under its name, or at its
    place in a line, whichever other fields the code declares.
    """
    children = tuple(map(fields_taken, expression.children))
    made = replace(expression, children=children)
    struct = _struct_of(children[0]) if expression.name == _FIELD else None
    if struct is None:
        return made
    place = int(expression.fields["ordinal"])
    only = struct["fields"][place]
    taken = _with_struct(children[0], {"type": "struct", "fields": [only]})
    fields = {**expression.fields, "name": only["name"]}
    fields["ordinal"] = place if taken.name == _BY_PLACE else 0
    return PlanExpression(_FIELD, (taken,), fields)


def _struct_of(expression: PlanExpression) -> Mapping[str, Any] | None:
    """The struct that parsed text has there; None of anything else."""
    found: Any = None
    if expression.name in _PARSERS and _CORRUPT not in str(expression.fields.get("options")):
        found = expression.fields.get("schema")
    elif expression.name == _FIELD:
        struct = _struct_of(expression.children[0])
        found = None if struct is None else struct["fields"][0]["type"]
    return found if isinstance(found, Mapping) and found.get("type") == "struct" else None


def _with_struct(expression: PlanExpression, struct: Mapping[str, Any]) -> PlanExpression:
    """The same parsed text with another struct there."""
    if expression.name in _PARSERS:
        fields = {**expression.fields, "schema": struct}
        # What Spark reads of a line follows from the field that is taken.
        fields.pop("requiredSchema", None)
        return replace(expression, fields=for_schema(fields))
    only = {"name": expression.fields["name"], "type": struct}
    inner = _with_struct(expression.children[0], {"type": "struct", "fields": [only]})
    return replace(expression, children=(inner,))
