"""How a command tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int | None], None]
"""Is told from time to time how much is done, and of how much; None where that is not known."""


def unseen(_done: int, _total: int | None) -> None:
    """Nobody looks."""
