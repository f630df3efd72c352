"""The check of a single value, and the error it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from statemigrate.errors import ValueMismatchError, values_hidden


class Refusal(Exception):  # noqa: N818  # not an error of the program: it carries a reason
    """Raised by a conversion that cannot take the value; the text says what was found."""


class Leaf:
    """``accepts`` takes the exact type; ``convert`` returns an equal value of it, or refuses."""

    __slots__ = ("accepts", "convert", "expected")

    def __init__(
        self, expected: str, accepts: Callable[[Any], bool], convert: Callable[[Any], Any]
    ) -> None:
        self.expected = expected
        self.accepts = accepts
        self.convert = convert

    def prepare(self, value: Any, path: str) -> Any:
        """Return a value that ``accepts`` takes, or raise ValueMismatchError."""
        if self.accepts(value):
            return value
        try:
            converted = self.convert(value)
        except Refusal as refusal:
            mismatch(path, self.expected, value, str(refusal))
        if not self.accepts(converted):
            mismatch(path, self.expected, value)
        return converted


def mismatch(path: str, expected: str, value: object, reason: str = "") -> NoReturn:
    """Raise ValueMismatchError for the field at ``path``."""
    raise ValueMismatchError(
        "SM-VALUE-007",
        f"Field {path} cannot hold this value." if path else "The format cannot hold this value.",
        expected=expected,
        found=f"{describe(value)}, {reason}" if reason and not values_hidden() else describe(value),
        next_action="return a value of that type from the transform, or change the format",
        field=path,
    )


def describe(value: object) -> str:
    """Return the value's type and a short form of the value, if values are shown."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    if values_hidden():
        return name
    text = repr(value)
    return f"{name} {text if len(text) <= 60 else text[:57] + '...'}"
