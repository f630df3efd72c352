"""Writes of a family that wait: a block costs half of what its writes cost one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

WriteMany = Callable[[Sequence[bytes], Sequence[bytes | None], Sequence[bytes | None]], None]
"""Takes keys, what the family holds of each before, and their values from now on."""
MOST = 1_024
"""Writes that wait at most."""
UNKNOWN: Any = bytes(bytearray(b"\x00 nobody has read it"))
"""In the place of a value before that nobody has read: told by identity. It is bytes, since looking
for it among bytes is then quick."""
_LARGE = 16 << 10
"""Bytes of a record that waits for nothing, so that what waits takes no memory to speak of."""


class Unwritten:
    """The last write of each key since the last block; None for a delete.

    Whoever reads the family's records looks into ``waiting`` first, or calls `flush` before. What
    was ``read`` of a key before is forgotten with its next write, but for the block, which says
    what each write replaces: that, or `UNKNOWN`.
    """

    def __init__(self, write_many: WriteMany, most: int) -> None:
        self.waiting: dict[bytes, bytes | None] = {}
        self.read: dict[bytes, bytes | None] = {}
        self._replaced: dict[bytes, bytes | None] = {}
        self._forget = self.read.pop
        self._replace = self._replaced.setdefault
        self._write_many = write_many
        self._most = most

    def write(self, key: bytes, value: bytes | None) -> None:
        """Write a value, or None for a delete, with the next block."""
        waiting = self.waiting
        waiting[key] = value
        # Of several writes of a key the first one replaces what the family holds.
        self._replace(key, self._forget(key, UNKNOWN))
        size = len(key) if value is None else len(key) + len(value)
        if len(waiting) >= self._most or size >= _LARGE:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self.waiting:
            replaced = list(self._replaced.values())
            self._write_many(list(self.waiting), replaced, list(self.waiting.values()))
            self.waiting.clear()
            self._replaced.clear()
