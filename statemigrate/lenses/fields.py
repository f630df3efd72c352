"""The lenses that move fields: rename, move, wrap, unwrap, add, drop, each, entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.errors import FormatError, ValueMismatchError
from statemigrate.formats.avro import check_of
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
from statemigrate.lenses.expressions import (
    Column,
    Constant,
    Shape,
    element_of,
    is_none_with,
    with_elements,
)
from statemigrate.lenses.lens import (
    FieldPath,
    Lens,
    check_free,
    check_struct,
    column_of,
    look_at,
    type_of,
    within,
    wrong_type,
)


@dataclass(frozen=True)
class LensChain(Lens):
    """Several lenses, one after the other: what `lens` gives."""

    lenses: tuple[Lens, ...]

    @property
    def words(self) -> str:
        """Those of its lenses."""
        return ", ".join(each.words for each in self.lenses) or "changes nothing"

    def forward(self, shape: Shape) -> Shape:
        """The fields after the last one."""
        for each in self.lenses:
            shape = each.forward(shape)
        return shape

    def back(self, before: Shape) -> LensChain | None:
        """The ways back, the last one first; None if one has none."""
        found = [lens.back(shape) for lens, shape in self._met(before)]
        backward = [each for each in found if each is not None]
        return LensChain(tuple(reversed(backward))) if len(backward) == len(found) else None

    def dropped(self, before: Shape) -> tuple[str, ...]:
        """What each of them loses."""
        return tuple(path for lens, shape in self._met(before) for path in lens.dropped(shape))

    def losses(self, before: Shape) -> tuple[str, ...]:
        """What each of them does not bring back."""
        return tuple(text for lens, shape in self._met(before) for text in lens.losses(shape))

    def _met(self, shape: Shape) -> list[tuple[Lens, Shape]]:
        found = []
        for each in self.lenses:
            found.append((each, shape))
            shape = each.forward(shape)
        return found


@dataclass(frozen=True)
class _Rename(Lens):
    path: FieldPath
    name: str

    @property
    def words(self) -> str:
        return f"renames {self.path} to {self.name}"

    def forward(self, shape: Shape) -> Shape:
        def change(inner: Shape) -> Shape:
            column_of(inner, self.path.name, self)
            check_free(inner, self.name, self)
            return inner.renamed(self.path.name, self.name)

        return within(shape, self.path.parents, self, change)

    def back(self, before: Shape) -> Lens:  # noqa: ARG002
        return _Rename(replace(self.path, name=self.name), self.path.name)


@dataclass(frozen=True)
class _Move(Lens):
    """The struct of the new path is made where there is none.

    With ``empties`` the struct of the old path goes with its last field. ``is_back`` is that of a
    way back: of a value that was never up it may make one that the old format refuses.
    """

    path: FieldPath
    to: FieldPath
    empties: bool = False
    is_back: bool = False

    @property
    def words(self) -> str:
        return f"moves {self.path} to {self.to}"

    def forward(self, shape: Shape) -> Shape:
        return self._put(self._taken(shape), self.to.parents, self._moved(shape))

    def _moved(self, shape: Shape) -> Column:
        inner = look_at(shape, self.path.parents, self)
        return column_of(inner, self.path.name, self).taken_out()

    def _put(self, shape: Shape, parents: tuple[str, ...], moved: Column) -> Shape:
        """The fields with the one that moves among them, or in the struct ``parents`` lead to."""
        shape, alone = self._opened(shape, parents, moved)
        if not parents:
            check_free(shape, self.to.name, self)
            return shape.having(self.to.name, replace(moved, in_optional=alone))
        name = parents[0]
        if len(parents) == 1 and name not in shape.columns:
            struct = Shape({self.to.name: moved}, name=f"{shape.name}.{name}").closed()
            return shape.having(name, struct)
        column = column_of(shape, name, self)
        check_struct(column, name, self)
        made = self._put(Shape.of(column), parents[1:], moved).closed()
        kind = made.type if accepts_none(column.type) else without_none(made.type)
        return shape.having(name, column.becomes(made.value, kind))

    def _opened(self, shape: Shape, parents: tuple[str, ...], moved: Column) -> tuple[Shape, bool]:
        """A struct that is there where the field is, and whether the field alone decides that."""
        if not self._opens(shape, moved):
            return shape, False
        others = [name for name in shape.columns if name not in parents[:1]]
        filled = [name for name in others if not accepts_none(shape.columns[name].type)]
        if filled and not self.is_back:
            self.refuse(
                "SM-LENS-003",
                expected="a struct that is never None, or whose other fields may all be None: "
                "where it is None and the field is not, there is a struct afterwards",
                found=f"a struct that may be None, and in it {filled[0]!r}, which may not",
                next_action="let the field stay where it is, or write a function",
            )
        # On the way back a struct that is made for the field alone has nothing in the others.
        emptied = {
            name: replace(shape.columns[name], type=with_none(shape.columns[name].type))
            for name in filled
        }
        columns = {**shape.columns, **emptied}
        return replace(shape, columns=columns, null_of=(*shape.null_of, moved.value)), True

    def _opens(self, shape: Shape, moved: Column) -> bool:
        return bool(shape.null_of) and not is_none_with(moved.value, shape.null_of)

    def _creates(self, taken: Shape) -> bool:
        *around, name = (*self.to.parents, "")[: len(self.to.parents)] or ("",)
        if not name:
            return False
        return name not in look_at(taken, tuple(around), self).columns

    def _taken(self, shape: Shape) -> Shape:
        """The fields without the one that moves."""
        shape = within(shape, self.path.parents, self, lambda inner: inner.without(self.path.name))
        if not self.path.parents or look_at(shape, self.path.parents, self).columns:
            return shape
        *around, name = self.path.parents
        if not self.empties:
            self.refuse(
                "SM-LENS-003",
                expected=f"a struct {name!r} that has another field",
                found="a struct without fields after it",
                next_action=f"write unwrap({'.'.join(self.path.parents)!r})",
            )
        return within(shape, tuple(around), self, lambda inner: inner.without(name))

    def back(self, before: Shape) -> Lens:
        empties = self._creates(self._taken(before))
        return _Move(self.to, self.path, empties=empties, is_back=not self.is_back)

    def losses(self, before: Shape) -> tuple[str, ...]:
        taken, moved = self._taken(before), self._moved(before)
        for depth in range(1, len(self.to.parents) + 1):
            around = self.to.parents[:depth]
            if self._creates(taken) and around == self.to.parents:
                break
            if self._opens(look_at(taken, around, self), moved):
                struct = ".".join(around)
                return (
                    f"a {struct} that was None where {self.path} was not comes back as a struct",
                )
        return ()


@dataclass(frozen=True)
class _Wrap(Lens):
    """With ``none_if_empty`` the struct is None where all of its fields are."""

    path: FieldPath
    names: tuple[str, ...]
    none_if_empty: bool = False

    @property
    def words(self) -> str:
        return f"wraps {', '.join(self.names)} into {self.path}"

    def forward(self, shape: Shape) -> Shape:
        if not self.names:
            self.refuse(
                "SM-LENS-006",
                expected='fields to wrap, as in wrap("item", "title", "price")',
                found="no field",
                next_action="name them",
            )

        def change(inner: Shape) -> Shape:
            columns = {name: column_of(inner, name, self) for name in self.names}
            rest = inner.without(*self.names[1:])
            if self.path.name != self.names[0]:
                check_free(rest, self.path.name, self)
            null_of = tuple(each.value for each in columns.values()) if self.none_if_empty else ()
            struct = Shape(columns, null_of, f"{inner.name}.{self.path.name}").closed()
            return rest.replaced(self.names[0], {self.path.name: struct})

        return within(shape, self.path.parents, self, change)

    def back(self, before: Shape) -> Lens:  # noqa: ARG002
        return _Unwrap(self.path)


@dataclass(frozen=True)
class _Unwrap(Lens):
    path: FieldPath

    @property
    def words(self) -> str:
        return f"unwraps {self.path}"

    def forward(self, shape: Shape) -> Shape:
        def change(inner: Shape) -> Shape:
            fields = {n: each.taken_out() for n, each in self._fields(inner).columns.items()}
            rest = inner.without(self.path.name)
            for name in fields:
                check_free(rest, name, self)
            return inner.replaced(self.path.name, fields)

        return within(shape, self.path.parents, self, change)

    def _fields(self, inner: Shape) -> Shape:
        column = column_of(inner, self.path.name, self)
        check_struct(column, self.path.name, self)
        return Shape.of(column)

    def _opened(self, before: Shape) -> tuple[tuple[str, ...], bool]:
        inner = look_at(before, self.path.parents, self)
        column = column_of(inner, self.path.name, self)
        return tuple(self._fields(inner).columns), column.optional

    def back(self, before: Shape) -> Lens:
        names, optional = self._opened(before)
        return _Wrap(self.path, names, none_if_empty=optional)

    def losses(self, before: Shape) -> tuple[str, ...]:
        if not self._opened(before)[1]:
            return ()
        return (f"a {self.path} whose fields are all None comes back as None",)


@dataclass(frozen=True)
class _Add(Lens):
    path: FieldPath
    type: Node
    value: Any = None
    is_new: bool = True

    @property
    def words(self) -> str:
        return f"adds {self.path}" if self.is_new else f"brings {self.path} back"

    def forward(self, shape: Shape) -> Shape:
        kind = with_none(self.type) if self.value is None else self.type
        value = conformed(self, self.value, kind)
        # An added field may be None later, as any field of Spark's structs.
        made = Column(Constant(value, kind), with_none(self.type) if self.is_new else kind)

        def change(inner: Shape) -> Shape:
            check_free(inner, self.path.name, self)
            return inner.having(self.path.name, replace(made, in_optional=bool(inner.null_of)))

        return within(shape, self.path.parents, self, change)

    def back(self, before: Shape) -> Lens:  # noqa: ARG002
        return _Drop(self.path)

    def dropped(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002
        return (str(self.path),)


@dataclass(frozen=True)
class _Drop(Lens):
    path: FieldPath
    back_value: Any = None

    @property
    def words(self) -> str:
        return f"drops {self.path}"

    def forward(self, shape: Shape) -> Shape:
        def change(inner: Shape) -> Shape:
            column_of(inner, self.path.name, self)
            return inner.without(self.path.name)

        return within(shape, self.path.parents, self, change)

    def _type(self, before: Shape) -> Node:
        return column_of(look_at(before, self.path.parents, self), self.path.name, self).type

    def back(self, before: Shape) -> Lens:
        kind = self._type(before)
        if self.back_value is None and not accepts_none(kind):
            self.refuse(
                "SM-LENS-005",
                expected=f"drop({str(self.path)!r}, back=...), with what the field is after a "
                "way back: it cannot be None",
                found="no `back`",
                next_action="add `back`",
            )
        return _Add(self.path, without_none(kind), self.back_value, is_new=False)

    def dropped(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002
        return (str(self.path),)

    def losses(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002
        return (f"{self.path} comes back as {self.back_value!r}",)


@dataclass(frozen=True)
class _Each(Lens):
    """A chain on each element of a list, or with ``of_map`` on each value of a map."""

    path: FieldPath
    chain: LensChain
    of_map: bool = field(default=False)

    @property
    def words(self) -> str:
        where = "each value of" if self.of_map else "each of"
        return f"{self.chain.words} in {where} {self.path}"

    def _inner(self, column: Column) -> Shape:
        node = without_none(column.type)
        wanted = f"{str(self.path)!r} to be {'a map' if self.of_map else 'a list'} of structs"
        if not isinstance(node, Map if self.of_map else Array):
            wrong_type(self, wanted, column.type)
        element = element_of(column)
        if not isinstance(without_none(element.type), Record):
            wrong_type(self, wanted, column.type)
        return Shape.of(element)

    def forward(self, shape: Shape) -> Shape:
        def change(inner: Shape) -> Shape:
            column = column_of(inner, self.path.name, self)
            element = self.chain.forward(self._inner(column)).closed()
            return inner.having(self.path.name, with_elements(column, element))

        return within(shape, self.path.parents, self, change)

    def _before(self, before: Shape) -> Shape:
        inner = look_at(before, self.path.parents, self)
        return self._inner(column_of(inner, self.path.name, self))

    def back(self, before: Shape) -> Lens | None:
        chain = self.chain.back(self._before(before))
        return None if chain is None else _Each(self.path, chain, self.of_map)

    def dropped(self, before: Shape) -> tuple[str, ...]:
        mark = "{}" if self.of_map else "[]"
        return tuple(
            f"{self.path}{mark}.{each}" for each in self.chain.dropped(self._before(before))
        )

    def losses(self, before: Shape) -> tuple[str, ...]:
        where = "each value of" if self.of_map else "each of"
        return tuple(
            f"in {where} {self.path}, {each}" for each in self.chain.losses(self._before(before))
        )


def conformed(lens: Lens, value: Any, kind: Node) -> Any:
    """A value as a type holds it. Raises ScriptError if it does not."""
    record = Record("one", (Field("field", kind),))
    try:
        check = check_of(record)
        given = {"field": value}
        return (given if check.accepts(given) else check.prepare(given, ""))["field"]
    except (ValueMismatchError, FormatError) as cause:
        lens.refuse(
            "SM-LENS-003",
            expected=str(cause.expected),
            found=str(cause.found),
            next_action="correct the value or the type",
        )


def lens(*lenses: Lens) -> LensChain:
    """Several lenses as one change, done in their order."""
    return LensChain(lenses)


def rename(path: str, name: str) -> Lens:
    """Give a field another name; it stays in its struct."""
    return _Rename(FieldPath.of(path), name)


def move(path: str, to: str) -> Lens:
    """Take a field out of its struct and put it elsewhere; a struct that is not there is made."""
    return _Move(FieldPath.of(path), FieldPath.of(to))


def wrap(path: str, *names: str) -> Lens:
    """Make a struct of fields that are next to each other."""
    return _Wrap(FieldPath.of(path), names)


def unwrap(path: str) -> Lens:
    """Put the fields of a struct in its place."""
    return _Unwrap(FieldPath.of(path))


def add(path: str, type: str, value: Any = None) -> Lens:  # what it is
    """Add a field of a type of Spark's; old values have ``value`` in it."""
    return _Add(FieldPath.of(path), type_of(type), value)


def drop(path: str, *, back: Any = None) -> Lens:
    """Drop a field; a way back fills it with ``back``."""
    return _Drop(FieldPath.of(path), back)


def each(path: str, chain: LensChain | Lens | Sequence[Lens]) -> Lens:
    """Change each element of a list of structs."""
    return _Each(FieldPath.of(path), _chain(chain))


def entries(path: str, chain: LensChain | Lens | Sequence[Lens]) -> Lens:
    """Change each value of a map of structs."""
    return _Each(FieldPath.of(path), _chain(chain), of_map=True)


def _chain(given: LensChain | Lens | Sequence[Lens]) -> LensChain:
    if isinstance(given, LensChain):
        return given
    return LensChain((given,) if isinstance(given, Lens) else tuple(given))
