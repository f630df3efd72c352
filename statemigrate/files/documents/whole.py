"""Files outside of a checkpoint that appear whole, or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``path`` at the end of the block, unless that fails.

    It is written under a name that nobody can foresee. ``private`` is for what shows state: only
    its owner can read it. Otherwise a file keeps the rights it had.
    """
    if _is_stream(path):
        with path.open("wb") as stream:
            yield stream
        return
    descriptor, name = _unfinished(path)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        if not private:
            Path(name).chmod(_rights(path))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    # As /dev/stdout is, beside which no file can be made.
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)


def _unfinished(path: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _rights(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
