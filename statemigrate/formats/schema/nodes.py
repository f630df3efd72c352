"""A schema as a small tree, the one form that every part of this package works on.

It is Avro's, with what only Spark has: intervals, maps whose keys are no strings, and fields of
any name. Named types are expanded where they are used, so a walk never looks a name up. Of the
logical types only those that Spark reads are kept; Avro asks readers to ignore the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from statemigrate.errors import FormatError

INTEGER_RANGES = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Decimals:
    """A decimal's digits: ``precision`` in all, ``scale`` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of Avro's primitive types, with a logical type that Spark knows or none.

    ``narrow`` is a Spark type that holds fewer values than the Avro type it is written as:
    ``tinyint``, ``smallint``, ``char(n)``, ``varchar(n)``, ``time(p)``; or that means something
    else by them: an interval, or a string with a collation.
    """

    type: str
    logical: str | None = None
    decimals: Decimals | None = None
    narrow: str | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of one size, or a decimal in them."""

    name: str
    size: int
    decimals: Decimals | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """A string out of a list; ``default`` stands in for a symbol the reader does not know."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A list of ``items``."""

    items: Node


@dataclass(frozen=True, slots=True)
class Map:
    """A dictionary to ``values``; Avro's has strings as keys.

    Keys are hashable: in place of a record or an array stands a tuple of what it holds.
    """

    values: Node
    keys: Node = Primitive("string")

    @property
    def has_text_keys(self) -> bool:
        """Whether Avro has such a map."""
        return isinstance(self.keys, Primitive) and self.keys.type == "string"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types; the order is part of what is written."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record. ``default`` is Avro's JSON form, and counts if ``has_default``."""

    name: str
    type: Node
    has_default: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields, in the order they are written."""

    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()


INTERVALS = ("day-time-interval", "year-month-interval")
"""Logical types that Avro has not: microseconds as a long, months as an int."""
Node = Primitive | Fixed | Enum | Array | Map | Union | Record
NULL = Primitive("null")


def branch_name(node: Node) -> str:
    """Return the name Avro tells a union's branches apart by."""
    match node:
        case Primitive():
            return node.type
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"
    return node.name


def type_name(node: Node) -> str:  # noqa: PLR0911  # one return for each kind of node
    """Return a short text for people: what a table or an error message calls this type."""
    match node:
        case Primitive(narrow=str(narrow)):
            return narrow
        case Primitive(decimals=Decimals() as decimals) | Fixed(decimals=Decimals() as decimals):
            return str(decimals)
        case Primitive():
            return node.logical or node.type
        case Fixed():
            return f"fixed({node.size})"
        case Enum():
            return f"enum({', '.join(node.symbols)})"
        case Array():
            return f"array<{type_name(node.items)}>"
        case Map(has_text_keys=False):
            return f"map<{type_name(node.keys)}, {type_name(node.values)}>"
        case Map():
            return f"map<{type_name(node.values)}>"
        case Union():
            return " | ".join(type_name(branch) for branch in node.branches)
        case Record():
            return f"record<{', '.join(field.name for field in node.fields)}>"


def avro_json(node: Node) -> Any:
    """Return the Avro schema of ``node`` as JSON, laid out as Spark writes it.

    Every named type is written where it stands, so names must differ; defaults are left out.
    """
    match node:
        case Primitive():
            return _primitive_json(node)
        case Array():
            return {"type": "array", "items": avro_json(node.items)}
        case Map():
            return {"type": "map", "values": avro_json(node.values)}
        case Union():
            return [avro_json(branch) for branch in node.branches]
    return _named_json(node)


def _primitive_json(node: Primitive) -> Any:
    if node.logical in INTERVALS:
        return {"type": node.type, "spark.sql.catalyst.type": node.narrow}
    if node.logical is None:
        return node.type
    document: dict[str, Any] = {"type": node.type, "logicalType": node.logical}
    if node.decimals:
        document |= {"precision": node.decimals.precision, "scale": node.decimals.scale}
    if node.narrow:
        document["spark.sql.catalyst.type"] = node.narrow
    return document


def _named_json(node: Fixed | Enum | Record) -> dict[str, Any]:
    namespace, _, name = node.name.rpartition(".")
    place = {"name": name, "namespace": namespace} if namespace else {"name": name}
    match node:
        case Enum():
            return {"type": "enum", **place, "symbols": list(node.symbols)}
        case Record():
            fields = [{"name": f.name, "type": avro_json(f.type)} for f in node.fields]
            return {"type": "record", **place, "fields": fields}
    document = {"type": "fixed", **place, "size": node.size}
    if node.decimals:
        digits = {"precision": node.decimals.precision, "scale": node.decimals.scale}
        document |= {"logicalType": "decimal", **digits}
    return document


def numbered(record: Record) -> Record:
    """Return the same layout with every named type under a name of its own, for ``avro_json``."""
    counter = count()

    def rename(node: Node) -> Node:
        match node:
            case Primitive():
                return node
            case Array():
                return Array(rename(node.items))
            case Map():
                return Map(rename(node.values), node.keys)
            case Union():
                return Union(tuple(rename(branch) for branch in node.branches))
            case Record():
                fields = tuple(replace(field, type=rename(field.type)) for field in node.fields)
                return replace(node, name=f"t{next(counter)}", fields=fields)
        return replace(node, name=f"t{next(counter)}")

    renamed = rename(record)
    assert isinstance(renamed, Record)  # noqa: S101  # rename keeps the kind of each node
    return renamed


# A type apart from whether it also holds None.


def accepts_none(node: Node) -> bool:
    """Say whether None is a value of the type."""
    return node == NULL or (isinstance(node, Union) and NULL in node.branches)


def without_none(node: Node) -> Node:
    """Return the type without None: one type, or a union of several."""
    if not isinstance(node, Union):
        return node
    others = tuple(branch for branch in node.branches if branch != NULL)
    if len(others) > 1:
        return Union(others)
    return others[0] if others else NULL


def non_null_type(node: Node) -> Node:
    """Return the one type of a nullable type other than None; any other type as it is."""
    nullable = isinstance(node, Union) and NULL in node.branches and len(node.branches) == 2
    return without_none(node) if nullable else node


def with_none(node: Node) -> Node:
    """Return the type that also holds None."""
    return node if accepts_none(node) else Union((NULL, node))


# How large a schema may be, once every named type stands where it is used.
#
# A schema comes from a checkpoint as well as from a script. Each of 18 records that uses the one
# before it twice doubles the tree, so that 1.9 kB of JSON are a quarter of a million nodes.


MOST_NODES = 20_000
"""Types within types, counted where they are used; a nullable field has three."""
DEEPEST = 64
"""Types within one another."""


def check_bounds(record: Record) -> None:
    """Raise `FormatError` for a schema whose tree is too large or too deep to be walked."""
    nodes, depth = _measured(record, {})
    if nodes > MOST_NODES or depth > DEEPEST:
        raise _too_large(f"{nodes:,} types, {depth} levels")


def too_deep() -> FormatError:
    """The error for a schema that is too deep even to be measured."""
    return _too_large("more levels than can be followed")


def inner(node: Node) -> tuple[Node, ...]:
    """The types directly within a type."""
    match node:
        case Array():
            return (node.items,)
        case Map(has_text_keys=False):
            return (node.keys, node.values)
        case Map():
            return node.keys, node.values
        case Union():
            return node.branches
        case Record():
            return tuple(field.type for field in node.fields)
    return ()


def _measured(node: Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    # A type that is used twice is one object, and measured once.
    if id(node) not in known:
        within = [_measured(each, known) for each in inner(node)]
        nodes = 1 + sum(number for number, _ in within)
        known[id(node)] = nodes, 1 + max((depth for _, depth in within), default=0)
    return known[id(node)]


def _too_large(found: str) -> FormatError:
    return FormatError(
        "SM-FORMAT-007",
        "The schema is too large.",
        expected=f"{MOST_NODES:,} types and {DEEPEST} levels at the most, each named type counted "
        "wherever it is used",
        found=found,
        next_action="use fewer types within types; if this schema is not yours, find out who "
        "wrote the file it is in",
    )
