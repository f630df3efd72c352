"""What a project expects of a preview: ``[tool.statemigrate.preview]`` in its pyproject.toml.

A field may have a Python expression over ``old`` and ``new``. Only harmless syntax may be in it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from statemigrate.errors import CodeError
from statemigrate.preview.comparison import ROWS, Difference, Same, equal

NAMES = ("old", "new")
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_CALLED: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "round": round,
    "str": str,
}
# A sum, a product or a remainder of texts and lists could be of any size.
_ONLY_NUMBERS = (ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


@dataclass(frozen=True)
class Expression:
    """What holds of an old and a new value: a ``text``, and the tree that it was read as."""

    text: str
    tree: ast.expr

    @classmethod
    def of(cls, text: str) -> Expression:
        """Read an expression. Raises ValueError for anything that is not understood."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise ValueError(f"{text!r:.80} is no expression: {error.msg}") from error
        for node in ast.walk(tree):
            _check(node)
        if not any(isinstance(node, ast.Name) and node.id in NAMES for node in ast.walk(tree)):
            raise ValueError(f"{text!r:.80} names neither old nor new")
        return cls(text, tree)

    def holds(self, old: Any, new: Any) -> bool:
        """Whether it is true of two values. One that fails on them, as on a null, does not hold."""
        try:
            return bool(_value(self.tree, {"old": old, "new": new}))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return False


def _check(node: ast.AST) -> None:  # noqa: PLR0911 - one a kind
    match node:
        case ast.Name():
            if node.id in (*NAMES, *_CALLED):
                return
            raise ValueError(f"{node.id} is neither old nor new, nor {', '.join(_CALLED)}")
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _CALLED:
            return
        case ast.BinOp(op=op) if type(op) in _BINARY:
            return
        case ast.UnaryOp(op=op) if type(op) in _UNARY:
            return
        case ast.Compare(ops=ops) if all(type(op) in _COMPARED for op in ops):
            return
        case ast.Constant(value=bool() | int() | float() | str() | None):
            return
        case ast.BoolOp() | ast.IfExp() | ast.Subscript(slice=ast.Constant()) | ast.Tuple():
            return
        case ast.operator() | ast.unaryop() | ast.boolop() | ast.cmpop() | ast.expr_context():
            return
    raise ValueError(f"{type(node).__name__} is not understood in an expression")


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one a kind
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Tuple():
            return tuple(_value(each, names) for each in node.elts)
        case ast.Subscript():
            return _value(node.value, names)[_value(node.slice, names)]
        case ast.IfExp():
            chosen = node.body if _value(node.test, names) else node.orelse
            return _value(chosen, names)
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, names))
        case ast.BinOp():
            return _calculated(node, _value(node.left, names), _value(node.right, names))
        case ast.BoolOp():
            is_and = isinstance(node.op, ast.And)
            found: Any = is_and
            for each in node.values:
                found = _value(each, names)
                if bool(found) != is_and:
                    break
            return found
        case ast.Compare():
            return _compared(node, names)
        case ast.Call(func=ast.Name(id=name)):
            return _CALLED[name](*(_value(each, names) for each in node.args))
    raise TypeError(f"{type(node).__name__} has no value")


def _calculated(node: ast.BinOp, left: Any, right: Any) -> Any:
    if isinstance(node.op, _ONLY_NUMBERS):
        both_numbers = all(isinstance(each, int | float | Decimal) for each in (left, right))
        if not both_numbers and not (isinstance(node.op, ast.Sub) and type(left) is type(right)):
            raise TypeError("only numbers are calculated with")
    if isinstance(left, Decimal) and isinstance(right, float):
        left = float(left)
    elif isinstance(left, float) and isinstance(right, Decimal):
        right = float(right)
    return _BINARY[type(node.op)](left, right)


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, each in zip(node.ops, node.comparators, strict=True):
        right = _value(each, names)
        if not _COMPARED[type(op)](left, right):
            return False
        left = right
    return True


EXACT, NEW, GONE, CHANGED, WITHIN = "exact", "new", "gone", "changed", "within"
_WORDS = (EXACT, NEW, GONE, CHANGED)
Expectation = str | float | Expression
"""A word, the share of the old value by which a new one may differ, or what holds of both."""


@dataclass(frozen=True)
class Expectations:
    """By store and field what is expected of it; ``noise`` has fields that do not compare."""

    fields: Mapping[str, Mapping[str, Expectation]] = field(default_factory=dict)
    noise: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Expectations:
        """Read a table of tables. Raises `CodeError` for what is none of the known words."""
        found: dict[str, dict[str, Expectation]] = {}
        for store, fields in given.items():
            if not isinstance(fields, Mapping):
                raise _unknown(store, fields)
            found[store] = {name: _read(f"{store}.{name}", each) for name, each in fields.items()}
        return cls(found)

    def of_field(self, store: str, name: str) -> Expectation | None:
        """What is expected of a field, None where nothing is."""
        return self.fields.get(store, {}).get(name)

    def same(self, store: str) -> Same:
        """How the values of a store's fields compare."""

        def compare(name: str, old: Any, new: Any) -> bool:
            wanted = self.of_field(store, name)
            if isinstance(wanted, Expression):
                return wanted.holds(old, new)
            if equal(name, old, new):
                return True
            if isinstance(wanted, float) and _is_number(old) and _is_number(new):
                return abs(float(new) - float(old)) <= wanted * abs(float(old))
            return False

        wanted = self.fields.get(store, {}).values()
        return Same(compare, any(isinstance(each, Expression) for each in wanted))

    def unexpected(self, found: Difference) -> Iterator[str]:
        """What of a difference nobody has expected, as sentences without values."""
        store = found.store
        if not found.keys:
            yield f"{store} has other keys"
            return
        if self.of_field(store, ROWS) != CHANGED and not self._is_noise(store, ROWS):
            if found.added:
                yield f"{store}: {found.added:,} rows more"
            if found.missing:
                yield f"{store}: {found.missing:,} rows missing"
        for name, count in found.fields.items():
            if self.of_field(store, name) != CHANGED and not self._is_noise(store, name):
                yield f"{store}.{name}: {count:,} values differ"
        yield from self._of_one_side(found)

    def _of_one_side(self, found: Difference) -> Iterator[str]:
        """What is not expected of fields that only old or new code has, or that both have."""
        store = found.store
        for name in found.only_old:
            if self.of_field(store, name) != GONE:
                yield f"{store}.{name} is gone"
        for name in found.only_new:
            if self.of_field(store, name) in (EXACT, GONE, CHANGED):
                yield f"{store}.{name} is new"
        for name, wanted in self.fields.get(store, {}).items():
            if wanted == NEW and name not in found.only_new:
                yield f"{store}.{name} is not new"
            if wanted == GONE and name not in found.only_old:
                yield f"{store}.{name} is not gone"

    def _is_noise(self, store: str, name: str) -> bool:
        return (store, name) in self.noise and self.of_field(store, name) != EXACT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _read(name: str, given: Any) -> Expectation:
    if isinstance(given, Mapping) and set(given) == {WITHIN}:
        share = given[WITHIN]
        if _is_number(share) and share >= 0:
            return float(share)
    elif isinstance(given, str) and given in _WORDS:
        return given
    elif isinstance(given, str):
        try:
            return Expression.of(given)
        except ValueError as error:
            raise _unknown(name, f"{given}: {error}") from error
    raise _unknown(name, given)


def _unknown(name: str, given: Any) -> CodeError:
    return CodeError(
        "SM-PREVIEW-010",
        f"what is expected of {name} is not known",
        expected=f"{', '.join(_WORDS)}, {{within = 0.01}}, or an expression over old and new, by "
        "store and field",
        found=repr(given)[:200],
        next_action="correct [tool.statemigrate.preview] in pyproject.toml",
    )
