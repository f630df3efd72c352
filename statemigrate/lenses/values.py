"""The lenses that change values: cast, scale, split, join, default, map_values, function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.formats.schema import (
    Node,
    Primitive,
    accepts_none,
    fits_all_values,
    fits_integers,
    kind_of,
    type_name,
    with_none,
    without_none,
)
from statemigrate.lenses.expressions import (
    Apply,
    Column,
    Constant,
    Filled,
    Joined,
    Operation,
    Shape,
    TextPart,
)
from statemigrate.lenses.fields import conformed
from statemigrate.lenses.lens import (
    FieldPath,
    Lens,
    check_free,
    column_of,
    look_at,
    type_of,
    within,
    wrong_type,
)
from statemigrate.lenses.operations import (
    CASTS,
    Called,
    Cast,
    FromDecimal,
    Mapped,
    ToDecimal,
    decimals_of,
    limits_of,
)

Unfit = Literal["fail", "null"]
"""What becomes of a value that the new type cannot hold: the migration fails, or it is None."""

_TEXT = Primitive("string")


@dataclass(frozen=True)
class _OneField(Lens):
    """A lens that does something with the value of one field, which keeps its name."""

    path: FieldPath

    def operation(self, kind: Node) -> Operation:
        """What is done with a value of a type, None apart."""
        raise NotImplementedError

    def forward(self, shape: Shape) -> Shape:
        def change(inner: Shape) -> Shape:
            column = column_of(inner, self.path.name, self)
            made = self.operation(without_none(column.type))
            value = Apply(made, column.value, column.optional)
            may_be_none = accepts_none(column.type) or accepts_none(made.type)
            kind = with_none(made.type) if may_be_none else made.type
            return inner.having(self.path.name, column.becomes(value, kind))

        return within(shape, self.path.parents, self, change)

    def type_in(self, shape: Shape) -> Node:
        """The field's type."""
        return column_of(look_at(shape, self.path.parents, self), self.path.name, self).type

    def ask_for_rule(self, expected: str, values: str) -> None:
        """Raise the error for values that may not fit."""
        self.refuse(
            "SM-LENS-004",
            expected=expected,
            found=f"{values}, and no `unfit`",
            next_action='add unfit="fail", which fails for such a value, or unfit="null", which '
            "makes None of it; or choose a type that holds all values",
        )


@dataclass(frozen=True)
class _Cast(_OneField):
    type: Node
    unfit: Unfit | None = None
    is_back: bool = False

    @property
    def words(self) -> str:
        return f"casts {self.path} to {type_name(self.type)}"

    def operation(self, kind: Node) -> Operation:
        _check_unfit(self, self.unfit)
        kinds = kind_of(kind), kind_of(self.type)
        if kinds not in CASTS:
            wrong_type(
                self, "a number, or a text that is an integer, and such a type after it", kind
            )
        total = _holds_all(kind, self.type)
        if not total and self.unfit is None and not self.is_back:
            self.ask_for_rule(
                f"a type that holds every {type_name(kind)}, or a rule",
                f"{type_name(kind)} has values that {type_name(self.type)} has not",
            )
        or_null = self.unfit == "null" and not total
        made = with_none(self.type) if or_null else self.type
        return Cast(kind, made if or_null else self.type, total, or_null)

    def back(self, before: Shape) -> Lens:
        return _Cast(self.path, without_none(self.type_in(before)), is_back=True)

    def losses(self, before: Shape) -> tuple[str, ...]:
        kind = without_none(self.type_in(before))
        if self.unfit != "null" or _holds_all(kind, self.type):
            return ()
        return (f"a {self.path} that does not fit into {type_name(self.type)} comes back as None",)


def _check_unfit(lens: Lens, unfit: object) -> None:
    if unfit not in (None, "fail", "null"):
        lens.refuse(
            "SM-LENS-006",
            expected='unfit="fail" or "null"',
            found=repr(unfit),
            next_action="correct `unfit`",
        )


def _holds_all(old: Node, new: Node) -> bool:
    kinds = kind_of(old), kind_of(new)
    if kinds[0] == kinds[1]:
        return fits_all_values(new, old)
    if kinds[0] == "integer":
        if kinds[1] == "text":
            return isinstance(new, Primitive) and new.narrow is None
        return fits_integers(new, old)
    return False


@dataclass(frozen=True)
class _Scale(_OneField):
    places: int
    type: Node | None = None
    unfit: Unfit | None = None

    @property
    def words(self) -> str:
        return f"scales {self.path} by {self.places} places"

    def operation(self, kind: Node) -> Operation:
        _check_unfit(self, self.unfit)
        if kind_of(kind) != "integer":
            wrong_type(self, "an integer", kind)
        digits = len(str(limits_of(kind)[1]))
        if not isinstance(self.places, int) or not 0 <= self.places <= 38:
            self.refuse(
                "SM-LENS-006",
                expected="a number of places from 0 to 38",
                found=repr(self.places),
                next_action="correct `places`",
            )
        node = self.type or type_of(f"DECIMAL({max(digits, self.places)},{self.places})")
        if kind_of(node) != "decimal" or decimals_of(node).scale != self.places:
            wrong_type(self, f"a decimal with {self.places} places after it", node)
        total = digits <= decimals_of(node).precision
        if not total and self.unfit is None:
            self.ask_for_rule(
                f"a decimal of at least {digits} digits, or a rule",
                f"{type_name(kind)} has values that {type_name(node)} has not",
            )
        or_null = self.unfit == "null" and not total
        return ToDecimal(with_none(node) if or_null else node, total, self.places, or_null)

    def back(self, before: Shape) -> Lens:
        made = self.operation(without_none(self.type_in(before)))
        return _Unscale(
            self.path, without_none(self.type_in(before)), self.places, without_none(made.type)
        )

    def losses(self, before: Shape) -> tuple[str, ...]:
        made = self.operation(without_none(self.type_in(before)))
        if self.unfit != "null" or made.total:
            return ()
        return (f"a {self.path} that has too many digits comes back as None",)


@dataclass(frozen=True)
class _Unscale(_OneField):
    type: Node
    places: int
    made: Node

    @property
    def words(self) -> str:
        return f"scales {self.path} back by {self.places} places"

    def operation(self, kind: Node) -> Operation:  # noqa: ARG002
        most = 10 ** decimals_of(self.made).precision - 1
        return FromDecimal(self.type, self.places, most <= limits_of(self.type)[1])

    def back(self, before: Shape) -> Lens:  # noqa: ARG002
        return _Scale(self.path, self.places, self.made, "fail")


@dataclass(frozen=True)
class _MapValues(_OneField):
    table: Mapping[Any, Any]
    otherwise: Literal["keep", "fail", "null"] = "keep"
    back_table: Mapping[Any, Any] | None = None
    type: Node | None = None

    def __hash__(self) -> int:
        return id(self)

    @property
    def words(self) -> str:
        return f"maps {len(self.table)} values of {self.path}"

    def operation(self, kind: Node) -> Operation:
        if self.otherwise not in ("keep", "fail", "null"):
            self.refuse(
                "SM-LENS-006",
                expected='otherwise="keep", "fail" or "null"',
                found=repr(self.otherwise),
                next_action="correct `otherwise`",
            )
        made = self.type or kind
        if self.otherwise == "keep" and made != kind:
            self.refuse(
                "SM-LENS-004",
                expected='otherwise="fail" or "null", since a value that stays is of the old type',
                found=f"{type_name(made)} in place of {type_name(kind)}",
                next_action="add `otherwise`",
            )
        has_none = any(each is None for each in self.table.values())
        node = with_none(made) if has_none or self.otherwise == "null" else made
        table = {
            conformed(self, old, kind): conformed(self, new, node)
            for old, new in self.table.items()
        }
        return Mapped(table, node, self.otherwise)

    def back(self, before: Shape) -> Lens:
        kind = without_none(self.type_in(before))
        made = {new: old for old, new in self.table.items() if new is not None}
        several = {
            new for new in made if sum(each == new for each in self.table.values()) > 1
        } - set(self.back_table or {})
        if several:
            self.refuse(
                "SM-LENS-005",
                expected="one old value for each new one, or `back` with the one that it becomes",
                found=f"several that become {sorted(map(repr, several))[0]}",
                next_action="add `back`, as in back={'closed': 'done'}",
            )
        otherwise = "fail" if self.otherwise == "null" else self.otherwise
        return _MapValues(self.path, self._again, otherwise, self.table, kind)

    @property
    def _again(self) -> dict[Any, Any]:
        """The table of the way back."""
        made = {new: old for old, new in self.table.items() if new is not None}
        return made | dict(self.back_table or {})

    def losses(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002
        found = []
        again = self._again
        pairs = [(old, new) for old, new in self.table.items() if new is not None]
        if len({new for _, new in pairs}) < len(pairs):
            found.append(f"values of {self.path} that become one come back as one")
        elif any(again[new] != old for old, new in pairs):
            found.append(f"a {self.path} comes back as `back` says")
        if self.otherwise == "keep" and not set(again) <= set(self.table):
            found.append(f"a {self.path} that is one of the new values already comes back as old")
        if self.otherwise == "null" or len(pairs) < len(self.table):
            found.append(f"a {self.path} that becomes None comes back as None")
        return tuple(found)


@dataclass(frozen=True)
class _Function(_OneField):
    up: Callable[[Any], Any]
    down: Callable[[Any], Any] | None
    type: Node | None
    is_back: bool = False

    @property
    def words(self) -> str:
        name = getattr(self.up, "__name__", "a function")
        return f"calls {name} on {self.path}"

    def operation(self, kind: Node) -> Operation:
        for each in (self.up, self.down):
            if each is not None and not callable(each):
                self.refuse(
                    "SM-LENS-006",
                    expected="functions of one value",
                    found=f"{type(each).__name__}",
                    next_action="correct the functions",
                )
        return Called(self.up, self.type or kind)

    def back(self, before: Shape) -> Lens | None:
        if self.down is None:
            return None
        return _Function(self.path, self.down, self.up, without_none(self.type_in(before)), True)


@dataclass(frozen=True)
class _Default(Lens):
    path: FieldPath
    value: Any

    @property
    def words(self) -> str:
        return f"fills {self.path}"

    def forward(self, shape: Shape) -> Shape:
        if self.value is None:
            self.refuse(
                "SM-LENS-006",
                expected="a value other than None",
                found="None",
                next_action="write the value that takes the place of None",
            )

        def change(inner: Shape) -> Shape:
            column = column_of(inner, self.path.name, self)
            kind = without_none(column.type)
            filling = Constant(conformed(self, self.value, kind), kind)
            # The type stays: new values may be None as before.
            value = Filled(column.value, filling)
            return inner.having(self.path.name, column.becomes(value, column.type))

        return within(shape, self.path.parents, self, change)

    def back(self, before: Shape) -> Lens:  # noqa: ARG002
        return _Unfilled(self.path, self.value)

    def losses(self, before: Shape) -> tuple[str, ...]:
        column = column_of(look_at(before, self.path.parents, self), self.path.name, self)
        if not column.optional:
            return ()
        return (f"a {self.path} that was None comes back as {self.value!r}",)


@dataclass(frozen=True)
class _Unfilled(Lens):
    """The way back of `_Default`: it changes nothing, and what is None would be filled again."""

    path: FieldPath
    filling: Any

    @property
    def words(self) -> str:
        return f"leaves {self.path} as it is"

    def forward(self, shape: Shape) -> Shape:
        column_of(look_at(shape, self.path.parents, self), self.path.name, self)
        return shape

    def back(self, before: Shape) -> Lens:  # noqa: ARG002
        return _Default(self.path, self.filling)

    def losses(self, before: Shape) -> tuple[str, ...]:
        column = column_of(look_at(before, self.path.parents, self), self.path.name, self)
        if not column.optional:
            return ()
        return (f"a {self.path} that is None comes back as {self.filling!r}",)


@dataclass(frozen=True)
class _Split(Lens):
    path: FieldPath
    into: tuple[str, ...]
    at: str

    @property
    def words(self) -> str:
        return f"splits {self.path} into {' and '.join(self.into)}"

    def forward(self, shape: Shape) -> Shape:
        _check_parts(self, self.into, self.at)

        def change(inner: Shape) -> Shape:
            column = column_of(inner, self.path.name, self)
            _check_text(self, column)
            rest = inner.without(self.path.name)
            for name in self.into:
                check_free(rest, name, self)
            parts = {
                name: column.becomes(
                    TextPart(column.value, self.at, len(self.into), number), with_none(_TEXT)
                )
                for number, name in enumerate(self.into)
            }
            return inner.replaced(self.path.name, parts)

        return within(shape, self.path.parents, self, change)

    def back(self, before: Shape) -> Lens:
        column = column_of(look_at(before, self.path.parents, self), self.path.name, self)
        return _Join(self.path, self.into, self.at, column.type)


@dataclass(frozen=True)
class _Join(Lens):
    path: FieldPath
    names: tuple[str, ...]
    at: str
    type: Node | None = None

    @property
    def words(self) -> str:
        return f"joins {' and '.join(self.names)} into {self.path}"

    def forward(self, shape: Shape) -> Shape:
        _check_parts(self, self.names, self.at)

        def change(inner: Shape) -> Shape:
            columns = [column_of(inner, name, self) for name in self.names]
            for each in columns:
                _check_text(self, each)
            rest = inner.without(*self.names[1:])
            if self.path.name != self.names[0]:
                check_free(rest, self.path.name, self)
            optional = all(accepts_none(each.type) for each in columns)
            kind = self.type or (with_none(_TEXT) if optional else _TEXT)
            value = Joined(tuple(each.value for each in columns), self.at)
            return rest.replaced(self.names[0], {self.path.name: columns[0].becomes(value, kind)})

        return within(shape, self.path.parents, self, change)

    def back(self, before: Shape) -> Lens:
        inner = look_at(before, self.path.parents, self)
        for name in self.names:
            if not accepts_none(column_of(inner, name, self).type):
                wrong_type(
                    self, f"{name!r} to be a STRING that may be None", inner.columns[name].type
                )
        return _Split(self.path, self.names, self.at)

    def losses(self, before: Shape) -> tuple[str, ...]:  # noqa: ARG002
        parts = ", ".join(self.names[:-1])
        return (
            f"a {parts} that contains {self.at!r}, or that is None where a later one is not, comes "
            "back with its parts elsewhere",
        )


def _check_text(lens: Lens, column: Column) -> None:
    kind = without_none(column.type)
    if not isinstance(kind, Primitive) or kind != _TEXT:
        wrong_type(lens, "a STRING", column.type)


def _check_parts(lens: Lens, names: tuple[str, ...], at: str) -> None:
    if len(names) < 2 or len(set(names)) < len(names) or not isinstance(at, str) or not at:
        lens.refuse(
            "SM-LENS-006",
            expected="two different fields or more, and a separator that is not empty",
            found=f"{names!r} at {at!r}",
            next_action="correct them",
        )


def cast(path: str, type: str, *, unfit: Unfit | None = None) -> Lens:  # what it is
    """Give a field another type; ``unfit`` says what becomes of values that it cannot hold."""
    return _Cast(FieldPath.of(path), type_of(type), unfit)


def scale(
    path: str,
    places: int,
    *,
    type: str | None = None,  # what it is
    unfit: Unfit | None = None,
) -> Lens:
    """Make a decimal of an integer of its smallest units, as of cents: 105 is 1.05."""
    return _Scale(FieldPath.of(path), places, type_of(type) if type else None, unfit)


def split(path: str, into: tuple[str, ...], at: str) -> Lens:
    """Make several texts of one; the last has all that is left."""
    return _Split(FieldPath.of(path), tuple(into), at)


def join(path: str, of: tuple[str, ...], at: str) -> Lens:
    """Make one text of several next to each other; one that is None is left out."""
    return _Join(FieldPath.of(path), tuple(of), at)


def default(path: str, value: Any) -> Lens:
    """Put a value in the place of None."""
    return _Default(FieldPath.of(path), value)


def map_values(
    path: str,
    table: Mapping[Any, Any],
    *,
    otherwise: Literal["keep", "fail", "null"] = "keep",
    back: Mapping[Any, Any] | None = None,
    type: str | None = None,  # what it is
) -> Lens:
    """Put other values in the place of some; ``otherwise`` is the rule for those not named."""
    return _MapValues(
        FieldPath.of(path), dict(table), otherwise, back, type_of(type) if type else None
    )


def function(
    path: str,
    upgrade: Callable[[Any], Any],
    downgrade: Callable[[Any], Any] | None = None,
    *,
    type: str | None = None,  # what it is
) -> Lens:
    """Call a function on what a field holds, None apart."""
    return _Function(FieldPath.of(path), upgrade, downgrade, type_of(type) if type else None)
