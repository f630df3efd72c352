"""The source of a generated module: functions of plain lines, and the constants they use.

Nothing of a schema stands in the text. A name of a field is a constant, as its readers and writers
are, so no schema can have a word of its own in the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import Any


class GeneratedSource:
    """Functions being written, one of them at a time at the end of ``lines``."""

    def __init__(self, **known: Any) -> None:
        self._functions: list[str] = []
        self._lines: list[str] = []
        self._indent = 0
        self._constants: dict[str, Any] = dict(known)
        self._count = 0

    def name(self, letter: str) -> str:
        """A name that no other thing in the source has."""
        self._count += 1
        return f"{letter}{self._count}"

    def constant(self, value: Any) -> str:
        """The name of a constant."""
        name = self.name("c")
        self._constants[name] = value
        return name

    def convert(self, field: str, converter: Callable[[Any], Any] | None) -> None:
        """Write what converts a variable, unless it is None."""
        if converter is not None:
            self.line(f"if {field} is not None: {field} = {self.constant(converter)}({field})")

    def line(self, text: str) -> None:
        """Write a line of the function."""
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write what follows below the line ``head``."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def function(self, head: str) -> Iterator[None]:
        """Write another function while one is being written."""
        outer, self._lines, indent, self._indent = self._lines, [], self._indent, 0
        with self.block(head):
            yield
        self._functions += self._lines
        self._lines, self._indent = outer, indent

    def compiled(self, name: str) -> Any:
        """The function ``name`` of all that was written."""
        names = dict(self._constants)
        # All of the text is written by this package.
        exec(_code("\n".join(self._functions)), names)  # noqa: S102
        return names[name]


@lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    """Compiled once for all batches and partitions of a process."""
    return compile(text, "<made for a format>", "exec")
