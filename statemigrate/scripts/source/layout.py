"""Lays out source code as ``ruff format`` does: on one line where it fits, else broken.

A document is text, several documents in a row, or one of the marks below. What is in a group is
written on one line if that fits, else all lines of that group are broken, outer groups first.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 100
STEP = 4


@dataclass(frozen=True)
class Line:
    """A line break where its group is broken; ``flat`` where it is not."""

    flat: str = " "


@dataclass(frozen=True)
class Break:
    """A line break in any case. No group may hold one."""


@dataclass(frozen=True)
class Indent:
    """Lines inside are indented one step more."""

    body: Doc


@dataclass(frozen=True)
class Group:
    """Breaks all its own lines or none."""

    body: Doc


@dataclass(frozen=True)
class Comment:
    """A line of its own, with ``more`` at its end where there is room."""

    text: str
    more: str = ""


Doc = str | Comment | tuple["Doc", ...] | Line | Break | Indent | Group
_Pending = tuple[int, bool, Doc]


def flat(doc: Doc) -> str:
    """Return a document on one line."""
    match doc:
        case str():
            return doc
        case Comment():
            return doc.text + doc.more
        case Line():
            return doc.flat
        case Indent() | Group():
            return flat(doc.body)
        case Break():
            return "\n"
    return "".join(map(flat, doc))


def render(doc: Doc, indent: int = 0) -> str:
    """Return a document's text, its first line meant to start at column ``indent``."""
    text, column = "", indent
    rest: list[_Pending] = [(indent, True, doc)]
    while rest:
        margin, broken, part = rest.pop()
        match part:
            case str():
                text, column = text + part, column + len(part)
            case Comment():
                text += _comment(part, WIDTH - column)
            case Break() | Line() if broken or isinstance(part, Break):
                text, column = f"{text}\n{' ' * margin}", margin
            case Line():
                text, column = text + part.flat, column + len(part.flat)
            case Indent():
                rest.append((margin + STEP, broken, part.body))
            case Group():
                one_line = _fits(WIDTH - column, rest, part.body)
                rest.append((margin, not one_line, part.body))
            case tuple():
                rest += [(margin, broken, each) for each in reversed(part)]
    return text


def _comment(comment: Comment, room: int) -> str:
    whole = comment.text + comment.more
    text = whole if len(whole) <= room else comment.text
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _fits(room: int, rest: list[_Pending], doc: Doc) -> bool:
    room -= len(flat(doc))
    for _, broken, part in reversed(rest):
        head = _before_break(part, broken)
        room -= len(head[0])
        if head[1] or room < 0:
            break
    return room >= 0


def _before_break(doc: Doc, broken: bool) -> tuple[str, bool]:
    """Return what follows on the same line, and whether a line break ends it."""
    match doc:
        case Break():
            return "", True
        case Line():
            return ("", True) if broken else (doc.flat, False)
        case Indent():
            return _before_break(doc.body, broken)
        case tuple():
            return _row_before_break(doc, broken)
    return flat(doc), False


def _row_before_break(row: tuple[Doc, ...], broken: bool) -> tuple[str, bool]:
    text = ""
    for each in row:
        head, ended = _before_break(each, broken)
        text += head
        if ended:
            return text, True
    return text, False
