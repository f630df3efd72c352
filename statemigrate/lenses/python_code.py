"""An expression as a Python function of plain lines, as one would write it by hand.

Nothing of a schema or a script stands in the text that is compiled: names and values are constants
that are put in afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from sys import intern
from types import CodeType, FunctionType
from typing import Any

from statemigrate.lenses.expressions import (
    Apply,
    Build,
    Constant,
    Elements,
    Expression,
    Filled,
    Get,
    Input,
    Joined,
    TextPart,
    Unless,
)

Value = dict[str, Any]


def function_of(expression: Expression, name: str) -> Callable[[Value], Value]:
    """The function of one value that an expression is, called ``name``."""
    return _FunctionSource().function(expression, name)


def parts_of(value: str | None, separator: str, count: int) -> list[str | None]:
    """The parts of a text, None for those that it does not have."""
    found: list[str | None] = [] if value is None else [*value.split(separator, count - 1)]
    return found + [None] * (count - len(found))


def joined(values: tuple[str | None, ...], separator: str) -> str | None:
    """Texts without those that are None; None if all are."""
    found = [each for each in values if each is not None]
    return separator.join(found) if found else None


def inner(expression: Expression) -> tuple[Expression, ...]:  # one a kind
    """What an expression is made of directly, elements of lists and maps apart."""
    match expression:
        case Get(base=base):
            return (base,)
        case Build(fields=fields, null_of=null_of):
            return (*(each for _, each in fields), *null_of)
        case Unless(null_of=null_of, value=value):
            return (value, *null_of)
        case (
            Apply(value=value) | Filled(value=value) | TextPart(value=value) | Elements(value=value)
        ):
            return (value,)
        case Joined(values=values):
            return values
    return ()


class _FunctionSource:
    """One function being written: its lines, and the constants that they name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[Expression, str] = {}
        self._uses: Counter[Expression] = Counter()
        self._globals: dict[str, Any] = {}
        self._texts: dict[str, str] = {}

    def function(self, expression: Expression, name: str) -> Callable[[Value], Value]:
        self._count(expression)
        result = self._text(expression)
        text = "\n".join(["def made(value):", *self._lines, f"    return {result}"])
        code = _code(text)
        made = FunctionType(_with_constants(code, self._texts), self._globals, name)
        made.__qualname__ = name
        return made

    def _count(self, expression: Expression) -> None:
        self._uses[expression] += 1
        if self._uses[expression] == 1:
            for each in inner(expression):
                self._count(each)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._globals)}"
        self._globals[name] = value
        return name

    def _literal(self, text: str) -> str:
        mark = f"literal {len(self._texts)}"
        self._texts[mark] = intern(text)
        return f'"{mark}"'

    def _variable(self, expression: Expression) -> str:
        if isinstance(expression, Input):
            return "value"
        if expression not in self._names:
            text = self._written(expression)
            name = f"v{len(self._names)}"
            self._lines.append(f"    {name} = {text}")
            self._names[expression] = name
        return self._names[expression]

    def _text(self, expression: Expression) -> str:
        if isinstance(expression, Input) or (
            self._uses[expression] > 1 and not isinstance(expression, Constant)
        ):
            return self._variable(expression)
        return self._written(expression)

    def _written(self, expression: Expression) -> str:  # noqa: PLR0911  # one a kind
        match expression:
            case Get(base=base, name=name, optional=optional):
                if not optional:
                    return f"{self._text(base)}[{self._literal(name)}]"
                held = self._variable(base)
                return f"(None if {held} is None else {held}[{self._literal(name)}])"
            case Constant(value=value):
                if isinstance(value, list | dict):
                    # Each value has one of its own, which the user's code may change.
                    return f"{self._constant(deepcopy)}({self._constant(value)})"
                return "None" if value is None else self._constant(value)
            case Build(fields=fields, null_of=null_of):
                made = ", ".join(
                    f"{self._literal(name)}: {self._text(each)}" for name, each in fields
                )
                return self._unless(null_of, f"{{{made}}}")
            case Unless(null_of=null_of, value=value):
                return self._unless(null_of, self._text(value))
            case Apply():
                return self._applied(expression)
            case Filled(value=value, filling=filling):
                held = self._variable(value)
                return f"({self._written(filling)} if {held} is None else {held})"
            case TextPart(value=value, separator=separator, count=count, index=index):
                parts = self._parts(value, separator, count)
                return f"{parts}[{index}]"
            case Joined(values=values, separator=separator):
                texts = ", ".join(map(self._text, values))
                return f"{self._constant(joined)}(({texts},), {self._constant(separator)})"
            case Elements(value=value, body=body, of_map=of_map):
                held = self._variable(value)
                each = self._constant(function_of(body, "element"))
                made = (
                    f"{{k: {each}(e) for k, e in {held}.items()}}"
                    if of_map
                    else f"[{each}(e) for e in {held}]"
                )
                return f"(None if {held} is None else {made})"
        raise AssertionError(expression)

    def _unless(self, null_of: tuple[Expression, ...], text: str) -> str:
        if not null_of:
            return text
        condition = " and ".join(f"{self._variable(each)} is None" for each in null_of)
        return f"(None if {condition} else {text})"

    def _applied(self, expression: Apply) -> str:
        operation = expression.operation
        probe = operation.source("x", str)
        held = (
            self._text(expression.value)
            if not expression.optional and (probe is None or probe.count("x") == 1)
            else self._variable(expression.value)
        )
        text = operation.source(held, self._constant) or f"{self._constant(operation)}({held})"
        return f"(None if {held} is None else {text})" if expression.optional else text

    def _parts(self, value: Expression, separator: str, count: int) -> str:
        # All parts of one text have one list.
        key = TextPart(value, separator, count, -1)
        if key not in self._names:
            call = f"{self._constant(parts_of)}({self._text(value)}, {self._constant(separator)}, "
            name = f"v{len(self._names)}"
            self._lines.append(f"    {name} = {call}{count})")
            self._names[key] = name
        return self._names[key]


@lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    # All of the text is written by this module.
    module = compile(text, "<made of a lens>", "exec")
    return next(each for each in module.co_consts if isinstance(each, CodeType))


def _with_constants(code: CodeType, texts: dict[str, str]) -> CodeType:
    """The code with texts in the place of their marks."""

    def put(constant: Any) -> Any:
        if isinstance(constant, tuple):
            return tuple(map(put, constant))
        return texts.get(constant, constant) if isinstance(constant, str) else constant

    return code.replace(co_consts=tuple(map(put, code.co_consts)))


def is_total(expression: Expression) -> bool:
    """Whether it makes a value of its type of every value."""
    if isinstance(expression, Apply) and not expression.operation.total:
        return False
    if isinstance(expression, Elements) and not is_total(expression.body):
        return False
    return all(map(is_total, inner(expression)))


def refusals(expression: Expression, within: tuple[Expression, ...] = ()) -> set[object]:
    """The operations of an expression that do not take every value, each with where it is."""
    found = {each for part in inner(expression) for each in refusals(part, within)}
    if isinstance(expression, Apply) and not expression.operation.total:
        found.add((within, expression))
    if isinstance(expression, Elements):
        found |= refusals(expression.body, (*within, expression.value))
    return found
