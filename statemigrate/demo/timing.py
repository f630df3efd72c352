"""How long each act of a demonstration takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class ActTimes:
    """Seconds by the names of acts, rounded to tenths."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        began = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - began, 1)

    def to_json(self) -> dict[str, float]:
        """Each act, and all of them together."""
        return {**self._seconds, "all": round(sum(self._seconds.values()), 1)}
