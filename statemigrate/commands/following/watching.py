"""Looking again and again: rates are from what was seen, and one look claims none."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from statemigrate.commands.following.fleet import Fleet, Look
from statemigrate.commands.following.status import Status

SPAN = 60.0
"""Seconds over which a rate is taken: batches come in bursts, and a pace changes."""


class Watched:
    """The looks at one checkpoint, those of about the last ``span`` seconds."""

    def __init__(self, span: float = SPAN) -> None:
        self._span = span
        self._looks: deque[Status] = deque()

    def after(self, found: Status) -> Status:
        """A new look, with rates since the oldest that is kept."""
        if self._looks and self._looks[-1].batch > found.batch:
            # Another checkpoint in the same place.
            self._looks.clear()
        while len(self._looks) > 1 and found.taken_at - self._looks[1].taken_at >= self._span:
            self._looks.popleft()
        self._looks.append(found)
        return found.since(self._looks[0]) if len(self._looks) > 1 else found.first


class WatchedFleet:
    """The looks at several checkpoints. One that cannot be read now is followed on later."""

    def __init__(self, span: float = SPAN) -> None:
        self._span = span
        self._watched: dict[str, Watched] = {}

    def after(self, found: Fleet) -> Fleet:
        """A new look at all of them, with rates."""
        return replace(found, looks=tuple(self._after(each) for each in found.looks))

    def _after(self, look: Look) -> Look:
        if look.status is None:
            return look
        watched = self._watched.setdefault(look.checkpoint.name, Watched(self._span))
        return replace(look, status=watched.after(look.status))
