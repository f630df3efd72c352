"""`Files` on any of Hadoop's file systems."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from statemigrate.files.descent import foreign
from statemigrate.files.hadoop import statuses
from statemigrate.files.hadoop.failures import CutOffError, translated, whole
from statemigrate.files.hadoop.jvm import Java
from statemigrate.files.hadoop.statuses import Status
from statemigrate.files.hadoop.writing import Writing
from statemigrate.files.protocol import LARGEST, Entry, check_name

_BLOCK = 1 << 20


@dataclass(frozen=True)
class HadoopFiles:
    """`Files` below ``location``, a whole URI; on the driver, where ``java`` is.

    Raises `StorageError` where there is no such file system.
    """

    java: Java
    location: str

    @property
    def real_location(self) -> str:
        """The place as its file system has it: with its whole name, and what a mount leads to.

        Of a place that is not there, by the first folder above it that is.
        """
        below: list[str] = []
        with translated("looking at", self.location):
            path = self._system.makeQualified(self._root)
            while path.getParent() is not None and not self._system.exists(path):
                below.insert(0, path.getName())
                path = path.getParent()
            real = str(self._system.resolvePath(path).toString()).rstrip("/")
        return "/".join([real, *below])

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        """As `Files.get`."""
        path = self._path(name)
        data = whole(lambda: self._content(path, min(most + 1, 2**31 - 9)))
        if len(data) > most:
            raise foreign(str(path), f"more than {most:,} bytes")
        return data

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        """As `Files.fetch`; nothing is ever shared."""
        del shared
        path = self._path(name)
        status = self._status(path)
        if status is None or not status.is_file:
            raise FileNotFoundError(str(path))
        if status.size > most and not cut:
            raise foreign(str(path), f"more than {most:,} bytes")
        size = min(status.size, most)
        with target.open("xb") as file:
            if size < status.size:
                whole(lambda: self._copy_start(path, file, size))
            else:
                whole(lambda: self._copy_to(path, target, size))
            os.fsync(file.fileno())

    @property
    def connector(self) -> str:
        """The name of the connector's class."""
        return str(self._system.getClass().getName())

    def put(self, name: str, data: bytes | Path) -> None:
        """As `Files.put`."""
        self._writing.put(self._path(name), data)

    def create(self, name: str, data: bytes) -> None:
        """As `Files.create`."""
        self._writing.create(self._path(name), data, lambda: self.get(name))

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        """As `Files.replace`."""
        self._writing.replace(self._path(name), data, self._path(like or name))

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[Entry, ...]:
        """As `Files.list`."""
        path = self._path(folder) if folder else self._root
        look = statuses.below if recursive else statuses.in_folder
        found: list[Status] = []
        with suppress(FileNotFoundError), translated("listing", str(path)):
            found = look(self.java, self._system, path)
        entries = (self._entry(each) for each in found)
        # Of a file Hadoop lists the file itself.
        return tuple(sorted(each for each in entries if each.name != folder))

    def find(self, name: str = "") -> Entry | None:
        """As `Files.find`."""
        status = self._status(self._path(name) if name else self._root)
        return None if status is None else self._entry(status)

    def delete(self, names: Iterable[str]) -> None:
        """As `Files.delete`."""
        for name in names:
            path = self._path(name)
            with suppress(FileNotFoundError), translated("removing", str(path)):
                self._system.delete(path, False)

    def delete_folder(self, folder: str) -> None:
        """As `Files.delete_folder`."""
        path = self._path(folder)
        with suppress(FileNotFoundError), translated("removing", str(path)):
            self._system.delete(path, True)

    @cached_property
    def _root(self) -> Any:
        return self.java.hadoop.fs.Path(self.location)

    @cached_property
    def _system(self) -> Any:
        with translated("opening", self.location):
            return self._root.getFileSystem(self.java.configuration)

    @cached_property
    def _writing(self) -> Writing:
        return Writing(self.java, self._system, self._root)

    @cached_property
    def _prefix(self) -> str:
        """The path within the file system, which a listing may give another host's name."""
        return f"{urlsplit(self._root.toString()).path.rstrip('/')}/"

    def _path(self, name: str) -> Any:
        check_name(name)
        return self.java.hadoop.fs.Path(f"{self._root.toString().rstrip('/')}/{name}")

    def _status(self, path: Any) -> Status | None:
        with suppress(FileNotFoundError), translated("looking at", str(path)):
            return statuses.one(self.java, self._system, path)
        return None

    def _entry(self, status: Status) -> Entry:
        name = f"{_below_host(status.path)}/".removeprefix(self._prefix).rstrip("/")
        if status.is_folder:
            return Entry(name, "folder")
        tag = f"{status.modified:x}-{status.size:x}"
        return Entry(
            name, "file" if status.is_file else "other", status.size, status.modified / 1000, tag
        )

    def _content(self, path: Any, most: int) -> bytes:
        with translated("reading", str(path)):
            stream = self._system.open(path)
            try:
                return bytes(stream.readNBytes(most))
            finally:
                stream.close()

    def _copy_to(self, path: Any, target: Path, size: int) -> None:
        with translated("reading", str(path)):
            stream = self._system.open(path)
            # What an attempt before has left there goes.
            out = self.java.jvm.java.io.FileOutputStream(str(target))
            self.java.hadoop.io.IOUtils.copyBytes(stream, out, _BLOCK, True)
        _require_size(path, target.stat().st_size, size)

    def _copy_start(self, path: Any, target: IO[bytes], size: int) -> None:
        """The first ``size`` bytes of a file."""
        target.seek(0)
        target.truncate()
        with translated("reading", str(path)):
            stream = self._system.open(path)
            try:
                left = size
                while left and (block := bytes(stream.readNBytes(min(left, _BLOCK)))):
                    target.write(block)
                    left -= len(block)
                target.flush()
            finally:
                stream.close()
        _require_size(path, size - left, size)


def whole_uri(java: Java, place: str) -> str:
    """A path without a scheme as a URI of the default file system: from a user's own folder on."""
    path = java.hadoop.fs.Path(place)
    with translated("opening", place):
        system = path.getFileSystem(java.configuration)
        return str(system.makeQualified(path)).rstrip("/")


def _require_size(path: Any, found: int, expected: int) -> None:
    if found != expected:
        raise CutOffError(
            "SM-STORAGE-008",
            f"reading {path} ended early",
            expected=f"{expected:,} bytes",
            found=f"{found:,}",
            next_action="try again",
            path=str(path),
        )


def _below_host(uri: str) -> str:
    """The path of a URI as Hadoop writes it: nothing is escaped in it, nor is it a query."""
    _, _, rest = uri.partition(":")
    return "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
