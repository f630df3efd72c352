"""The offset log of a stopped query on a local disk, as a source is added to it or taken away.

`statemigrate.checkpoint.offsets` says what a file of the log looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from statemigrate.checkpoint.offsets import NO_OFFSET, batches_in, parse_offsets, unknown
from statemigrate.errors import CheckpointError
from statemigrate.files import ConfinedPath, local_path


@dataclass(frozen=True)
class OffsetFile:
    """A file of the offset log. ``offsets`` has a line for each source, ``named`` with its name."""

    path: ConfinedPath
    data: bytes
    named: bool
    offsets: tuple[str, ...]

    @property
    def batch(self) -> int:
        """The id of its batch."""
        return int(self.path.name)

    @property
    def checksum_file(self) -> ConfinedPath:
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
        self.root = ConfinedPath(self.checkpoint)
        if not (self.root / "metadata").is_file():
            raise CheckpointError(
                f"{checkpoint} is not the checkpoint of a streaming query",
                expected="a directory with the file metadata and the folders offsets and commits",
                found=_listing(self.root),
                next_action="name the directory that the query has as its checkpointLocation",
                path=str(self.checkpoint),
            )

    @cached_property
    def last_batch(self) -> int | None:
        """The newest batch whose offsets were written, whether or not it was committed."""
        return max(_batches(self.root / "offsets"), default=None)

    @cached_property
    def last_commit(self) -> int | None:
        """The newest batch that was committed."""
        return max(_batches(self.root / "commits"), default=None)

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
        return tuple(read_offsets(self.root / f"offsets/{each}") for each in numbers)

    def source_directory(self, number: int) -> ConfinedPath:
        """Where Spark lets a source keep files of its own; sources are counted from 0."""
        return self.root / f"sources/{number}"

    def used_sources(self) -> tuple[int, ...]:
        """The numbers of the sources that keep files in the checkpoint; not every source does.

        A start that failed leaves an empty directory, which does not count.
        """
        directories = self.root / "sources"
        names = directories.names() if directories.is_dir() else []
        used = (number for number in batches_in(names) if _used(self.source_directory(number)))
        return tuple(sorted(used))


def read_offsets(path: ConfinedPath) -> OffsetFile:
    """Read one file of the log. Raises `CheckpointError` for a layout that is not known."""
    if not path.is_file():
        raise unknown(
            str(path), "a file, which Spark needs to start the query again", "no such file"
        )
    data = path.read_bytes()
    found = parse_offsets(data, str(path))
    return OffsetFile(path, data, found.named, offsets=found.lines)


def _batches(directory: ConfinedPath) -> list[int]:
    if not directory.is_dir():
        return []
    return batches_in(each.name for each in directory.iterdir() if each.is_file())


def _used(directory: ConfinedPath) -> bool:
    if not directory.is_dir():
        return False
    return any(
        _used(each) if each.is_dir() else each.suffix != ".crc" for each in directory.iterdir()
    )


def _listing(directory: ConfinedPath) -> str:
    if not directory.is_dir():
        return "no such directory"
    return ", ".join(directory.names()[:8]) or "an empty directory"


def _local(checkpoint: str) -> Path:
    path = local_path(checkpoint)
    if path is not None:
        return path
    raise CheckpointError(
        f"{checkpoint} is not on a local file system",
        expected="a local or mounted directory, where files can be replaced atomically",
        found=f"a {checkpoint.partition(':')[0]} URI",
        next_action="mount the file system; or copy the checkpoint to a local directory, run "
        "the command there, and copy the folders offsets and statemigrate back, with no others",
        path=checkpoint,
    )
