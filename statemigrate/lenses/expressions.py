"""What a new value is made of: expressions over an old one, and structs that are being changed.

A lens changes a `Shape`, the fields that a struct has at that point. Each of them has a type and an
expression over the value that came in. However many lenses there are, what they end in is one
expression, which `python_code` and `columns` compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from statemigrate.formats.schema import (
    Array,
    Field,
    Map,
    Node,
    Record,
    accepts_none,
    with_none,
    without_none,
)


class Operation(Protocol):
    """What is done with one value that is not None."""

    @property
    def type(self) -> Node:
        """The type of what it makes, with None if it makes None of something."""

    @property
    def total(self) -> bool:
        """Whether it takes every value."""

    def __call__(self, value: Any) -> Any:
        """The new value. Raises ValueError for one that it does not take."""

    def source(self, name: str, constant: Callable[[Any], str]) -> str | None:
        """The same as a Python expression over a variable, if there is a shorter one than a call.

        ``constant`` gives the name of an object in the expression.
        """

    def column(self, array: Any) -> Any:
        """The same on an Arrow array, whose nulls stay; None where there is no such form."""


@dataclass(frozen=True, slots=True)
class Input:
    """The value that comes in: the whole one, or an element within ``each`` and ``entries``."""


@dataclass(frozen=True, slots=True)
class Get:
    """A field of a struct; None if the struct is."""

    base: Expression
    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value always, of a type."""

    value: Any
    type: Node

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class Build:
    """A struct of fields; None if all of ``null_of`` are, and there are any."""

    fields: tuple[tuple[str, Expression], ...]
    null_of: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Unless:
    """An expression; None if all of ``null_of`` are."""

    null_of: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on what is not None; ``optional`` says whether it may be."""

    operation: Operation
    value: Expression
    optional: bool


@dataclass(frozen=True, slots=True)
class Filled:
    """An expression, and a constant in place of None."""

    value: Expression
    filling: Constant


@dataclass(frozen=True, slots=True)
class TextPart:
    """One of ``count`` parts of a text between separators, the last with all that is left."""

    value: Expression
    separator: str
    count: int
    index: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Texts with a separator between them, without those that are None; None if all are."""

    values: tuple[Expression, ...]
    separator: str


@dataclass(frozen=True, slots=True)
class Elements:
    """A list, or with ``of_map`` a map, with ``body`` in place of each element."""

    value: Expression
    body: Expression
    type: Node
    of_map: bool


Expression = Input | Get | Constant | Build | Unless | Apply | Filled | TextPart | Joined | Elements


@dataclass(frozen=True, slots=True)
class Column:
    """A field as it is at one point: what it is made of, and its type within its struct.

    With ``in_optional`` its struct may be None, and the field is None then.
    """

    value: Expression
    type: Node
    in_optional: bool = False

    @property
    def optional(self) -> bool:
        """Whether it may be None."""
        return self.in_optional or accepts_none(self.type)

    def taken_out(self) -> Column:
        """The field outside of its struct."""
        return Column(self.value, with_none(self.type)) if self.in_optional else self

    def becomes(self, value: Expression, type: Node) -> Column:  # as the attribute
        """Another value in the same struct."""
        return Column(value, type, self.in_optional)


@dataclass(frozen=True)
class Shape:
    """The fields of a struct that is being changed, in their order.

    The struct is None if all of ``null_of`` are, and there are any. ``name`` is that of its record.
    """

    columns: Mapping[str, Column]
    null_of: tuple[Expression, ...] = ()
    name: str = "topLevelRecord"

    @classmethod
    def of(cls, column: Column) -> Shape:
        """The struct that a field is."""
        record = without_none(column.type)
        assert isinstance(record, Record), "asked before"  # noqa: S101
        value = column.value
        if isinstance(value, Build):
            made = dict(value.fields)
            values = {name: _guarded(each, value.null_of) for name, each in made.items()}
            null_of = value.null_of
        else:
            values = {each.name: Get(value, each.name, column.optional) for each in record.fields}
            null_of = (value,) if column.optional else ()
        columns = {
            each.name: Column(values[each.name], each.type, bool(null_of)) for each in record.fields
        }
        return cls(columns, null_of, record.name)

    def closed(self) -> Column:
        """The struct as a field."""
        value = Build(
            tuple((name, each.value) for name, each in self.columns.items()), self.null_of
        )
        return Column(value, with_none(self.record) if self.null_of else self.record)

    def without(self, *names: str) -> Shape:
        """The struct without some fields."""
        rest = {name: each for name, each in self.columns.items() if name not in names}
        return replace(self, columns=rest)

    def having(self, name: str, column: Column) -> Shape:
        """The struct with a field in its place, or as its last one."""
        return replace(self, columns={**self.columns, name: column})

    def renamed(self, old: str, new: str) -> Shape:
        """The struct with another name for a field, in its place."""
        return self.replaced(old, {new: self.columns[old]})

    def replaced(self, old: str, made: Mapping[str, Column]) -> Shape:
        """The struct with other fields in the place of one."""
        columns: dict[str, Column] = {}
        for name, each in self.columns.items():
            columns |= made if name == old else {name: each}
        return replace(self, columns=columns)

    @property
    def record(self) -> Record:
        """Its type."""
        fields = tuple(Field(name, each.type) for name, each in self.columns.items())
        return Record(self.name, fields)


def _guarded(value: Expression, null_of: tuple[Expression, ...]) -> Expression:
    """A field of a struct as it is read: None where the struct is."""
    if not null_of or value in null_of or (len(null_of) == 1 and _within(value, null_of[0])):
        return value
    return Unless(null_of, value)


def _within(value: Expression, base: Expression) -> bool:
    while isinstance(value, Get | Apply) and (isinstance(value, Get) or value.optional):
        value = value.base if isinstance(value, Get) else value.value
        if value == base:
            return True
    return False


def input_shape(record: Record, *, optional: bool = False) -> Shape:
    """The struct that comes in, unchanged."""
    return Shape.of(Column(Input(), with_none(record) if optional else record))


def is_none_with(value: Expression, null_of: tuple[Expression, ...]) -> bool:
    """Whether an expression is None wherever all of others are."""
    return bool(null_of) and _guarded(value, null_of) == value


def element_of(column: Column) -> Column:
    """What an element of a list or of a map's values is at this point."""
    node = without_none(column.type)
    assert isinstance(node, Array | Map), "asked before"  # noqa: S101
    kind = node.items if isinstance(node, Array) else node.values
    return Column(column.value.body if isinstance(column.value, Elements) else Input(), kind)


def with_elements(column: Column, element: Column) -> Column:
    """A list or a map with other elements, made of what `element_of` gave."""
    node = without_none(column.type)
    made: Node = Map(element.type, node.keys) if isinstance(node, Map) else Array(element.type)
    kind = with_none(made) if accepts_none(column.type) else made
    # Lenses on the elements of one list are one pass over it.
    source = column.value.value if isinstance(column.value, Elements) else column.value
    return column.becomes(Elements(source, element.value, kind, isinstance(node, Map)), kind)


def ordered(column: Column, node: Node) -> Column:
    """A field with the fields of structs in the order of ``node``, whose names are the same."""
    have, wanted = without_none(column.type), without_none(node)
    if _orders(have) == _orders(wanted):
        return column
    if isinstance(have, Array | Map) and isinstance(wanted, Array | Map):
        inner = wanted.items if isinstance(wanted, Array) else wanted.values
        return with_elements(column, ordered(element_of(column), inner))
    if not isinstance(have, Record) or not isinstance(wanted, Record):
        return column
    shape = Shape.of(column)
    columns = {
        field.name: ordered(shape.columns[field.name], field.type) for field in wanted.fields
    }
    closed = replace(shape, columns=columns).closed()
    return column.becomes(closed.value, closed.type)


def _orders(node: Node) -> object:
    """The names of fields in their order, at any depth."""
    node = without_none(node)
    match node:
        case Record():
            return tuple((field.name, _orders(field.type)) for field in node.fields)
        case Array():
            return _orders(node.items)
        case Map():
            return _orders(node.values)
    return None
