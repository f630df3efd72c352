"""Which lines of an offset log may be those of each source, by their order and how far logs came.

A line is either that of the next source or repeats one before it, with the same offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_AHEAD = 1
"""A file is in a source's log before its batch is in that of offsets."""


@dataclass(frozen=True)
class SourceLines:
    """The lines of the newest offsets, and of an earlier batch, and how far logs ``reached``.

    ``offsets`` has what the newest lines say of a file source, as `file_offset`; ``reached`` is by
    the folder's number, None for one without a file source's log. ``ahead`` is by how many batches
    a log may be further than its offset.
    """

    newest: Sequence[str]
    offsets: Sequence[int | None]
    reached: Mapping[int, int | None]
    earlier: Sequence[str] = ()
    ahead: int = _AHEAD

    def of(self, number: int) -> list[int]:
        """The lines that may be the first of a folder.

        Where logs and offsets can be read as equally far, they are: a log is ahead only where a
        query was killed between the two.
        """
        level = replace(self, ahead=0)._lines_of(number)
        return level if len(level) == 1 else self._lines_of(number)

    def _lines_of(self, number: int) -> list[int]:
        before, after = self._before(), self._after()
        return [
            line
            for line in range(len(self.newest))
            if number in before[line]
            and self._fits(number, line)
            and any(self._is_whole(number + 1 + more) for more in after[line + 1][number + 1])
        ]

    def _before(self) -> list[set[int]]:
        """By line, how many folders there may be before it."""
        found: list[set[int]] = [{0}]
        for line in range(len(self.newest)):
            repeats = found[line] if self._may_repeat(line) else set()
            begins = {count + 1 for count in found[line] if self._fits(count, line)}
            found.append(set(repeats) | begins)
        return found

    def _after(self) -> list[dict[int, set[int]]]:
        """By line and how many folders were before it, how many more there may be from it on."""
        count = len(self.newest)
        found: list[dict[int, set[int]]] = [{n: {0} for n in range(count + 1)}]
        for line in reversed(range(count)):
            rest = found[0]
            here = {
                n: (rest[n] if self._may_repeat(line) else set())
                | ({1 + more for more in rest[n + 1]} if self._fits(n, line) else set())
                for n in range(line + 1)
            }
            found.insert(0, here)
        return found

    def _is_whole(self, count: int) -> bool:
        # In a bucket there is no folder of a source that has taken nothing.
        return count > max(self.reached, default=-1)

    def _may_repeat(self, line: int) -> bool:
        return any(self._texts(line) == self._texts(other) for other in range(line))

    def _texts(self, line: int) -> tuple[str, ...]:
        return tuple(lines[line] for lines in (self.newest, self.earlier) if line < len(lines))

    def _fits(self, number: int, line: int) -> bool:
        """Whether the log of a folder has come as far as a line says."""
        offset = self.offsets[line]
        reached = self.reached.get(number)
        if offset is None:
            # Of a source that is none of files.
            return reached is None or reached < 0
        return (-1 if reached is None else reached) in (offset, offset + self.ahead)
