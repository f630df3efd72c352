"""What every lens is: a change of a struct's fields, with its way back.

Here, too, are the paths to fields, and the types that lenses name, from DDL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from statemigrate.errors import FormatError, ScriptError
from statemigrate.formats import Avro, Format, Struct, struct_from_json
from statemigrate.formats.schema import (
    Array,
    Field,
    Map,
    Node,
    Record,
    Union,
    accepts_none,
    avro_json,
    inner,
    layout,
    numbered,
    type_name,
    with_none,
    without_none,
)
from statemigrate.formats.struct import spark_json
from statemigrate.lenses.expressions import Column, Shape


class Lens(ABC):
    """One declared change. It is checked against the fields there are when it meets them."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it does, as in "renames name to title"."""

    @abstractmethod
    def forward(self, shape: Shape) -> Shape:
        """The fields after it. Raises ScriptError where it does not fit those before."""

    @abstractmethod
    def back(self, before: Shape) -> Lens | None:
        """The lens that takes its result back to the fields ``before``; None if there is none."""

    def dropped(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002  # most drop nothing
        """The paths of fields whose values it loses on one of the two ways."""
        return ()

    def losses(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002  # most lose nothing
        """What does not come back as it was, a sentence each."""
        return ()

    def refuse(self, code: str, *, expected: str, found: str, next_action: str) -> NoReturn:
        """Raise the error for a lens that does not fit. It does not know its script."""
        raise ScriptError(
            code,
            f"A lens {_PROBLEMS[code]}: it {self.words}.",
            expected=expected,
            found=found,
            next_action=next_action,
            lens=self.words,
        )


_PROBLEMS = {
    "SM-LENS-001": "names a field that is not there",
    "SM-LENS-002": "gives a field a name that another one has",
    "SM-LENS-003": "does not fit the type of its field",
    "SM-LENS-004": "meets values that it cannot take, and no rule says what becomes of them",
    "SM-LENS-005": "has no way back, and no rule gives one",
    "SM-LENS-006": "has arguments that are not what it takes",
}


@dataclass(frozen=True)
class FieldPath:
    """A field's place: the structs around it, and its name."""

    parents: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, text: str) -> FieldPath:
        """The path that a script writes with dots."""
        *parents, name = text.split(".")
        return cls(tuple(parents), name)

    def __str__(self) -> str:
        return ".".join((*self.parents, self.name))

    def sibling(self, name: str) -> str:
        """Another field of the same struct, as a script writes it."""
        return ".".join((*self.parents, name))


def within(
    shape: Shape, parents: tuple[str, ...], lens: Lens, change: Callable[[Shape], Shape]
) -> Shape:
    """The fields with a struct among them changed, ``parents`` leading to it."""
    if not parents:
        return change(shape)
    column = column_of(shape, parents[0], lens)
    check_struct(column, parents[0], lens)
    inner = within(Shape.of(column), parents[1:], lens, change)
    made = inner.closed()
    # In a struct that may be None this one may be, whatever its own type says.
    kind = made.type if accepts_none(column.type) else without_none(made.type)
    return shape.having(parents[0], column.becomes(made.value, kind))


def look_at(shape: Shape, parents: tuple[str, ...], lens: Lens) -> Shape:
    """The fields of the struct that ``parents`` lead to."""
    found: list[Shape] = []

    def look(inner: Shape) -> Shape:
        found.append(inner)
        return inner

    within(shape, parents, lens, look)
    return found[0]


def column_of(shape: Shape, name: str, lens: Lens) -> Column:
    """A field. Raises ScriptError if it is not there."""
    if name not in shape.columns:
        lens.refuse(
            "SM-LENS-001",
            expected=f"one of the fields there are at this point: {', '.join(shape.columns)}",
            found=f"no field {name!r}",
            next_action="correct the name; lenses are done in their order, each on what the one "
            "before it makes",
        )
    return shape.columns[name]


def check_free(shape: Shape, name: str, lens: Lens) -> None:
    """Raise ScriptError if there is a field of a name, or if it is no name."""
    if not name or name in shape.columns:
        lens.refuse(
            "SM-LENS-002",
            expected="a name that no field of the struct has at this point",
            found=f"a field {name!r} that is there already" if name else "an empty name",
            next_action="choose another name, or drop or rename the other field before",
        )


def check_struct(column: Column, name: str, lens: Lens) -> Record:
    """The struct that a field is. Raises ScriptError if it is none."""
    record = without_none(column.type)
    if not isinstance(record, Record):
        wrong_type(lens, f"{name!r} to be a struct", column.type)
    return record


def wrong_type(lens: Lens, expected: str, found: Node) -> NoReturn:
    """Raise the error for a field of another type than a lens takes."""
    lens.refuse(
        "SM-LENS-003",
        expected=expected,
        found=type_name(found),
        next_action="correct the path or the type, or write a function",
    )


def type_of(text: str) -> Node:
    """The type that a text of Spark's DDL names, without None. Raises FormatError."""
    field = Struct(f"field {text}").schema.fields
    if len(field) != 1:
        raise FormatError(
            "SM-LENS-003",
            f"{text!r} is not one type.",
            expected='a type of Spark, as in "BIGINT" or "DECIMAL(18,2)"',
            found=text,
            next_action="correct the type",
        )
    return without_none(field[0].type)


def ddl_of(node: Node) -> str:
    """A type as Spark's DDL names it, whether it may be None or not."""
    record = Record("one", (Field("f", with_none(without_none(node))),))
    return struct_from_json(spark_json(record, is_struct=True)).ddl.removeprefix("f ")


def format_of(record: Record, like: Format) -> Format:
    """The format of a record, of the kind of another format."""
    if like.kind == Struct.kind:
        return struct_from_json(spark_json(record, is_struct=True))
    names = _names(record)
    return Avro(avro_json(record if len(set(names)) == len(names) else numbered(record)))


def _names(node: Node) -> list[str]:
    own = [node.name] if hasattr(node, "name") else []
    return own + [name for each in inner(node) for name in _names(each)]


def misfit(
    made: Node, written: Node, path: str = ""
) -> tuple[str, Node | None, Node | None] | None:
    """Where a written type has no place for what is made, with both types there.

    The order of fields is free, and so is a None that is never made.
    """
    if accepts_none(made) and not accepts_none(written):
        return path, made, written
    one, other = without_none(made), without_none(written)
    match one, other:
        case Record(), Record():
            return _misfit_of_fields(one, other, path)
        case Array(), Array():
            return misfit(one.items, other.items, f"{path}[]")
        case Map(), Map() if layout(one.keys) == layout(other.keys):
            return misfit(one.values, other.values, f"{path}{{}}")
        case Union(), Union():
            same = {repr(layout(each)) for each in one.branches} <= {
                repr(layout(each)) for each in other.branches
            }
            return None if same else (path, made, written)
    return None if layout(one) == layout(other) else (path, made, written)


def _misfit_of_fields(
    one: Record, other: Record, path: str
) -> tuple[str, Node | None, Node | None] | None:
    made = {field.name: field.type for field in one.fields}
    written = {field.name: field.type for field in other.fields}
    for name in [*made, *written]:
        place = f"{path}.{name}" if path else name
        if name not in made or name not in written:
            return place, made.get(name), written.get(name)
        found = misfit(made[name], written[name], place)
        if found is not None:
            return found
    return None
