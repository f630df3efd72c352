"""A path below a checkpoint, through which everything there is opened, created and deleted."""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from statemigrate.errors import ForeignFileError, StorageError
from statemigrate.files.protocol import LARGEST, Files, check_name, is_within, local_path

# Going down from a directory to one below it without following a link.
#
# Each directory on the way is opened from the one above by its descriptor. A user who can write
# there may plant a link, or put one in place of a directory at any moment: it is never gone
# through.


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
            below = _open_below(descriptor, name, (root, names[:number]), create=create)
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


def _open_below(
    directory: int, name: str, place: tuple[Path, Sequence[str]], *, create: bool
) -> int:
    """The descriptor of what is there under the ``name``; errors name its ``place`` as a path.

    The path is not made before it is needed: a command opens many thousands.
    """
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError as error:
        if not create:
            raise with_path(error, place[0].joinpath(*place[1])) from error
    except OSError as error:
        path = place[0].joinpath(*place[1])
        if is_link(directory, name):
            raise foreign(path, "a symbolic link") from error
        raise with_path(error, path) from error
    # Another may make it at the same time.
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
        # What is synced in a directory survives a loss of power only where the directory does.
        os.fsync(directory)
    return _open_below(directory, name, place, create=False)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@dataclass(frozen=True, order=True)
class ConfinedPath:
    """The path ``parts`` below ``root``; only ``root`` itself may be reached through a link.

    Has the methods of `pathlib.Path` that are needed below a checkpoint, and raises what they
    raise; `ForeignFileError` for a symbolic link and for what is neither a file nor a directory.
    Links are removed by `unlink`, never gone through. It is no `os.PathLike`, so that nothing
    opens it by its text; who must (Spark does) takes `path`.
    """

    root: Path
    parts: tuple[str, ...] = ()

    def __truediv__(self, names: str) -> ConfinedPath:
        return ConfinedPath(self.root, (*self.parts, *check_name(names)))

    def __str__(self) -> str:
        return str(self.path)

    @property
    def path(self) -> Path:
        """The path as text has it: for messages, and for Spark."""
        return self.root.joinpath(*self.parts)

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return self.path.stem

    @property
    def suffix(self) -> str:
        """The name's ending, with its dot."""
        return self.path.suffix

    @property
    def parent(self) -> ConfinedPath:
        """The directory it is in."""
        return ConfinedPath(self.root, self.parts[:-1])

    def with_name(self, name: str) -> ConfinedPath:
        """Another name in the same directory."""
        return self.parent / name

    def lstat(self) -> os.stat_result:
        """What the file system knows of it, itself and not what it may point to."""
        if not self.parts:
            return self.root.stat()
        with self._directory() as directory:
            try:
                return os.stat(self.name, dir_fd=directory, follow_symlinks=False)
            except OSError as error:
                raise with_path(error, self.path) from error

    def stat(self) -> os.stat_result:
        """`lstat`, of what is no link."""
        found = self.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise foreign(self.path, "a symbolic link")
        return found

    def exists(self) -> bool:
        """Whether there is anything of the name."""
        return self._kind() is not None

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self._kind() == stat.S_IFDIR

    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self._kind() == stat.S_IFREG

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the directory, and those above it that are missing."""
        if not (parents and exist_ok):
            raise NotImplementedError("directories of a checkpoint are made as they are needed")
        with opened_directory(self.root, self.parts, create=True):
            return

    def names(self) -> list[str]:
        """The names in the directory, sorted."""
        with opened_directory(self.root, self.parts) as directory:
            return sorted(os.listdir(directory))  # noqa: PTH208 - of a descriptor

    def iterdir(self) -> Iterator[ConfinedPath]:
        """What is in the directory, in the order of the names."""
        return iter([ConfinedPath(self.root, (*self.parts, name)) for name in self.names()])

    def entries(self) -> list[tuple[ConfinedPath, os.stat_result]]:
        """What is in the directory, in the order of the names, with what `lstat` gives of each.

        What is removed in the meantime is left out.
        """
        found = []
        with opened_directory(self.root, self.parts) as directory:
            for name in sorted(os.listdir(directory)):  # noqa: PTH208 - of a descriptor
                path = ConfinedPath(self.root, (*self.parts, name))
                try:
                    entry = os.stat(name, dir_fd=directory, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise with_path(error, path.path) from error
                found.append((path, entry))
        return found

    def glob(self, pattern: str) -> Iterator[ConfinedPath]:
        """What is in the directory under names that fit; nothing where there is no directory."""
        if not self.is_dir():
            return iter(())
        return (each for each in self.iterdir() if fnmatch.fnmatchcase(each.name, pattern))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open a regular file: ``rb``, or ``xb`` for a new one."""
        flags = {"rb": os.O_RDONLY, "xb": _NEW}[mode]
        with self._directory() as directory:
            descriptor = open_regular(directory, self.name, flags, self.path)
        return os.fdopen(descriptor, mode.replace("x", "w"))

    def open_to_lock(self) -> IO[str]:
        """Open a file for reading and appending, made if it is missing.

        One that has a second name is refused: what is written would appear under that one too.
        """
        with self._directory() as directory:
            descriptor = open_regular(
                directory, self.name, os.O_RDWR | os.O_CREAT | os.O_APPEND, self.path
            )
        if os.fstat(descriptor).st_nlink > 1:
            os.close(descriptor)
            raise foreign(self.path, "a file that has another name as well")
        return os.fdopen(descriptor, "a+")

    def read_bytes(self, most: int = LARGEST) -> bytes:
        """All that is in a document. Raises `ForeignFileError` for one of more than ``most``."""
        with self.open_document(most) as file:
            return file.read()

    def open_document(self, most: int = LARGEST) -> IO[bytes]:
        """Open a file that is to be read as a whole, if it is not too large for that."""
        file = self.open()
        size = os.fstat(file.fileno()).st_size
        if size > most:
            file.close()
            raise foreign(self.path, f"a document of {size:,} bytes, more than {most:,} bytes")
        return file

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the file, or the link that is there in its place."""
        try:
            with self._directory() as directory:
                os.unlink(self.name, dir_fd=directory)
        except FileNotFoundError as error:
            if not missing_ok:
                raise with_path(error, self.path) from error

    def remove_tree(self) -> None:
        """Remove the directory with everything in it; links in it are removed, not followed."""
        with self._directory() as directory:
            if is_link(directory, self.name):
                raise foreign(self.path, "a symbolic link")
            shutil.rmtree(self.name, dir_fd=directory)

    def rename_to(self, target: ConfinedPath, *, durably: bool = True) -> None:
        """Take the place of ``target``: a link there is replaced, not followed."""
        with self._directory() as source, target._directory() as into:
            try:
                os.replace(self.name, target.name, src_dir_fd=source, dst_dir_fd=into)
            except OSError as error:
                raise with_path(error, self.path) from error
            if durably:
                os.fsync(into)

    def sync_parent(self) -> None:
        """Make the names in its folder survive a loss of power, its own too."""
        with self._directory() as directory:
            os.fsync(directory)

    def link_to(self, target: ConfinedPath) -> None:
        """Give the file a second name, which must be new."""
        with self._directory() as source, target._directory() as into:
            os.link(
                self.name, target.name, src_dir_fd=source, dst_dir_fd=into, follow_symlinks=False
            )
        if not stat.S_ISREG(target.lstat().st_mode):
            target.unlink()
            raise foreign(self.path, "a symbolic link, or no file of data")

    def _kind(self) -> int | None:
        try:
            return stat.S_IFMT(self.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    @contextmanager
    def _directory(self) -> Iterator[int]:
        with opened_directory(self.root, self.parts[:-1]) as directory:
            yield directory


# Whether places are one, or one within the other: as a file system has it, not by their names.


@runtime_checkable
class Resolving(Protocol):
    """Files whose file system says where they really are."""

    @property
    def real_location(self) -> str:
        """The place without links, mounts and ``..``."""


def check_reachable(files: Files) -> None:
    """Raise `StorageError` for a local place that a link on the way leaves without a place."""
    path = local_path(files.location)
    for each in () if path is None else (*reversed(path.parents), path):
        if each.is_symlink() and not each.exists():
            raise pointing_nowhere(each)


def is_same(first: Files, second: Files) -> bool:
    """Whether both are one place."""
    return _is_same(_real(first), _real(second))


def is_below(inner: Files, outer: Files) -> bool:
    """Whether a place is within another one, which it is not itself."""
    inside, outside = _real(inner), _real(outer)
    path, root = local_path(inside), local_path(outside)
    if path is None or root is None:
        return is_within(inside, outside) and inside != outside
    return any(_is_same(str(each), str(root)) for each in path.parents)


def _is_same(first: str, second: str) -> bool:
    if first == second:
        return True
    paths = local_path(first), local_path(second)
    if None in paths:
        return False
    try:
        # A directory may be mounted twice, and names may differ in their case alone.
        return os.path.samestat(*(each.stat() for each in paths if each is not None))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _real(files: Files) -> str:
    place = files.real_location if isinstance(files, Resolving) else files.location
    path = local_path(place)
    return place.rstrip("/") if path is None else str(_resolved(path))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise StorageError(
            "SM-STORAGE-014",
            f"cannot follow the links to {path}",
            expected="links that lead to a directory",
            found=str(error),
            next_action="name the directory itself",
            path=str(path),
        ) from error
