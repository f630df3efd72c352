"""What a comparison says of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Found:
    """A sentence about what is ``fine``, what is a ``problem``, or what could not be ``tried``."""

    text: str
    kind: Literal["fine", "problem", "untried"]

    @classmethod
    def of(cls, text: str, *, is_fine: bool) -> Found:
        """Of something that was compared."""
        return cls(text, "fine" if is_fine else "problem")
