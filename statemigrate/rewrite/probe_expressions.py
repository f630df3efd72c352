"""Expressions in Spark's plans, as the JSON of Catalyst's own trees has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemigrate.native.control_rows import MARKER

_BOOKKEEPING = frozenset(
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
"""What is another one in each run, or says nothing of what comes out."""
ALIAS, ATTRIBUTE, LITERAL = "Alias", "AttributeReference", "Literal"
ONE_OF = "OneOf"
"""Several expressions that make a row each, as where windows overlap."""
UNITED = "United"
"""The expressions of a union's parts. Each gives some of the rows."""
UNKNOWN = "unknown"
"""The code of a Python function that nothing describes."""
_BATCHED, _ARROW_BATCHED = 100, 101
"""PySpark's numbers of a plain Python function, by the way in which rows travel to it."""
Union = Mapping[int, tuple["Expression", ...]]
"""Of each column of a union, by its number, the columns of all parts, in their order."""


@dataclass(frozen=True)
class Expression:
    """An expression by Spark's ``name`` of its class, with its ``fields`` as JSON has them."""

    name: str
    children: tuple[Expression, ...] = ()
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
        if self.name == ALIAS:
            return self.children[0].text
        if self.name == ATTRIBUTE:
            return str(self.fields["name"])
        if self.name == LITERAL:
            return f"{self.value!r}: {self.fields.get('dataType')}"
        own = [f"{name}={each}" for name, each in sorted(self.fields.items()) if _is_meant(each)]
        # A stream gets another seed in each batch, whatever the code gives.
        children = () if "hideSeed" in self.fields else self.children
        # A function of the user's is its code, whatever it is called.
        is_known = self.fields.get("code") not in (None, UNKNOWN)
        unmeant = _BOOKKEEPING | {"name"} if is_known else _BOOKKEEPING
        own = [each for each in own if each.partition("=")[0] not in unmeant]
        return f"{self.name}({', '.join([*(each.text for each in children), *own])})"

    def every(self) -> Iterator[Expression]:
        """The expression itself, and all within it."""
        yield self
        for each in self.children:
            yield from each.every()


def parse_tree(nodes: Sequence[Mapping[str, Any]]) -> Expression:
    """The expression of a list of nodes, each before those within it."""
    found, _ = _parsed(nodes, 0)
    return found


def _parsed(nodes: Sequence[Mapping[str, Any]], at: int) -> tuple[Expression, int]:
    node, children, following = of_any_release(nodes[at]), [], at + 1
    for _ in range(node["num-children"]):
        child, following = _parsed(nodes, following)
        children.append(child)
    return Expression(short_name(node), tuple(children), node), following


def of_any_release(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a node as every release of Spark has them, from 4.1 on.

    Since 4.2 rows travel to a Python function in Arrow batches unless the code says otherwise, and
    `collect_list` may keep nulls. Neither is another meaning of the same code.
    """
    name = short_name(node)
    if name == "PythonUDF" and node.get("evalType") == _ARROW_BATCHED:
        return {**node, "evalType": _BATCHED}
    if name in ("CollectList", "CollectSet") and node.get("ignoreNulls") is True:
        return {key: value for key, value in node.items() if key != "ignoreNulls"}
    return node


def short_name(node: Mapping[str, Any]) -> str:
    """The name of a node's class, which releases of Spark have in several packages."""
    return str(node["class"]).rpartition(".")[2].removesuffix("$")


def _is_meant(value: object) -> bool:
    """Whether a field says what is computed, and not only where a child stands."""
    return isinstance(value, str | bool) or (isinstance(value, int) and not isinstance(value, bool))


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


def is_control(node: Any) -> bool:
    """Whether a node of a plan only brings rows of a backfill source."""
    leaves = node.collectLeaves()
    found = [leaves.apply(at) for at in range(leaves.size())]
    return bool(found) and all(each.schema().getFieldIndex(MARKER).isDefined() for each in found)
