"""The words of Spark's DDL, and where each stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["word", "name", "text", "sign"]
_WORDS = re.compile(
    r"""
      (?P<skipped> \s+ | --[^\r\n]* | /\*(?:(?!/\*).)*?\*/ )
    | (?P<word> \w+ )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<sign> <> | . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Word:
    """A word as it is written, a quoted ``name`` or ``text``, or a ``sign``; ``end`` is past it."""

    kind: Kind
    text: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Split a text; comments and blanks are left out, a quoted name is without its quotes."""
    found = []
    for match in _WORDS.finditer(text):
        kind = match.lastgroup
        if kind == "name":
            name = match[0][1:-1].replace("``", "`")
            found.append(Word("name", name, match.start(), match.end()))
        elif kind != "skipped":
            found.append(Word(cast(Kind, kind), match[0], match.start(), match.end()))
    return found


def quoted(name: str) -> str:
    """A name in quotes, as Spark takes one that has any characters."""
    return "`" + name.replace("`", "``") + "`"
