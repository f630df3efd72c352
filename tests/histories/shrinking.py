"""A failing history made shorter, as long as it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from history import History, Life

_PLAIN = {"early": False, "end": None, "retire": True, "write_on_read": True, "edited": [],
          "wrapper": "instance", "checkpoint": "right"}  # fmt: skip


def shrunk(history: History, fails: Callable[[History], bool], seconds: float) -> History:
    """Lives dropped, then parts of lives, until nothing more can go or the time is up."""
    ends, found = time.monotonic() + seconds, True
    while found and time.monotonic() < ends:
        found = False
        for smaller in _smaller(history):
            if time.monotonic() > ends:
                break
            if fails(smaller):
                history, found = smaller, True
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    lives = history.lives
    for at in reversed(range(len(lives))):
        if len(lives) > 1:
            yield _with(history, [*lives[:at], *lives[at + 1 :]])
    for at, life in enumerate(lives):
        for less in _less(life):
            yield _with(history, [*lives[:at], less, *lives[at + 1 :]])


def _less(life: Life) -> Iterator[Life]:
    for at in range(len(life.before)):
        yield _but(life, before=[*life.before[:at], *life.before[at + 1 :]])
    for at in range(len(life.feed)):
        if not life.end or life.end[0] == "sink":
            yield _but(life, feed=[*life.feed[:at], *life.feed[at + 1 :]])
    for name, value in _PLAIN.items():
        if getattr(life, name) != value:
            yield _but(life, **{name: value})
    for at, rows in enumerate(life.feed):
        if len(rows) > 1:
            for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                yield _but(life, feed=[*life.feed[:at], half, *life.feed[at + 1 :]])


def _but(life: Life, **changed: object) -> Life:
    return Life(**{**vars(life), **changed})  # type: ignore[arg-type]


def _with(history: History, lives: list[Life]) -> History:
    return History(**{**vars(history), "lives": lives})
