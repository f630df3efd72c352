"""Expressions in Spark's plans, and whether two Python functions compute the same.

Expressions of a plan of Spark's, as the JSON of Catalyst's own trees has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
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
"""Several expressions, of each of which a row is made, as where windows overlap."""
UNITED = "United"
"""The expressions of a union's parts, each of which gives some of the rows."""
UNKNOWN = "unknown"
"""The code of a Python function of which nothing tells what it computes."""
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
    node, children, following = nodes[at], [], at + 1
    for _ in range(node["num-children"]):
        child, following = _parsed(nodes, following)
        children.append(child)
    return Expression(short_name(node), tuple(children), node), following


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


# Whether two Python functions compute the same, as far as their code tells.
#
# A plan has the name of a function of the user's, and two functions of one name may compute other
# things. Their code is compared: instructions, constants, defaults, and what they take from around
# them. The names of modules do not count, as the old code and the new one are of two.


_MOST = 10_000
"""So many parts are looked at; of a function that is made of more, as of a library, it is asked."""
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)


class _UnknownError(Exception):
    """Something of which nothing tells what it computes."""


def digest_of_command(command: bytes) -> str:
    """`digest_of` of a function as Spark has it; empty where that cannot be read.

    Only for what this process has given to Spark itself: reading it runs code.
    """
    from pyspark.serializers import CloudPickleSerializer

    try:
        found = CloudPickleSerializer().loads(command)  # type: ignore[no-untyped-call]
    except Exception:  # what reading a user's objects raises is theirs to choose
        return ""
    return digest_of(found[0] if isinstance(found, tuple) and found else found)


def digest_of_udf(expression: Any) -> str:
    """`digest_of` the function of a ``PythonUDF`` of Catalyst's."""
    from pyspark import SparkContext

    byte = SparkContext._jvm.scala.reflect.ClassTag.Byte()  # type: ignore[union-attr]
    return digest_of_command(bytes(expression.func().command().toArray(byte)))


def digest_of(function: Any) -> str:
    """The same for functions with the same code; empty where the code does not say it all."""
    try:
        parts = list(islice(_parts(function, ()), _MOST + 1))
    except (_UnknownError, RecursionError):
        return ""
    if len(parts) > _MOST:
        return ""
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _parts(value: Any, within: tuple[Any, ...]) -> Iterator[str]:
    """What a value is made of, as texts. Raises `_UnknownError`."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif any(value is each for each in within):
        yield f"again {len(within)}"
    elif isinstance(value, FunctionType):
        yield from _function(value, (*within, value))
    elif isinstance(value, CodeType):
        yield from _code(value, (*within, value))
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__}"
    elif isinstance(value, type | BuiltinFunctionType) and value.__module__ in _BUILT_IN:
        yield f"built in {value.__qualname__}"
    else:
        yield from _several(value, (*within, value))


def _several(value: Any, within: tuple[Any, ...]) -> Iterator[str]:
    """What several values together are made of."""
    if isinstance(value, set | frozenset):
        yield f"set {sorted(json.dumps(list(_parts(each, within))) for each in value)}"
        return
    if isinstance(value, partial):
        inner: list[Any] = [value.func, value.args, value.keywords]
    elif type(value) is dict:
        inner = [each for pair in value.items() for each in pair]
    elif type(value) in (list, tuple):
        inner = list(value)
    else:
        raise _UnknownError
    yield f"{type(value).__name__} {len(inner)}"
    for each in inner:
        yield from _parts(each, within)


_BUILT_IN = frozenset(
    {*("builtins", "math", "datetime", "decimal", "_decimal", "json", "re", "time", "uuid")}
)
"""Modules of Python's own, of which the names say what is computed."""


def _function(function: FunctionType, within: tuple[Any, ...]) -> Iterator[str]:
    module = str(function.__module__)
    if module in _BUILT_IN or module.startswith("statemigrate."):
        yield f"built in {function.__qualname__}"
        return
    yield "function"
    yield from _code(function.__code__, within)
    yield from _parts((function.__defaults__, function.__kwdefaults__), within)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, within)
        except ValueError as error:
            raise _UnknownError from error
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield f"global {name}"
            yield from _parts(function.__globals__[name], within)


def _code(code: CodeType, within: tuple[Any, ...]) -> Iterator[str]:
    yield f"code {code.co_code.hex()} {code.co_names} {code.co_argcount} {code.co_kwonlyargcount}"
    yield from _parts(code.co_consts, within)


def _names(code: CodeType) -> set[str]:
    """All names that code and the functions within it take from around them, and attributes."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*map(_names, inner))
