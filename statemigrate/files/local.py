"""Files on a local or mounted disk, where nothing is reached through a link."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from statemigrate.errors import StorageError
from statemigrate.files.confined import ConfinedPath, foreign
from statemigrate.files.protocol import (
    LARGEST,
    FileEntry,
    create_once,
    done_at_once,
    no_create,
    races_allowed,
)

_BLOCK = 1 << 20
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFREG: "file"}
# What a file system says that has no second names for a file, or not across its volumes.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True)
class LocalFiles:
    """`Files` below the directory ``root``, which is made when the first file is."""

    root: Path

    @property
    def location(self) -> str:
        """The directory as text."""
        return str(self.root)

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        """As `Files.get`."""
        with reading(self._at(name)):
            return self._at(name).read_bytes(most)

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        """As `Files.fetch`."""
        source = self._at(name)
        with reading(source):
            is_longer = source.stat().st_size > most
            if is_longer and not cut:
                raise foreign(source.path, f"more than {most:,} bytes")
            if is_longer or not (shared and _linked(source, _outside(target))):
                with source.open() as content, _outside(target).open("xb") as file:
                    _copied(content, file, most)

    def put(self, name: str, data: bytes | Path) -> None:
        """As `Files.put`."""
        target = self._at(name)
        with _unfinished(target) as unfinished:
            _filled(unfinished, data)
            unfinished.rename_to(target)

    def create(self, name: str, data: bytes) -> None:
        """As `Files.create`."""
        target = self._at(name)
        with _unfinished(target) as unfinished:
            _filled(unfinished, data)
            create_once(data, lambda: _named(unfinished, target), target.read_bytes)

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        """As `Files.replace`."""
        target = self._at(name)
        with _unfinished(target) as unfinished:
            _filled(unfinished, data, _rights(self._at(like or name)))
            unfinished.rename_to(target)

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """As `Files.list`; names that are no text are left out, since nobody could say them."""
        at = self._at(folder) if folder else ConfinedPath(self.root)
        with reading(at):
            return tuple(_listed(at, recursive=recursive))

    def find(self, name: str = "") -> FileEntry | None:
        """As `Files.find`."""
        at = self._at(name) if name else ConfinedPath(self.root)
        with reading(at):
            try:
                return _entry(at, at.lstat())
            except (FileNotFoundError, NotADirectoryError):
                return None

    def delete(self, names: Iterable[str]) -> None:
        """As `Files.delete`; a link is removed, not what it points to."""
        for name in names:
            with writing(self._at(name)), suppress(NotADirectoryError):
                self._at(name).unlink(missing_ok=True)

    def delete_folder(self, folder: str) -> None:
        """As `Files.delete_folder`."""
        with writing(self._at(folder)), suppress(FileNotFoundError, NotADirectoryError):
            self._at(folder).remove_tree()

    def _at(self, name: str) -> ConfinedPath:
        return ConfinedPath(self.root) / name


def _listed(folder: ConfinedPath, *, recursive: bool) -> Iterator[FileEntry]:
    try:
        inner = folder.entries()
    except (FileNotFoundError, NotADirectoryError):
        return
    for path, status in inner:
        if not _is_text(path.name):
            continue
        found = _entry(path, status)
        if recursive and found.kind == "folder":
            yield from _listed(path, recursive=True)
        else:
            yield found


def _entry(path: ConfinedPath, found: os.stat_result) -> FileEntry:
    name = "/".join(path.parts)
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind == "folder":
        return FileEntry(name, "folder")
    tag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return FileEntry(name, "file" if kind else "other", found.st_size, found.st_mtime, tag)


def _is_text(name: str) -> bool:
    # Neither Spark nor Arrow can have written a name that is no UTF-8, nor could they say it.
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _outside(path: Path) -> ConfinedPath:
    return ConfinedPath(path.parent, (path.name,))


def _filled(unfinished: ConfinedPath, data: bytes | Path, rights: int | None = None) -> None:
    source = _outside(data) if isinstance(data, Path) else None
    if source is not None and _linked(source, unfinished):
        with unfinished.open() as file:
            os.fsync(file.fileno())
    else:
        with unfinished.open("xb") as file, _opened(data) as content:
            if rights is not None:
                os.fchmod(file.fileno(), rights)
            _copied(content, file)


def _opened(data: bytes | Path) -> IO[bytes]:
    return _outside(data).open() if isinstance(data, Path) else io.BytesIO(data)


def _copied(source: IO[bytes], target: IO[bytes], most: int | None = None) -> None:
    left = sys.maxsize if most is None else most
    while left and (block := source.read(min(left, _BLOCK))):
        target.write(block)
        left -= len(block)
    target.flush()
    os.fsync(target.fileno())


def _linked(source: ConfinedPath, target: ConfinedPath) -> bool:
    try:
        source.link_to(target)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _named(unfinished: ConfinedPath, target: ConfinedPath) -> None:
    """Give a file its name unless it is taken. Raises `FileExistsError`."""
    if not _linked(unfinished, target):
        if not races_allowed():
            raise no_create(str(target.root), "a file system without second names of a file")
        if target.exists():
            raise FileExistsError(errno.EEXIST, "File exists", str(target))
        unfinished.rename_to(target)
    target.sync_parent()


def _rights(path: ConfinedPath) -> int | None:
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    # A link that is replaced has no rights of its own.
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


@contextmanager
def _unfinished(target: ConfinedPath) -> Iterator[ConfinedPath]:
    """A new name next to ``target``, which nothing has after the block.

    Spark passes over names that begin with a dot.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    with writing(target):
        target.parent.mkdir()
        try:
            yield temporary
        finally:
            # A rename to a second name of the same file leaves both.
            temporary.unlink(missing_ok=True)


@contextmanager
def reading(path: ConfinedPath) -> Iterator[None]:
    """Raise what the system says of a file that is read as `StorageError`."""
    try:
        yield
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, "No such file", str(path)) from error
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        raise StorageError(
            "SM-STORAGE-013",
            f"cannot read {path}: {error.strerror or error}",
            expected="a file or directory this user can read, on a disk that works",
            found=str(error),
            next_action="correct its permissions, or the disk, and try again",
            path=str(path),
        ) from error


@contextmanager
def writing(path: ConfinedPath) -> Iterator[None]:
    """Raise what the system says of a file that is written as `StorageError`."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise StorageError(
            "SM-STORAGE-001",
            f"cannot write in {path.parent}: {error.strerror or error}",
            expected="a directory this user can write to, with free space",
            found=str(error),
            next_action="correct its permissions or free space, then run the same again: it goes "
            "on from what is committed",
            path=str(path.parent),
        ) from error


# Many files copied from one directory on a disk to another, and made durable together.
#
# A disk that is asked after each file and each name waits for itself again and again: here contents
# are written and made durable side by side, then all are named, and each folder once at the end.


def copy_local(source: LocalFiles, target: LocalFiles, names: Mapping[str, str]) -> Iterator[str]:
    """Copy each file of ``source`` to the name that ``names`` has for it, over any there.

    Each name is given when its content is written; all are durable and have their names at the
    end. Raises `FileNotFoundError` for a file that is gone, and `StorageError`.
    """
    pairs = {
        name: (ConfinedPath(source.root) / name, ConfinedPath(target.root) / new)
        for name, new in names.items()
    }
    with _temporary_names([new for _, new in pairs.values()]) as temporary:
        tasks = {name: partial(_copy, old, temporary[new]) for name, (old, new) in pairs.items()}
        yield from done_at_once(tasks)
        _name(temporary)


@contextmanager
def _temporary_names(targets: list[ConfinedPath]) -> Iterator[dict[ConfinedPath, ConfinedPath]]:
    """New names next to targets, which nothing has after the block; Spark ignores them."""
    temporary = {each: each.with_name(f".{each.name}.{uuid.uuid4().hex}.tmp") for each in targets}
    for folder in {each.parent for each in targets}:
        with writing(folder):
            folder.mkdir()
    try:
        yield temporary
    finally:
        for target, each in temporary.items():
            with writing(target):
                each.unlink(missing_ok=True)


def _copy(old: ConfinedPath, new: ConfinedPath) -> None:
    with reading(old):
        content = old.open()
    with content, writing(new), new.open("xb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
        file.flush()
        # Several at a time are one wait.
        os.fsync(file.fileno())


def _name(temporary: Mapping[ConfinedPath, ConfinedPath]) -> None:
    for target, each in temporary.items():
        with writing(target):
            each.rename_to(target, durably=False)
    for target in {each.parent: each for each in temporary}.values():
        with writing(target):
            target.sync_parent()
