"""The checksum of many rows, apart from what computes it: who reads a report loads no numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_LIMIT = 1 << 64


@dataclass(frozen=True)
class Checksum:
    """The ``count`` of rows and the sums of their two hashes."""

    count: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        first, second = self.first + other.first, self.second + other.second
        return Checksum(self.count + other.count, first % _LIMIT, second % _LIMIT)

    @classmethod
    def of(cls, count: int, first: Any, second: Any) -> Checksum:
        """From sums as Spark or numpy give them: None for no rows, or negative."""
        return cls(count, int(first or 0) % _LIMIT, int(second or 0) % _LIMIT)

    @property
    def text(self) -> str:
        """The 128 bits as 32 hex characters."""
        return f"{self.first:016x}{self.second:016x}"

    @classmethod
    def from_text(cls, count: int, text: str) -> Checksum:
        """What `text` gave. Raises ValueError."""
        if len(text) != 32:
            raise ValueError(f"{text[:40]!r} are no 32 hex characters")
        return cls(count, int(text[:16], 16), int(text[16:], 16))
