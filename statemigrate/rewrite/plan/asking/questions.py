"""What a rewrite cannot know, and what its author said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from statemigrate.errors import RewriteError

Kind = Literal[
    "start",
    "take",
    "drop",
    "merge",
    "gone",
    "watermark",
    "source",
    "begin",
    "empty",
    "partitions",
    "state",
    "expiry",
]


@dataclass(frozen=True)
class Question:
    """Something that only the author knows: ``text`` asks, ``proposal`` is what --accept means.

    ``name`` is what it is about, as ``aggregation-0.max``; None as a proposal means that there is
    none. ``answer`` is how to answer on the command line.
    """

    name: str
    kind: Kind
    text: str
    proposal: str | None
    answer: str


@dataclass(frozen=True)
class RewriteAnswers:
    """What the author said, each by the name of what it is about.

    ``accept`` takes what was proposed; ``start`` has plain values of JSON for fields that old rows
    lack; ``take`` has the old field, or the old state, that a new one goes on with, or several
    states with commas between; ``operators`` the new number of an old operator, None for one that
    goes.
    """

    accept: frozenset[str] = frozenset()
    start: Mapping[str, Any] = field(default_factory=dict)
    take: Mapping[str, str] = field(default_factory=dict)
    operators: Mapping[int, int | None] = field(default_factory=dict)

    def take_by_store(self) -> dict[str, dict[str, str | None]]:
        """By store and field the old field that it goes on with, None where it starts anew."""
        found: dict[str, dict[str, str | None]] = {}
        for name, source in {**dict.fromkeys(self.start), **self.take}.items():
            for store, field_name in _splits(name):
                found.setdefault(store, {})[field_name] = source
        return found

    def check_used(self, known: set[str]) -> None:
        """Raise `RewriteError` for an answer to what was not asked."""
        unused = sorted({*self.accept, *self.start, *self.take} - known)
        if unused:
            raise RewriteError(
                f"there is nothing to say about {', '.join(unused)}",
                expected=f"one of {', '.join(sorted(known))}" if known else "no answer",
                found=unused[0],
                next_action="correct the name, or leave the answer out",
            )


def _splits(name: str) -> list[tuple[str, str]]:
    """``store.field`` in every way that it may be meant: both may have dots."""
    parts = name.split(".")
    return [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts))]


@dataclass(frozen=True)
class Answered:
    """A question and what was said to it, as the new checkpoint's record keeps them."""

    question: Question
    said: str
