"""Whether a format holds a value, for each type; and which field does not, if one does not.

Every check has two halves. ``accepts`` is fast and says that the value can be written as it is.
``prepare`` is the slow walk for all the rest: it returns a copy that can be written (an integer
where a float is meant, a default filled in) or raises ValueMismatchError
with the path of the field. A value is taken only if reading it back gives an equal one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol

from statemigrate.errors import FormatError, ValueMismatchError, shown
from statemigrate.formats.avro.leaves import leaf_of, mismatch
from statemigrate.formats.avro.logical import MOST_ITEMS, freezing, takes_no_bytes, thawing
from statemigrate.formats.schema import (
    NULL,
    Array,
    Field,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    plain_default,
    type_name,
)


class Check(Protocol):
    """The two halves; ``path`` is the field's, empty for the whole value."""

    @property
    def accepts(self) -> Callable[[Any], bool]:
        """Say whether the value can be written as it is."""

    def prepare(self, value: Any, path: str, /) -> Any:
        """Return a value that can be written, or raise ValueMismatchError."""


def check_of(node: Node) -> Check:
    """Compile the check of a type."""
    match node:
        case Record():
            return RecordCheck(node)
        case Array():
            return ArrayCheck(node)
        case Map():
            return MapCheck(node)
        case Union(branches=branches):
            others = [branch for branch in branches if branch != NULL]
            simple = len(others) == 1
            return NullableCheck(node, others[0]) if simple else UnionCheck(node)
    return leaf_of(node)


class RecordCheck:
    """A dictionary with exactly the record's fields."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.checks = {field.name: check_of(field.type) for field in record.fields}
        self.defaults = {
            field.name: self._default(field) for field in record.fields if field.has_default
        }
        self.accepts = _record_accepts([(n, c.accepts) for n, c in self.checks.items()])

    def prepare(self, value: Any, path: str) -> dict[str, Any]:
        """Return a copy with every field, or name the one that is wrong."""
        if not isinstance(value, dict):
            mismatch(path, "a dict with the fields of the record", value)
        for name in value:
            if name not in self.checks:
                self._refuse_extra(name, value, path)
        return {field.name: self._field(field, value, path) for field in self.record.fields}

    def _default(self, field: Field) -> Any:
        try:
            plain = plain_default(field.type, field.default)
            return self.checks[field.name].prepare(plain, field.name)
        except (FormatError, ValueMismatchError) as error:
            raise FormatError(
                "SM-FORMAT-001",
                f"The default of field {field.name} is not of the field's type.",
                expected=f"a default for {type_name(field.type)}",
                found=repr(field.default),
                next_action="correct the default in the schema",
                field=field.name,
            ) from error

    def _field(self, field: Field, value: dict[str, Any], path: str) -> Any:
        inner = f"{path}.{field.name}" if path else field.name
        check = self.checks[field.name]
        if field.name in value:
            return check.prepare(value[field.name], inner)
        if field.has_default:
            return self.defaults[field.name]
        raise ValueMismatchError(
            "SM-VALUE-005",
            f"Field {inner} is missing.",
            expected=f"{type_name(field.type)}; a field without a value is None, not absent",
            found=f"only {_listed(value)}",
            next_action=f"return {field.name!r} from the transform too",
            field=inner,
        )

    def _refuse_extra(self, name: object, value: dict[str, Any], path: str) -> NoReturn:
        inner = f"{path}.{name}" if path else str(name)
        raise ValueMismatchError(
            "SM-VALUE-006",
            f"Field {inner} is not in the format.",
            expected=f"only {_listed(self.checks)}",
            found=f"{name!r} = {value[name]!r:.60}",  # type: ignore[index]
            next_action="leave it out of the value, or add it to the format",
            field=inner,
        )


def _record_accepts(fields: list[tuple[str, Callable[[Any], bool]]]) -> Callable[[Any], bool]:
    pairs, size = tuple(fields), len(fields)

    def accepts(value: Any) -> bool:
        if type(value) is not dict or len(value) != size:
            return False
        try:
            for name, check in pairs:
                if not check(value[name]):
                    return False
        except KeyError:
            return False
        return True

    return accepts


class ArrayCheck:
    """A list; a plain tuple is taken for one. A Row or named tuple is a misplaced record."""

    def __init__(self, array: Array) -> None:
        self.items = check_of(array.items)
        self.accepts = _array_accepts(self.items.accepts)
        self._most = MOST_ITEMS if takes_no_bytes(array.items) else sys.maxsize

    def prepare(self, value: Any, path: str) -> list[Any]:
        """Return a list of prepared items."""
        if not isinstance(value, list) and type(value) is not tuple:
            mismatch(path, "a list", value)
        if len(value) > self._most:
            mismatch(path, f"{self._most:,} items that take no bytes, at the most", len(value))
        return [self.items.prepare(item, f"{path}[{i}]") for i, item in enumerate(value)]


def _array_accepts(items: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(items, value))


class KeyCheck:
    """A map's key: a plain value, but with tuples in place of what cannot be hashed."""

    def __init__(self, node: Node) -> None:
        self._check = check_of(node)
        self._thaw, self._freeze = thawing(node), freezing(node)
        thaw, accepts = self._thaw, self._check.accepts
        self.accepts: Callable[[Any], bool] = lambda key: accepts(thaw(key))

    def prepare(self, value: Any, path: str) -> Any:
        """Return a key that can be written, or name what is wrong with it."""
        return self._freeze(self._check.prepare(self._thaw(value), path))


class MapCheck:
    """A dictionary."""

    def __init__(self, node: Map) -> None:
        nested = isinstance(node.keys, Record | Array)
        self.keys: Check = KeyCheck(node.keys) if nested else check_of(node.keys)
        self._name = type_name(node.keys) + ("s" if node.has_text_keys else "")
        self.values = check_of(node.values)
        self.accepts = _map_accepts(self.keys.accepts, self.values.accepts)

    def prepare(self, value: Any, path: str) -> dict[Any, Any]:
        """Return a dict of prepared values."""
        if not isinstance(value, dict):
            mismatch(path, f"a dict from {self._name} to values", value)
        return {
            self.keys.prepare(key, f"{path} key {shown(key)}"): self.values.prepare(
                item, f"{path}[{shown(key)}]"
            )
            for key, item in value.items()
        }


def _map_accepts(
    keys: Callable[[Any], bool], values: Callable[[Any], bool]
) -> Callable[[Any], bool]:
    return lambda value: (
        type(value) is dict and all(map(keys, value)) and all(map(values, value.values()))
    )


class NullableCheck:
    """A union of one type, with null or alone."""

    def __init__(self, union: Union, other: Node) -> None:
        self.other = check_of(other)
        self.nullable = NULL in union.branches
        self.accepts = (
            _nullable_accepts(self.other.accepts) if self.nullable else self.other.accepts
        )

    def prepare(self, value: Any, path: str) -> Any:
        """Return None, or the value prepared."""
        return None if value is None and self.nullable else self.other.prepare(value, path)


def _nullable_accepts(other: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or other(value)


class UnionCheck:
    """A union with a real choice.

    The first branch that accepts the value is the one written, so the choice is ours and no guess.
    """

    def __init__(self, union: Union) -> None:
        self.union = union
        self.checks = [check for _, check in branches_in_order(union)]
        self.accepts = _union_accepts([check.accepts for check in self.checks])

    def prepare(self, value: Any, path: str) -> Any:
        """Return the value as its branch takes it."""
        if self.accepts(value):
            return value
        for check in self.checks:
            try:
                return check.prepare(value, path)
            except ValueMismatchError:
                continue  # another branch may take it; if none does, the union refuses it below
        return mismatch(path, type_name(self.union), value)


def branches_in_order(union: Union) -> list[tuple[int, Check]]:
    """Return a union's branches in the order they are tried, each with its index in the union.

    float comes last, since a float of Python is a double and may lose digits as a float.
    """
    checks = [(index, check_of(branch)) for index, branch in enumerate(union.branches)]
    return sorted(checks, key=lambda pair: union.branches[pair[0]] == Primitive("float"))


def _union_accepts(branches: list[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: any(accepts(value) for accepts in branches)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(str(name) for name in names) or "no field"
