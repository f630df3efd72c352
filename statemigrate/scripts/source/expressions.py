"""Python expressions as documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statemigrate.scripts.source.layout import Break, Doc, Indent
from statemigrate.scripts.source.literals import quoted


@dataclass(frozen=True)
class Entry:
    """One field of a dict literal, under the questions about it."""

    name: str
    value: Doc
    questions: tuple[Doc, ...] = ()


def item_of(base: Doc, name: str) -> Doc:
    """``base["name"]``."""
    return (base, "[", quoted(name), "]")


def call(function: Doc, *arguments: Doc) -> Doc:
    """``function(argument, ...)``."""
    parted = tuple(part for each in arguments for part in (", ", each))
    return (function, "(", *parted[1:], ")")


def unless_none(subject: Doc, instead: Doc, value: Doc) -> Doc:
    """``instead if subject is None else value``."""
    return (instead, " if ", subject, " is None else ", value)


def list_of(value: Doc, each: str, items: Doc) -> Doc:
    """``[value for each in items]``."""
    return ("[", value, f" for {each} in ", items, "]")


def assigned_or_empty(variable: str, value: Doc) -> Doc:
    """``variable = value or {}``, a line of a function's own body."""
    return (variable, " = ", value, " or {}")


def dict_of(value: Doc, each: str, items: Doc) -> Doc:
    """``{key: value for key, each in items.items()}``."""
    return ("{key: ", value, f" for key, {each} in ", items, ".items()}")


def dict_literal(entries: Sequence[Entry], remarks: Sequence[Doc] = ()) -> Doc:
    """``{"name": value, ...}``, one line a field, and below them ``remarks``, comments."""
    lines = [line for entry in entries for line in _entry(entry)]
    return _lines("{", [*lines, *remarks], "}")


def list_literal(items: Sequence[Doc]) -> Doc:
    """``[item, ...]``, one line an item."""
    return _lines("[", ((item, ",") for item in items), "]")


def _entry(entry: Entry) -> list[Doc]:
    return [*entry.questions, (f"{quoted(entry.name)}: ", entry.value, ",")]


def _lines(start: str, lines: Iterable[Doc], end: str) -> Doc:
    body = tuple((Break(), line) for line in lines)
    return (start, Indent(body), Break(), end) if body else start + end
