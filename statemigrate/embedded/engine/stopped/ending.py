"""The queries of this process that run, or have ended and still hold what they held."""

from __future__ import annotations

from typing import Protocol


class Holding(Protocol):
    """A query that holds something, such as locks, until its end."""

    def has_ended(self) -> bool:
        """Whether it runs no longer."""

    def release(self) -> None:
        """Let go of what it holds."""


_holding: set[Holding] = set()


def holds(query: Holding) -> None:
    """Note a query that holds something from now on."""
    _holding.add(query)


def holds_nothing(query: Holding) -> None:
    """Note that it has let go."""
    _holding.discard(query)


def release_ended() -> None:
    """Release what queries of this process hold that have ended, whoever waited for that.

    Each releases its locks by itself, a moment after its end; who starts the next one at once, as
    after ``awaitAnyTermination``, must not depend on which is faster.
    """
    for each in list(_holding):
        if each.has_ended():
            each.release()
