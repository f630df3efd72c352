"""Where the embedded engine keeps its files inside a query's checkpoint directory."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import socket
import stat
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from statemigrate.embedded.durable import confined, unwritable
from statemigrate.errors import CheckpointError, CheckpointInUseError
from statemigrate.files import Files, LocalFiles, open_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = "statemigrate/versions"
"""The manifests: ``<n>-<e>.json`` is the commit point of state version n, by epoch e."""
PARTITIONS = "statemigrate/partitions"
"""A folder for each partition, with what the manifests refer to."""
HEARTBEAT = "statemigrate/heartbeat"
"""The files that make an idle stream run batches while a backfill is under way."""
_MIRROR = "mirror"
_FILE = re.compile(r"([0-9]{12})-[0-9a-f]{32}\.(changelog|snapshot|content|pack)")


@dataclass(frozen=True)
class Layout:
    """The places below ``<checkpoint>/statemigrate``.

    What the driver reads and writes goes through ``files``. Tasks find a partition's changelogs
    and snapshots in ``partitions/<p>``, and the content of snapshots in ``partitions/<p>/files``:
    below ``checkpoint`` itself where that is a local directory. Of one that is ``remote``,
    ``checkpoint`` is this machine's mirror, which the driver keeps.
    """

    checkpoint: Path
    remote: Files | None = None

    @classmethod
    def of(cls, checkpoint: str | Path, spark: SparkSession | None = None) -> Layout:
        """The layout of a checkpoint given as a path or URI, as `open_files` takes it."""
        return cls.over(open_files(checkpoint, spark))

    @classmethod
    def over(cls, files: Files) -> Layout:
        """The layout of the checkpoint at a place; of a remote one this machine has a mirror."""
        if isinstance(files, LocalFiles):
            return cls(files.root)
        return cls(_of_this_machine(files.location) / _MIRROR, files)

    def within(self, working: Path) -> Layout:
        """The same, what this machine has of a remote checkpoint in a working directory."""
        return self if self.remote is None else Layout(working / _MIRROR, self.remote)

    @property
    def here(self) -> Layout:
        """What tasks know of it: the directory on this machine."""
        return Layout(self.checkpoint)

    @property
    def location(self) -> str:
        """The checkpoint as Spark takes it, which takes the escapes of a proper URI literally."""
        return f"file://{self.checkpoint}" if self.remote is None else self.remote.location

    @property
    def files(self) -> Files:
        """The checkpoint, by the one way to its files."""
        return LocalFiles(self.checkpoint) if self.remote is None else self.remote

    def location_of(self, name: str) -> str:
        """The whole path or URI of a file, for messages."""
        return f"{self.files.location}/{name}"

    @property
    def root(self) -> Path:
        """The engine's own directory in the checkpoint."""
        return self.checkpoint / "statemigrate"

    @property
    def versions(self) -> Path:
        """The manifests, on a local disk."""
        return self.root / "versions"

    @property
    def heartbeat(self) -> Path:
        """The files that make an idle stream run batches while a backfill is under way."""
        return self.root / "heartbeat"

    @property
    def lock(self) -> Path:
        """Held by the running query."""
        return self.root / "lock"

    def partition(self, number: int) -> Path:
        """The durable files of one partition."""
        return self.root / "partitions" / str(number)

    def contents(self, number: int) -> Path:
        """The content of one partition's snapshots."""
        return self.partition(number) / "files"

    def default_working_directory(self) -> Path:
        """A directory of this machine and user for the disposable working copies."""
        local = str(self.checkpoint.resolve())
        return _of_this_machine(local if self.remote is None else self.remote.location)


def _of_this_machine(checkpoint: str) -> Path:
    name = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"statemigrate-{os.getuid()}" / name


def file_name(version: int, ending: str) -> str:
    """A name that no other file has, for a file of a version: a ``changelog``, ``snapshot``..."""
    return f"{version:012d}-{uuid.uuid4().hex}.{ending}"


def version_of(name: str) -> int | None:
    """The version of a file that `file_name` named; None of any other."""
    found = _FILE.fullmatch(name)
    return None if found is None else int(found[1])


# Locks on a working directory, which one running query has, and on a checkpoint, as a courtesy.
#
# What keeps a second writer out of a checkpoint are epochs. Where its disk has locks, the second
# one is refused before it begins one, so that the first one goes on.


class Releasable(Protocol):
    """What a query holds until it ends."""

    def release(self) -> None:
        """Let the next query in."""


class NoLocksError(CheckpointError):
    """A file system has no locks."""


class DirectoryLock:
    """An exclusive lock file, released when the process ends however it ends."""

    def __init__(self, path: Path, purpose: str) -> None:
        with unwritable(path.parent):
            confined(path).parent.mkdir()
            # Opened for appending: a loser must not erase the holder's name.
            self._file = confined(path).open_to_lock()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise self._in_use_error(path, purpose) from error
        except OSError as error:
            self._file.close()
            raise _no_locks(path, error) from error
        try:
            with unwritable(path.parent):
                self._file.truncate(0)
                self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                self._file.flush()
        except BaseException:
            self._discard()
            raise

    def release(self) -> None:
        """Let the next query in."""
        self._file.close()

    def _in_use_error(self, path: Path, purpose: str) -> CheckpointInUseError:
        self._file.seek(0)
        holder = self._file.read().strip() or "another process"
        self._file.close()
        return CheckpointInUseError(
            "SM-EMBEDDED-019",
            f"{purpose} {path.parent} is in use",
            expected="no other running query",
            found=f"locked by {holder}",
            next_action="stop that query first, or give this one its own directory",
            path=str(path.parent),
        )

    def _discard(self) -> None:
        # Closing writes what is buffered first; where that fails, the file is closed all the same.
        with suppress(OSError):
            self._file.close()


def lock_holder(layout: Layout) -> str | None:
    """Who holds the lock of a checkpoint on a local disk; None where nobody does, or elsewhere.

    For as long as the question takes, a query that starts is refused by it.
    """
    if layout.remote is not None:
        return None
    try:
        file = confined(layout.lock).open()
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return file.read(1_000).decode(errors="replace").strip() or "another process"
        except OSError:
            # A disk without locks: nobody can hold one.
            return None
    return None


def checkpoint_locks(layout: Layout) -> list[DirectoryLock]:
    """The lock of a checkpoint on a local disk, held; none where the disk has no locks.

    Raises `CheckpointInUseError` while another query of this or another machine holds it.
    """
    if layout.remote is not None:
        return []
    try:
        return [DirectoryLock(layout.lock, "the checkpoint")]
    except NoLocksError:
        return []


def _no_locks(path: Path, error: OSError) -> NoLocksError:
    return NoLocksError(
        "SM-EMBEDDED-020",
        f"{path} cannot be locked",
        expected="a file system with locks, so that no second query runs on the same state",
        found=str(error),
        next_action="mount it with locks, as NFS without nolock and with its lock service running; "
        "or use another file system",
        path=str(path),
    )


# The directory of disposable working copies on this machine.


def private_directory(layout: Layout) -> Path:
    """The default directory, made for this user alone.

    Its name in the shared temporary directory can be guessed. Raises `CheckpointError` if somebody
    else made it first: they could replace the state that is worked on.
    """
    directory = layout.default_working_directory()
    parent = directory.parent
    with unwritable(parent):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = parent.lstat()
    if parent.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o022:
        advice = "remove it, or set EmbeddedOptions(working_directory=...) to one that is"
        raise _not_private(parent, found, advice)
    _close_to_others(parent, found)
    return directory


def given_directory(directory: Path) -> Path:
    """A directory that the user has named, made if it is missing, closed to other users.

    One that belongs to another user, as a volume of a container does, is taken as it is. Raises
    `CheckpointError` for the user's own if everybody can write to it, or if others can read it and
    it holds other things, which closing it would take from them.
    """
    with unwritable(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    if found.st_uid == os.getuid():
        if found.st_mode & 0o002 or (found.st_mode & 0o077 and _has_other_files(directory)):
            advice = f"name one of its own, such as {directory / 'statemigrate'}, which is made"
            raise _not_private(directory, found, advice)
        _close_to_others(directory, found)
    return directory


def _close_to_others(directory: Path, found: os.stat_result) -> None:
    # State is somebody's data, also in a copy of it.
    if found.st_mode & 0o077:
        with unwritable(directory):
            directory.chmod(stat.S_IMODE(found.st_mode) & ~0o077)


def _has_other_files(directory: Path) -> bool:
    names = [path.name for path in directory.iterdir()]
    own = ("lock", "mirror")
    return not all(name in own or name.startswith(("partition-", ".")) for name in names)


def _not_private(directory: Path, found: os.stat_result, advice: str) -> CheckpointError:
    return CheckpointError(
        "SM-EMBEDDED-029",
        f"{directory} is not this user's alone",
        expected=f"a directory of user {os.getuid()} for this alone, that no one else can write to",
        found=f"owner {found.st_uid}, mode {found.st_mode & 0o777:o}",
        next_action=advice,
        path=str(directory),
    )


def remove_stale_copies(working: Path) -> None:
    """Remove what killed tasks left: copies made for one task, and half-made snapshots.

    Called by the holder of the directory's lock, before any task runs.
    """
    for pattern in ("partition-*-private-*", "partition-*-copy-*"):
        for path in working.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
