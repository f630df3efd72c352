"""Locks on a working directory, which one running query has, and on a checkpoint, as a courtesy.

What keeps a second writer out of a checkpoint are epochs. Where its disk has locks, the second one
is refused before it begins one, so that the first one goes on.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.durable import unwritable
from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import CheckpointError, CheckpointInUseError


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
            raise self._held(path, purpose) from error
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

    def _held(self, path: Path, purpose: str) -> CheckpointInUseError:
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
