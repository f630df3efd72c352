"""A path below a checkpoint, through which everything there is opened, created and deleted."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from statemigrate.files.descent import (
    foreign,
    is_link,
    open_regular,
    opened_directory,
    with_path,
)
from statemigrate.files.protocol import LARGEST, check_name

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
        """Make the names beside it survive a loss of power, its own too."""
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
