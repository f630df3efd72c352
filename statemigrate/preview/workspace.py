"""Temporary folders of previews, each removed at its end or, if that was killed, by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_LOCK = ".in-use"


@contextmanager
def workspace(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder below ``parent`` that only its owner can read, and that is gone after the block.

    A process that is killed leaves its folder. The lock of its file is free then, and the next
    process that makes a folder with the same ``prefix`` removes it.
    """
    above = Path(tempfile.gettempdir()) if parent is None else parent
    _remove_abandoned(above, prefix)
    with ExitStack() as opened:
        folder = _made(above, prefix, opened)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _made(above: Path, prefix: str, opened: ExitStack) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
        lock = opened.enter_context((folder / _LOCK).open("wb"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have removed it before the lock was taken.
        if (folder / _LOCK).exists():
            return folder


def _remove_abandoned(above: Path, prefix: str) -> None:
    for folder in above.iterdir():
        if not folder.name.startswith(prefix):
            continue
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # In use, or another process has removed it.
            continue
