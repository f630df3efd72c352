"""Lays out source code: one entry a line. How long a line may be is for the team's formatter.

A document is text, several documents in a row, or one of the marks below.
"""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.scripts.source.comments import comment

STEP = 4
_COMMENT = 100


@dataclass(frozen=True)
class Break:
    """A line break."""


@dataclass(frozen=True)
class Indent:
    """Lines inside are indented one step more."""

    body: Doc


@dataclass(frozen=True)
class Comment:
    """What a comment says, with ``more`` at its end where there is room: no formatter folds one."""

    text: str
    more: str = ""


Doc = str | Comment | tuple["Doc", ...] | Break | Indent


def render(doc: Doc, margin: int = 0) -> str:
    """Return a document's text, its lines but the first indented by ``margin``."""
    match doc:
        case str():
            return doc
        case Comment():
            return _comment(doc, _COMMENT - margin)
        case Break():
            return f"\n{' ' * margin}"
        case Indent():
            return render(doc.body, margin + STEP)
    return "".join(render(each, margin) for each in doc)


def _comment(said: Comment, room: int) -> str:
    whole = comment(said.text + said.more)
    return whole if len(whole) <= room else comment(said.text, room)
