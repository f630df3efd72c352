"""How large a schema may be, once every named type stands where it is used.

A schema comes from a checkpoint as well as from a script. Each of 18 records that uses the one
before it twice doubles the tree, so that 1.9 kB of JSON are a quarter of a million nodes.
"""

from __future__ import annotations

from statemigrate.errors import FormatError
from statemigrate.formats.schema.nodes import Array, Map, Node, Record, Union

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
