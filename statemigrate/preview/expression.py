"""A Python expression over ``old`` and ``new``, in a harmless part of the language."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

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
