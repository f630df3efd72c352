"""Durable files: they appear whole, under a checksum, by atomic rename, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import RESTORE_COPY, ConfinedPath, sealed, unsealed

# From a path of the engine's own to one that follows no link.
#
# Nothing of this engine opens, makes or removes a durable file by its bare path: links planted in a
# checkpoint would lead it elsewhere.


# As `Layout` has them. The checkpoint before it is the user's own, and may have links in it.
_BELOW = re.compile(
    r"(?P<checkpoint>.*)/(?P<below>statemigrate/"
    r"(versions|heartbeat|lock|partitions(/[0-9]+(/files)?)?)(/[^/]+)?)"
)


def confined(path: Path) -> ConfinedPath:
    """``path`` below its checkpoint; of a working copy's, the last name below its directory."""
    match = _BELOW.fullmatch(str(path))
    if match is None:
        return ConfinedPath(path.parent, (path.name,))
    return ConfinedPath(Path(match["checkpoint"] or "/"), tuple(match["below"].split("/")))


_BLOCK = 1 << 20
FILE = {"name": str, "sha256": str, "size": int}
"""The shape of a `FileReference` in JSON."""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


@dataclass(frozen=True)
class FileReference:
    """A durable file as another one names it: its name, SHA-256 (hex) and size in bytes."""

    name: str
    sha256: str
    size: int

    def within(self, directory: Path) -> Path:
        """The file's path; a name that is not a plain file name is refused."""
        if not _NAME.fullmatch(self.name):
            raise CorruptFileError(
                "SM-EMBEDDED-016",
                f"a reference in {directory} holds no plain file name",
                expected="letters, digits, dots, dashes",
                found=self.name,
                next_action=RESTORE_COPY,
                path=str(directory),
            )
        return directory / self.name


class HashingFile:
    """A binary file that hashes what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write and hash ``data``."""
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._file.flush()

    @property
    def sha256(self) -> str:
        """The hash of all that was written so far, as hex."""
        return self._hash.hexdigest()


class DurableFile:
    """A file that is written next to its final path; `publish` makes it appear there, once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        with unwritable(path.parent):
            confined(path).parent.mkdir()
            self._file = confined(self._temporary).open("xb")
        self.stream = HashingFile(self._file)

    def publish(self) -> FileReference:
        """Make the bytes durable, then the name: a crash leaves all of the file or none."""
        try:
            with unwritable(self.path.parent):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                rename(self._temporary, self.path)
        except BaseException:
            self.abandon()
            raise
        return FileReference(self.path.name, self.stream.sha256, self.stream.size)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        # Writes what is buffered, which fails again on a full disk; closed it is all the same.
        with suppress(OSError):
            self._file.close()
        with unwritable(self.path.parent):
            confined(self._temporary).unlink(missing_ok=True)


def rename(temporary: Path, final: Path) -> None:
    """Rename, and make the renaming itself survive a loss of power."""
    confined(temporary).rename_to(confined(final))


def sync_directory(directory: Path) -> None:
    """Make the names in ``directory``, and those that went, survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def linked(source: Path, target: Path) -> bool:
    """Make ``target`` a hard link of ``source``; False where the file system cannot."""
    try:
        confined(source).link_to(confined(target))
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            return False
        raise
    return True


def link_or_copy(source: Path, target: Path) -> None:
    """Make ``target`` hold what ``source`` holds. Only for files that never change."""
    if not linked(source, target):
        copy(source, target)


def copy(source: Path, target: Path) -> None:
    """Copy a file's content to a new file, on disk once this returns."""
    with confined(source).open() as reading, confined(target).open("xb") as writing:
        shutil.copyfileobj(reading, writing, _BLOCK)
        writing.flush()
        os.fsync(writing.fileno())


@contextmanager
def unwritable(directory: Path) -> Iterator[None]:
    """Turn a refusal of the file system into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            "SM-STORAGE-001",
            f"cannot write in {directory}: {error.strerror or error}",
            expected="a directory this user can write to, with free space",
            found=str(error),
            next_action="correct its permissions or free space, then start the query again; "
            "it goes on from the last committed batch",
            path=str(directory),
        ) from error


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, as hex."""
    digest = hashlib.sha256()
    with confined(path).open() as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def verify(path: Path, reference: FileReference) -> None:
    """Raise `CorruptFileError` unless ``path`` holds exactly the referenced bytes."""
    if not confined(path).is_file():
        raise CorruptFileError(
            "SM-EMBEDDED-017",
            f"{path} is missing",
            expected=f"a file of {reference.size} bytes with SHA-256 {reference.sha256}",
            found="no such file",
            next_action=RESTORE_COPY,
            path=str(path),
        )
    size = confined(path).stat().st_size
    found = sha256_of(path) if size == reference.size else f"{size} bytes"
    if found != reference.sha256:
        raise CorruptFileError(
            "SM-EMBEDDED-018",
            f"{path} is not what was written",
            expected=f"{reference.size} bytes with SHA-256 {reference.sha256}",
            found=found,
            next_action=RESTORE_COPY,
            path=str(path),
        )


def publish_document(path: Path, document: dict[str, Any]) -> FileReference:
    """Write a JSON document together with the checksum of its content."""
    file = DurableFile(path)
    try:
        with unwritable(path.parent):
            file.stream.write(sealed(document))
    except BaseException:
        file.abandon()
        raise
    return file.publish()


def read_document(path: Path) -> dict[str, Any]:
    """Read what `publish_document` wrote; raises `CorruptFileError` when it was altered."""
    return unsealed(confined(path).read_bytes(), str(path))
