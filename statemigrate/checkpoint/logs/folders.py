"""Which line of the offset log each folder of ``sources/`` belongs to.

A query that reads one stream in several places has a line for each of them, and one folder: every
folder after that has another number than its line. Spark counts folders up as it meets sources, so
that a line is either that of the next folder or repeats one before it, with the same offset. What
the logs of the folders have reached tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statemigrate.checkpoint.logs.offsets import (
    Offsets,
    file_offset,
    folders_in,
    lines_of_sources,
    newest_offsets,
    reads_twice,
)
from statemigrate.errors import UnsupportedError
from statemigrate.files import Files


def lines_of_folders(files: Files, offsets: Offsets) -> dict[str, str]:
    """By folder of ``sources/``, the source in ``offsets`` whose line has its offset.

    A folder of a source that these offsets do not have is not among them. Raises `UnsupportedError`
    where the files leave it open which of two lines with different offsets is the folder's.
    """
    folders = folders_in(files, "sources")
    newest = newest_offsets(files) or offsets
    if not (reads_twice(files, offsets) or reads_twice(files, newest)):
        return {folder: folder for folder in folders if folder in offsets.by_source}
    known = lines_of_sources(files, newest, offsets.lines)
    return {
        str(number): str(_only(files, number, lines, offsets))
        for number in sorted(known.reached)
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
        f"that of sources/{number} cannot be determined",
        expected="one line of the offset log that fits the source's own log",
        found=f"lines {' and '.join(str(line + 1) for line in lines)} of its "
        f"{len(offsets.lines)} sources, with different offsets",
        next_action="let the query take another file from each of its sources, stop it, and run "
        "the same command again; a copy of the whole directory of the stopped query is one too",
        path=files.location,
    )
