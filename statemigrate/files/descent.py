"""Going down from a directory to one below it without following a link.

Each directory on the way is opened from the one above by its descriptor. Whoever can write there
may plant a link, or put one in place of a directory at any moment: it is never gone through.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from statemigrate.errors import ForeignFileError, StorageError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def opened_directory(root: Path, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """The descriptor of the directory ``names`` below ``root``, for the length of the block.

    With ``create`` directories that are missing are made. ``root`` itself may be a link. Raises
    `ForeignFileError` for a link on the way, and what the system raises.
    """
    if create:
        _make(root)
    descriptor = os.open(root, _DIRECTORY)
    try:
        for number, name in enumerate(names, start=1):
            path = root.joinpath(*names[:number])
            below = _open_below(descriptor, name, path, create=create)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(directory: int, name: str, flags: int, path: Path, mode: int = 0o666) -> int:
    """The descriptor of a regular file of a directory. Raises `ForeignFileError` for any other.

    ``path`` is for messages. A pipe, which nobody writes to, is not waited for.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, mode, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO) or is_link(directory, name):
            raise foreign(path, "a symbolic link, or no file of data") from error
        raise with_path(error, path) from error
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        raise foreign(path, "a directory" if stat.S_ISDIR(kind) else "no file of data")
    return descriptor


def is_link(directory: int, name: str) -> bool:
    """Whether a name in a directory is a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def foreign(path: Path | str, found: str) -> ForeignFileError:
    """The error for what no query and no command has put there."""
    return ForeignFileError(
        "SM-STORAGE-003",
        f"{path} is not what belongs in a checkpoint",
        expected="a file or directory of its own below the checkpoint, no link",
        found=found,
        next_action="find out who put it there, and remove it; nothing was read or written "
        "through it",
        path=str(path),
    )


def with_path(error: OSError, path: Path) -> OSError:
    """The same error about the whole path: the system was given a name only."""
    return type(error)(error.errno, error.strerror, str(path))


def pointing_nowhere(path: Path) -> StorageError:
    """The error for a link in whose place there is no directory."""
    return StorageError(
        "SM-STORAGE-004",
        f"{path} is a link that points to nothing",
        expected="a directory, a link to one, or a name that nothing has",
        found=f"a link to {os.readlink(path)}",  # noqa: PTH115 - as it is written
        next_action="make the directory that it points to, or name another one",
        path=str(path),
    )


def _make(directory: Path) -> None:
    """Make a directory and those above it, each with its name on disk.

    Raises `StorageError` for a link that points to nothing.
    """
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        if each.is_symlink():
            raise pointing_nowhere(each)
    directory.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        descriptor = os.open(each.parent, _DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_below(directory: int, name: str, path: Path, *, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError as error:
        if not create:
            raise with_path(error, path) from error
    except OSError as error:
        if is_link(directory, name):
            raise foreign(path, "a symbolic link") from error
        raise with_path(error, path) from error
    # Another may make it at the same time.
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
        # What is synced in a directory survives a loss of power only where the directory does.
        os.fsync(directory)
    return _open_below(directory, name, path, create=False)
