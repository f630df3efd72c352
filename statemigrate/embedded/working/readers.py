"""The directories that readers of a checkpoint work in, and what killed readers left of theirs.

Each is held by a lock as long as its reader lives, however that ends: one whose lock is free is
nobody's any more.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from statemigrate.embedded.storage.lock import DirectoryLock
from statemigrate.errors import CheckpointError
from statemigrate.files import ConfinedPath

_PREFIX = "statemigrate-reader-"
_LOCK = "lock"
_DAY = 86_400
_PATIENCE = 10.0
"""Seconds for which a directory is removed again that somebody still writes into."""
_held: dict[Path, DirectoryLock] = {}


def make_directory() -> Path:
    """A new directory for this user alone, held by this process."""
    _remove_left()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _held[directory] = DirectoryLock(directory / _LOCK, "the reader's directory")
    return directory


def remove_directory(directory: Path) -> None:
    """Remove a directory that `make_directory` has made.

    A task of an interrupted command may still write into it. Where it does so for longer than a
    command should take to end, or where a disk fails, the next reader removes what is left.
    """
    end = time.monotonic() + _PATIENCE
    while not _is_removed(directory) and time.monotonic() < end:
        time.sleep(0.02)
    lock = _held.pop(directory, None)
    if lock is not None:
        lock.release()


def _is_removed(directory: Path) -> bool:
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return not directory.exists()
    except OSError:
        return False
    return True


def _remove_left() -> None:
    shared = ConfinedPath(Path(tempfile.gettempdir()))
    for path in shared.glob(f"{_PREFIX}*"):
        try:
            if _is_ours(path):
                _remove_unheld(path)
        except (OSError, CheckpointError):
            # In use, or removed by another at the same time. It can be seen to the next time.
            continue


def _is_ours(path: ConfinedPath) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _remove_unheld(path: ConfinedPath) -> None:
    if (path / _LOCK).exists():
        lock = DirectoryLock((path / _LOCK).path, "the reader's directory")
        try:
            path.remove_tree()
        finally:
            lock.release()
    elif path.lstat().st_mtime < time.time() - _DAY:
        # Of an earlier release, or of a reader that was killed before it held it.
        path.remove_tree()
