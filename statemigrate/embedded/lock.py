"""Locks on a checkpoint and a working directory: one running query each."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from statemigrate.embedded.confined import confined
from statemigrate.embedded.durable import unwritable
from statemigrate.errors import CheckpointInUseError


class DirectoryLock:
    """An exclusive lock file, released when the process ends however it ends."""

    def __init__(self, path: Path, purpose: str) -> None:
        with unwritable(path.parent):
            confined(path).parent.mkdir()
            # Opened for appending: a loser must not erase the holder's name.
            self._file = confined(path).open_to_lock()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise CheckpointInUseError(
                f"{purpose} {path.parent} is in use",
                expected="no other running query",
                found=f"locked by {holder}",
                next_action="stop that query first, or give this one its own directory",
                path=str(path.parent),
            ) from error
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

    def _discard(self) -> None:
        # Closing writes what is buffered first; where that fails, the file is closed all the same.
        with suppress(OSError):
            self._file.close()
