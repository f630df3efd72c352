"""Fields by path, as in ``items[].price`` and ``prices{}.cents``, also in values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from statemigrate.formats.schema.nodes import Array, Map, Node, Record
from statemigrate.formats.schema.nullability import without_none

_EACH = ("[]", "{}")


@dataclass(frozen=True)
class Place:
    """A field: ``parts`` are the names on the way, ``[]`` and ``{}`` for all items of a container.

    ``is_leaf`` says that no field lies below it.
    """

    path: str
    parts: tuple[str, ...]
    type: Node
    is_leaf: bool


def places(record: Record) -> tuple[Place, ...]:
    """Return every field of a record, and those of records within it, outer ones first."""
    return tuple(_places(record, ()))


def _places(record: Record, at: tuple[str, ...]) -> Iterator[Place]:
    for field in record.fields:
        parts = (*at, field.name)
        inner, steps = _record_in(field.type)
        yield Place(path_of(parts), parts, field.type, is_leaf=inner is None)
        if inner is not None:
            yield from _places(inner, (*parts, *steps))


def _record_in(node: Node) -> tuple[Record | None, tuple[str, ...]]:
    """Return the record that a type is made of, and the containers around it."""
    match without_none(node):
        case Record() as record:
            return (record, ()) if record.fields else (None, ())
        case Array(items=items):
            inner, steps = _record_in(items)
            return inner, ("[]", *steps)
        case Map(values=values):
            inner, steps = _record_in(values)
            return inner, ("{}", *steps)
    return None, ()


def path_of(parts: tuple[str, ...]) -> str:
    """Return the path that ``parts`` are of."""
    path = ""
    for part in parts:
        path += part if part in _EACH or not path else f".{part}"
    return path


def is_within(path: str, outer: str) -> bool:
    """Whether a path is ``outer`` or lies below it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}[", f"{outer}{{"))


def values_at(value: Any, parts: tuple[str, ...]) -> Iterator[Any]:
    """Yield what a value has at a place: none or several values where containers are on the way."""
    if not parts:
        yield value
        return
    first, rest = parts[0], parts[1:]
    if first in _EACH:
        for each in _items(value):
            yield from values_at(each, rest)
    elif isinstance(value, dict) and first in value:
        yield from values_at(value[first], rest)


def replaced(value: Any, parts: tuple[str, ...], other: Any) -> Any:
    """Return a copy of a value that has ``other`` wherever it has something at a place."""
    if not parts:
        return other
    first, rest = parts[0], parts[1:]
    if first in _EACH and isinstance(value, list):
        return [replaced(each, rest, other) for each in value]
    if first in _EACH and isinstance(value, dict):
        return {name: replaced(each, rest, other) for name, each in value.items()}
    if isinstance(value, dict) and first in value:
        return {**value, first: replaced(value[first], rest, other)}
    return value


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
