"""A type apart from whether it also holds None."""

from __future__ import annotations

from statemigrate.formats.schema.nodes import NULL, Node, Union


def holds_none(node: Node) -> bool:
    """Say whether None is a value of the type."""
    return node == NULL or (isinstance(node, Union) and NULL in node.branches)


def without_none(node: Node) -> Node:
    """Return what the type holds beside None: one type, or a union of several."""
    if not isinstance(node, Union):
        return node
    others = tuple(branch for branch in node.branches if branch != NULL)
    if len(others) > 1:
        return Union(others)
    return others[0] if others else NULL


def beside_none(node: Node) -> Node:
    """Return the one type that a nullable type holds beside None; any other type as it is."""
    nullable = isinstance(node, Union) and NULL in node.branches and len(node.branches) == 2
    return without_none(node) if nullable else node


def with_none(node: Node) -> Node:
    """Return the type that also holds None."""
    return node if holds_none(node) else Union((NULL, node))
