"""The offset log of a stopped query, as a source is added to it or taken away.

`statemigrate.checkpoint.logs.offsets` says what a file of the log looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs.offsets import NO_OFFSET, batches_in, parse_offsets, unknown
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.files.opening import Place, open_files


@dataclass(frozen=True)
class OffsetFile:
    """A file of the offset log, ``name`` below the checkpoint.

    ``offsets`` has a line for each source, ``named`` with its name.
    """

    name: str
    data: bytes
    named: bool
    offsets: tuple[str, ...]

    @property
    def batch(self) -> int:
        """The id of its batch."""
        return int(self.base_name)

    @property
    def base_name(self) -> str:
        """The name within the log."""
        return self.name.rpartition("/")[2]

    @property
    def checksum_file(self) -> str:
        """Where Hadoop's local file system keeps the file's checksum."""
        return checksum_of(self.name)

    def with_one_more(self) -> bytes:
        """The content with room for one more source at the end."""
        between = b"" if self.data.endswith(b"\n") else b"\n"
        return self.data + between + NO_OFFSET.encode()

    def without_last(self) -> bytes:
        """The content without the last source."""
        return self.data.removesuffix(b"\n").rpartition(b"\n")[0]


def checksum_of(name: str) -> str:
    """Where Hadoop's local file system keeps a file's checksum."""
    folder, _, last = name.rpartition("/")
    return f"{folder}/.{last}.crc"


class OffsetLog:
    """The offset log of a query, and the directories around it.

    ``checkpoint`` is the query's checkpoint directory, a path or URI. Raises `CheckpointError` for
    what is not one.
    """

    def __init__(self, checkpoint: Place) -> None:
        self.files = open_files(checkpoint)
        self.checkpoint = self.files.location
        try:
            metadata = self.files.get("metadata")
        except FileNotFoundError as error:
            raise CheckpointError(
                "SM-CHECKPOINT-001",
                f"{checkpoint} is not the checkpoint of a streaming query",
                expected="a directory with the file metadata and the folders offsets and commits",
                found=_listing(self.files),
                next_action="name the directory that the query has as its checkpointLocation",
                path=self.checkpoint,
            ) from error
        CheckpointDirectory(self.files).refuse_unfinished(metadata)

    @cached_property
    def last_batch(self) -> int | None:
        """The newest batch whose offsets were written, whether or not it was committed."""
        return max(_batches(self.files, "offsets"), default=None)

    @cached_property
    def last_commit(self) -> int | None:
        """The newest batch that was committed."""
        return max(_batches(self.files, "commits"), default=None)

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
                "SM-CHECKPOINT-025",
                f"the logs of {self.checkpoint} do not belong together",
                expected="no commit after the newest batch in offsets/",
                found=f"batch {self.last_commit} in commits/, batch {newest} in offsets/",
                next_action="restore both folders from one copy of the checkpoint",
                path=self.checkpoint,
            )
        numbers = range(max(newest - 1, 0), newest + 1)
        return tuple(read_offsets(self.files, f"offsets/{each}") for each in numbers)

    def source_directory(self, number: int) -> str:
        """Where Spark lets a source keep files of its own; sources are counted from 0."""
        return f"sources/{number}"

    def used_sources(self) -> tuple[int, ...]:
        """The numbers of the sources that keep files in the checkpoint; not every source does.

        A start that failed leaves an empty directory, which does not count.
        """
        found = self.files.list("sources", recursive=True)
        kept = (each.name.split("/")[1] for each in found if not each.name.endswith(".crc"))
        return tuple(sorted(set(batches_in(kept))))


def read_offsets(files: Files, name: str) -> OffsetFile:
    """Read one file of the log. Raises `CheckpointError` for a layout that is not known."""
    path = f"{files.location}/{name}"
    try:
        data = files.get(name)
    except FileNotFoundError as error:
        expected = "a file, which Spark needs to start the query again"
        raise unknown(path, expected, "no such file") from error
    found = parse_offsets(data, path)
    return OffsetFile(name, data, found.named, offsets=found.lines)


def _batches(files: Files, folder: str) -> list[int]:
    return batches_in(each.base_name for each in files.list(folder) if each.kind != "folder")


def _listing(files: Files) -> str:
    directory = files.find()
    if directory is None or directory.kind != "folder":
        return "no such directory"
    return ", ".join([each.base_name for each in files.list()][:8]) or "an empty directory"
