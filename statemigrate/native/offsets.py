"""Spark's offset log, as far as its layout matters to a source that is added or taken away.

A file of ``offsets/`` is named after its batch. Version 1 of its format has a line ``v1``, a line
with the batch's metadata as JSON, and a line for each source in the order of the query: the JSON
of its offset, or ``-`` where it has none yet. Version 2 has the source's name and a colon before
each, so that sources can come and go. The format is that of Spark's ``OffsetSeqLog``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from statemigrate.errors import CheckpointError
from statemigrate.files import parse_json

NO_OFFSET = "-"
"""The line of a source that has no offset yet."""

_BATCH = re.compile(r"0|[1-9][0-9]*")
_COPY = "look at the file; restore it from a copy of the checkpoint if it was altered"


@dataclass(frozen=True)
class OffsetFile:
    """A file of the offset log. ``offsets`` has a line for each source, ``named`` with its name."""

    path: Path
    data: bytes
    named: bool
    offsets: tuple[str, ...]

    @property
    def batch(self) -> int:
        """The id of its batch."""
        return int(self.path.name)

    @property
    def checksum_file(self) -> Path:
        """Where Hadoop's local file system keeps the file's checksum."""
        return self.path.with_name(f".{self.path.name}.crc")

    def with_one_more(self) -> bytes:
        """The content with room for one more source at the end."""
        between = b"" if self.data.endswith(b"\n") else b"\n"
        return self.data + between + NO_OFFSET.encode()

    def without_last(self) -> bytes:
        """The content without the last source."""
        return self.data.removesuffix(b"\n").rpartition(b"\n")[0]


class OffsetLog:
    """The offset log of a query, and the directories around it.

    ``checkpoint`` is the query's checkpoint directory, a local path or a ``file:`` URI. Raises
    `CheckpointError` for what is not one.
    """

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = _local(checkpoint)
        if not (self.checkpoint / "metadata").is_file():
            raise CheckpointError(
                f"{checkpoint} is not the checkpoint of a streaming query",
                expected="a directory with the file metadata and the folders offsets and commits",
                found=_listing(self.checkpoint),
                next_action="name the directory that the query has as its checkpointLocation",
                path=str(self.checkpoint),
            )

    @cached_property
    def last_batch(self) -> int | None:
        """The newest batch whose offsets were written, whether or not it was committed."""
        return max(_batches(self.checkpoint / "offsets"), default=None)

    @cached_property
    def last_commit(self) -> int | None:
        """The newest batch that was committed."""
        return max(_batches(self.checkpoint / "commits"), default=None)

    def read_on_restart(self) -> tuple[OffsetFile, ...]:
        """The files that Spark reads when the query starts again, oldest first.

        They are the newest and the one before it, whether or not the newest was committed; none if
        there was no batch yet. Raises `CheckpointError` for a log that Spark would not go on with,
        or whose layout is unknown.
        """
        newest = self.last_batch
        if newest is None:
            return ()
        if (self.last_commit or 0) > newest:
            raise CheckpointError(
                f"the logs of {self.checkpoint} do not belong together",
                expected="no commit after the newest batch in offsets/",
                found=f"batch {self.last_commit} in commits/, batch {newest} in offsets/",
                next_action="restore both folders from one copy of the checkpoint",
                path=str(self.checkpoint),
            )
        numbers = range(max(newest - 1, 0), newest + 1)
        return tuple(read_offsets(self.checkpoint / "offsets" / str(each)) for each in numbers)

    def source_directory(self, number: int) -> Path:
        """Where Spark lets a source keep files of its own; sources are counted from 0."""
        return self.checkpoint / "sources" / str(number)

    def used_sources(self) -> tuple[int, ...]:
        """The numbers of the sources that keep files in the checkpoint; not every source does.

        A start that failed leaves an empty directory, which does not count.
        """
        directories = self.checkpoint / "sources"
        found = directories.iterdir() if directories.is_dir() else ()
        return tuple(
            sorted(int(at.name) for at in found if _BATCH.fullmatch(at.name) and _used(at))
        )


def read_offsets(path: Path) -> OffsetFile:
    """Read one file of the log. Raises `CheckpointError` for a layout that is not known."""
    if not path.is_file():
        raise _unknown(path, "a file, which Spark needs to start the query again", "no such file")
    data = path.read_bytes()
    try:
        lines = data.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise _unknown(path, "text in UTF-8", str(error)) from error
    if lines[0] not in ("v1", "v2"):
        raise _unknown(path, "v1 or v2 in the first line", _short(lines[0]))
    if not isinstance(_json(lines[1] if len(lines) > 1 else ""), dict):
        raise _unknown(path, "the batch's metadata, a JSON object, in line 2", _short(*lines[1:2]))
    named = lines[0] == "v2"
    _check_offsets(path, lines[2:], named=named)
    return OffsetFile(path, data, named, offsets=tuple(lines[2:]))


def _check_offsets(path: Path, lines: list[str], *, named: bool) -> None:
    if not lines:
        raise _unknown(path, "a line for each source after line 2", "no further line")
    for number, line in enumerate(lines, start=3):
        name, colon, offset = line.partition(":") if named else ("", "", line)
        # Spark ends a line at a carriage return too, and would count one source more.
        known = (offset == NO_OFFSET or _json(offset) is not None) and "\r" not in line
        if not known or (named and not (name and colon)):
            expected = f"JSON or {NO_OFFSET} in line {number}"
            raise _unknown(path, f"a name and {expected}" if named else expected, _short(line))


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _short(*lines: str) -> str:
    text = "\n".join(lines)
    return repr(text if len(text) <= 60 else f"{text[:60]}...") if text else "nothing"


def _unknown(path: Path, expected: str, found: str) -> CheckpointError:
    return CheckpointError(
        f"{path} is not an offset file of a known layout",
        expected=expected,
        found=found,
        next_action=_COPY,
        path=str(path),
    )


def _batches(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    files = (each for each in directory.iterdir() if _BATCH.fullmatch(each.name))
    return [int(each.name) for each in files if each.is_file()]


def _used(directory: Path) -> bool:
    return any(each.is_file() and each.suffix != ".crc" for each in directory.rglob("*"))


def _listing(directory: Path) -> str:
    if not directory.is_dir():
        return "no such directory"
    names = sorted(each.name for each in directory.iterdir())
    return ", ".join(names[:8]) or "an empty directory"


def _local(checkpoint: str) -> Path:
    parsed = urlparse(checkpoint)
    if parsed.scheme == "file":
        return Path(unquote(parsed.path))
    if "://" in checkpoint:
        raise CheckpointError(
            f"{checkpoint} is not on a local file system",
            expected="a local or mounted directory, where files can be replaced atomically",
            found=f"a {parsed.scheme} URI",
            next_action="mount the file system, or copy the checkpoint without its folder state to "
            "a local directory, run the command there and copy what it says it changed back",
            path=checkpoint,
        )
    return Path(checkpoint).absolute()
