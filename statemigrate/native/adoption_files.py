"""The files of an adoption: the offset log, as a source is added to it or taken away, and a record.

`statemigrate.checkpoint.logs.offsets` says what a file of the log looks like. The record is
``statemigrate/adoption/<n>/record.json`` in the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, get_args

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.logs import (
    NO_OFFSET,
    batches_in,
    names_in,
    parse_offsets,
    unknown,
)
from statemigrate.checkpoint.operators import OperatorFile, is_at, operator_files
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import Files, PathOrFiles, open_files, parse_json
from statemigrate.native.chunks import ADOPTIONS
from statemigrate.native.moved import uri_of

Progress = Literal["adopting", "adopted", "undoing", "undone"]

FORMAT = 1
"""The version of the record."""


@dataclass(frozen=True)
class SavedFile:
    """An offset file that was changed: its batch, and the SHA-256 (hex) before and after."""

    batch: int
    before: str
    after: str


@dataclass(frozen=True)
class AdoptionRecord:
    """An adoption: how far it is, the number of sources before it, the files, and when (UTC)."""

    progress: Progress
    sources: int
    files: tuple[SavedFile, ...]
    since: str


def parse_record(data: bytes, path: str) -> AdoptionRecord:
    """Read what `Backup.write` wrote. Raises `CorruptFileError`."""
    try:
        return _record(parse_json(data))
    except (ValueError, KeyError, TypeError) as error:
        raise altered(path, f"JSON of format {FORMAT}", str(error)) from error


def _record(document: Any) -> AdoptionRecord:
    if document["format"] != FORMAT or document["progress"] not in get_args(Progress):
        raise ValueError(f"format {document['format']}, progress {document['progress']}")
    files = tuple(
        SavedFile(int(each["batch"]), str(each["before"]), str(each["after"]))
        for each in document["files"]
    )
    return AdoptionRecord(
        document["progress"], int(document["sources"]), files, str(document["since"])
    )


def altered(path: str, expected: str, found: str) -> CorruptFileError:
    """A file of an adoption is not what was written."""
    return CorruptFileError(
        "SM-ADOPT-016",
        f"{path} is not what was written",
        expected=expected,
        found=found,
        next_action="restore the file from a copy of the checkpoint",
        path=path,
    )


def newest_adoption(records: dict[str, bytes]) -> AdoptionRecord | None:
    """The last of what `ChunkFiles.adoptions` gives."""
    if not records:
        return None
    newest = max(records, key=lambda path: int(path.split("/")[-2]))
    return parse_record(records[newest], newest)


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

    def __init__(self, checkpoint: PathOrFiles) -> None:
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


# What an adoption keeps of the checkpoint: the files as they were, and a record of what was done.
#
# ``<checkpoint>/statemigrate/adoption/<n>`` belongs to the n-th adoption. It holds ``record.json``,
# ``offsets/`` with the original files and their checksum files, ``undone/`` with the files as they
# were before the adoption was undone, and ``sources/`` with what the removed source had kept.


_RECORD = "record.json"


@dataclass(frozen=True)
class Backup:
    """One adoption's directory, as a name below the checkpoint, and its record."""

    files: Files
    directory: str
    record: AdoptionRecord

    @property
    def location(self) -> str:
        """The directory as a path or URI."""
        return f"{self.files.location}/{self.directory}"

    @property
    def is_begun(self) -> bool:
        """Whether its record is there."""
        return self.files.find(f"{self.directory}/{_RECORD}") is not None

    def covers(self, found: Iterable[OffsetFile]) -> bool:
        """Whether each file is here as it is in the checkpoint now."""
        known = {(each.batch, each.before) for each in self.record.files}
        return all((file.batch, sha256(file.data)) in known for file in found)

    def original(self, file: OffsetFile) -> tuple[bytes, bytes | None] | None:
        """What an adopted file and its checksum file were; None if it is not as adopted."""
        for each in self.record.files:
            if (each.batch, each.after) == (file.batch, sha256(file.data)):
                saved = f"{self.directory}/offsets/{file.base_name}"
                data = self.files.get(saved)
                if sha256(data) != each.before:
                    path = f"{self.files.location}/{saved}"
                    raise altered(path, f"SHA-256 {each.before}", sha256(data))
                return data, _content(self.files, checksum_of(saved))
        return None

    def write(self, progress: Progress) -> Backup:
        """Record how far the adoption is."""
        record = replace(self.record, progress=progress, since=datetime.now(UTC).isoformat())
        document = json.dumps({"format": FORMAT, **asdict(record)}, indent=2)
        self.files.replace(f"{self.directory}/{_RECORD}", document.encode())
        return replace(self, record=record)

    def save(self, found: Iterable[OffsetFile], folder: str = "offsets") -> Iterator[str]:
        """Copy files with their checksum files, each a step."""
        for file in found:
            copy = f"{self.directory}/{folder}/{file.base_name}"
            checksum = _content(self.files, file.checksum_file)
            if checksum is not None:
                self.files.replace(checksum_of(copy), checksum, like=file.checksum_file)
            self.files.replace(copy, file.data, like=file.name)
            yield f"copied {file.name} to {self.directory}/{folder}"

    def free_path(self, source: int) -> str:
        """Where the directory of a removed source can go."""
        at = f"{self.directory}/sources/{source}"
        number = 1
        while self.files.find(at if number == 1 else f"{at}-{number}") is not None:
            number += 1
        return at if number == 1 else f"{at}-{number}"


def new_backup(files: Files, sources: int, found: Iterable[OffsetFile]) -> Backup:
    """The backup of an adoption that begins; nothing is written yet."""
    number = max(batches_in(names_in(files, ADOPTIONS)), default=0) + 1
    saved = tuple(
        SavedFile(file.batch, sha256(file.data), sha256(file.with_one_more())) for file in found
    )
    return Backup(files, f"{ADOPTIONS}/{number}", AdoptionRecord("adopting", sources, saved, ""))


def last_backup(files: Files) -> Backup | None:
    """The newest adoption that got as far as its record."""
    for number in sorted(batches_in(names_in(files, ADOPTIONS)), reverse=True):
        directory = f"{ADOPTIONS}/{number}"
        data = _content(files, f"{directory}/{_RECORD}")
        if data is not None:
            path = f"{files.location}/{directory}/{_RECORD}"
            return Backup(files, directory, parse_record(data, path))
    return None


def before_adoptions(files: Files, batch: int, data: bytes) -> Iterator[bytes]:
    """What the offset file of a batch, which has this ``data``, was before each adoption, back.

    Raises `CorruptFileError` for a copy that is not what was saved.
    """
    for number in sorted(batches_in(names_in(files, ADOPTIONS)), reverse=True):
        directory = f"{ADOPTIONS}/{number}"
        record = _content(files, f"{directory}/{_RECORD}")
        if record is None:
            continue
        path = f"{files.location}/{directory}/{_RECORD}"
        saved = Backup(files, directory, parse_record(record, path))
        # Of the file itself its batch and its content count.
        original = saved.original(OffsetFile(f"offsets/{batch}", data, named=False, offsets=()))
        if original is not None:
            data = original[0]
            yield data


def _content(files: Files, name: str) -> bytes | None:
    try:
        return files.get(name)
    except FileNotFoundError:
        return None


def sha256(data: bytes) -> str:
    """The SHA-256 of a file's content, as hex."""
    return hashlib.sha256(data).hexdigest()


# A checkpoint that was moved: what Spark noted in it still names the place where it was written.
#
# Spark starts a query only if it finds the schemas of the state where the operators' metadata say,
# by absolute path. In a copy whose original is gone it fails; with the original there it would read
# that.


KEPT = "statemigrate/adoption/moved"
"""Where the metadata are kept as they were, below the checkpoint."""


@dataclass(frozen=True)
class Relocation:
    """The operators' metadata that name another place, as they are now."""

    checkpoint: Files
    files: tuple[OperatorFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, below the checkpoint."""
        return tuple(each.path for each in self.files)

    @property
    def roots(self) -> tuple[str, ...]:
        """The places that they name."""
        return tuple(sorted({root for each in self.files for root in each.roots}))

    def steps(self) -> Iterator[str]:
        """Rewrite them one by one; after a crash the next run does what is left."""
        for file in self.files:
            digest = hashlib.sha256(file.data).hexdigest()[:16]
            kept = f"{KEPT}/{digest}/{file.path}"
            self.checkpoint.replace(kept, file.data, like=file.path)
            yield f"copied {file.path} to {KEPT}/{digest}"
            # A file without a checksum is read, and one with a wrong one is not.
            self.checkpoint.delete([checksum_of(file.path)])
            yield f"removed the checksum file of {file.path}"
            rewritten = file.rooted_at(uri_of(self.checkpoint)).data
            self.checkpoint.replace(file.path, rewritten)
            yield f"replaced {file.path}"


def plan_relocation(checkpoint: Files) -> Relocation:
    """What names another place than this one; of no file where nothing was moved.

    Raises `CheckpointError` where the schemas were left behind.
    """
    uri = uri_of(checkpoint)
    moved = tuple(
        file
        for file in operator_files(checkpoint)
        if not all(is_at(each, uri) for each in file.roots)
    )
    for file in moved:
        _check_schemas(checkpoint, file)
    return Relocation(checkpoint, moved)


def _check_schemas(checkpoint: Files, file: OperatorFile) -> None:
    missing = [name for name in file.schemas if checkpoint.find(name) is None]
    if missing:
        raise CheckpointError(
            "SM-CHECKPOINT-027",
            f"{checkpoint.location} was moved without all of its files",
            expected=f"{missing[0]}, which {file.path} names",
            found="no such file",
            next_action="copy the whole checkpoint, its folder state included",
            path=checkpoint.location,
        )
