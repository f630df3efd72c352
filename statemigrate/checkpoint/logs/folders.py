"""Which line of the offset log each folder of ``sources/`` belongs to.

A query that reads one stream in several places has a line for each of them, and one folder: every
folder after that has another number than its line. Spark counts folders up as it meets sources, so
that a line is either that of the next folder or repeats one before it, with the same offset. What
the logs of the folders have reached tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statemigrate.checkpoint.logs.offsets import (
    NO_OFFSET,
    Offsets,
    file_offset,
    folders_in,
    log_reached,
    newest_offsets,
    reads_twice,
)
from statemigrate.errors import UnsupportedError
from statemigrate.files import Files

_AHEAD = 1
"""A file is in a source's log before its batch is in that of offsets."""


def lines_of_folders(files: Files, offsets: Offsets) -> dict[str, str]:
    """By folder of ``sources/``, the source in ``offsets`` whose line has its offset.

    A folder of a source that these offsets do not have is not among them. Raises `UnsupportedError`
    where the files leave it open which of two lines with different offsets is the folder's.
    """
    folders = folders_in(files, "sources")
    newest = newest_offsets(files) or offsets
    if not (reads_twice(files, offsets) or reads_twice(files, newest)):
        return {folder: folder for folder in folders if folder in offsets.by_source}
    numbers = [int(folder) for folder in folders if folder.isdecimal()]
    reached = {number: log_reached(files, str(number)) for number in numbers}
    known = _Lines(newest.lines, offsets.lines, reached)
    return {
        str(number): str(_only(files, number, lines, offsets))
        for number in sorted(numbers)
        if (lines := [line for line in known.of(number) if line < len(offsets.lines)])
    }


def is_read_twice(offsets: Offsets, lines: Mapping[str, str]) -> bool:
    """Whether one of the sources is certainly read in several places.

    ``lines`` are those that the folders have by these ``offsets``. In a bucket a source that has
    taken nothing has no folder, so that fewer folders alone say nothing.
    """
    if offsets.named:
        return False
    own = set(lines.values())
    others = (file_offset(text) for name, text in offsets.by_source.items() if name not in own)
    return any(folder != line for folder, line in lines.items()) or any(
        # What has taken files has a folder: its own, or that of another line.
        offset is not None and offset >= 0
        for offset in others
    )


def _only(files: Files, number: int, lines: Sequence[int], offsets: Offsets) -> int:
    if len({offsets.lines[line] for line in lines}) == 1:
        return lines[0]
    raise UnsupportedError(
        "SM-CHECKPOINT-034",
        f"the query of {files.location} reads one stream in several places, and which offset is "
        f"that of sources/{number} cannot be told",
        expected="one line of the offset log that fits the source's own log",
        found=f"lines {' and '.join(str(line + 1) for line in lines)} of its "
        f"{len(offsets.lines)} sources, with different offsets",
        next_action="let the query take another file from each of its sources, stop it, and run "
        "the same command again; a copy of the whole directory of the stopped query is one too",
        path=files.location,
    )


@dataclass(frozen=True)
class _Lines:
    """The lines of the ``newest`` offsets, of an ``earlier`` batch, and how far logs ``reached``.

    By the folder's number; None is a folder without a file source's log.
    """

    newest: Sequence[str]
    earlier: Sequence[str]
    reached: Mapping[int, int | None]

    def of(self, number: int) -> list[int]:
        """The lines that may be the first of a folder."""
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
        text = self.newest[line]
        offset = file_offset(None if text == NO_OFFSET else text)
        reached = self.reached.get(number)
        if offset is None:
            # Of a source that is none of files.
            return reached is None or reached < 0
        return (-1 if reached is None else reached) in (offset, offset + _AHEAD)
