"""Counting how large values are, at next to no cost a value."""

from __future__ import annotations

from collections import Counter

_MANY = 4_096


class Sizes:
    """Sizes in bytes: their sum, and how many there are by the power of two that holds them."""

    def __init__(self) -> None:
        self._total = 0
        self._powers: Counter[int] = Counter()
        self._noted: list[int] = []
        self._note = self._noted.append

    def note(self, size: int) -> None:
        """Count one value of ``size`` bytes."""
        self._note(size)
        # Working each size out by itself costs several times as much as a thousand at once.
        if len(self._noted) == _MANY:
            self._add()

    def counted(self) -> tuple[int, dict[int, int]]:
        """The sum, and the number of values that fit into each power of two of bytes."""
        self._add()
        return self._total, {1 << power: count for power, count in sorted(self._powers.items())}

    def _add(self) -> None:
        self._total += sum(self._noted)
        for size, count in Counter(self._noted).items():
            self._powers[(size - 1).bit_length() if size else 0] += count
        self._noted.clear()
