"""`Files` on any of Hadoop's file systems."""

from __future__ import annotations

import os
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from statemigrate.files.confined import foreign
from statemigrate.files.hadoop_failures import CutOffError, translated, whole
from statemigrate.files.hadoop_jvm import Java
from statemigrate.files.protocol import (
    LARGEST,
    FileEntry,
    check_name,
    create_once,
    no_create,
    races_allowed,
)

# How a file appears whole on one of Hadoop's file systems.
#
# Where a file can be seen only once it is closed (buckets), it is written under its name. Elsewhere
# it is written next to it, and renamed, which HDFS and its like do at once or not at all. To make
# one that is not there S3A has a conditional write, and Google's connector; where renaming never
# writes over a file that is enough. Of any other file system that is not known, and the user
# decides.


_VISIBLE_WHEN_CLOSED = {"s3a", "s3n", "s3", "gs", "oss", "cosn", "obs"}
_RENAMED_AT_ONCE = {"hdfs", "viewfs", "webhdfs", "swebhdfs", "abfs", "abfss", "ofs", "o3fs"}
_CREATED_AT_ONCE = {"gs"}
_CONDITIONAL = "fs.option.create.conditional.overwrite"
_UNCHECKED = "fs.s3a.create.performance"
_ABORTABLE = "fs.capability.outputstream.abortable"


@dataclass(frozen=True)
class Writing:
    """Makes files of ``system``, a Java ``FileSystem``; ``root`` is where its options are asked."""

    java: Java
    system: Any
    root: Any

    def put(self, path: Any, data: bytes | Path) -> None:
        """Write a file, in the place of one that is there, so that a reader sees either."""
        with translated("writing", str(path)):
            if self._scheme in _VISIBLE_WHEN_CLOSED:
                builder = self.system.createFile(path).overwrite(True).recursive()
                # Nobody has made a folder of the name, so S3A need not look.
                self._write(builder.opt(_UNCHECKED, "true"), data)
            else:
                self._write_and_rename(path, data, self._rename.OVERWRITE)

    def replace(self, path: Any, data: bytes, like: Any) -> None:
        """As `put`, with the rights of the file ``like`` where it is there."""
        if self._scheme in _VISIBLE_WHEN_CLOSED:
            return self.put(path, data)
        rights = None
        with suppress(FileNotFoundError), translated("looking at", str(like)):
            rights = self.system.getFileStatus(like).getPermission()
        with translated("writing", str(path)):
            self._write_and_rename(path, data, self._rename.OVERWRITE, rights)
        return None

    def create(self, path: Any, data: bytes, read: Callable[[], bytes]) -> None:
        """Write a file that is not there. Raises `FileExistsError`, `UnsupportedError`."""
        attempt = self._creation(path, data)

        def translating() -> None:
            with translated("creating", str(path)):
                attempt()

        create_once(data, translating, read)

    def _creation(self, path: Any, data: bytes) -> Callable[[], None]:
        if self._has_conditional:
            builder = self.system.createFile(path).overwrite(True).recursive()
            return lambda: self._write(builder.must(_CONDITIONAL, "true"), data)
        if self._scheme in _RENAMED_AT_ONCE or (
            races_allowed() and self._scheme not in _VISIBLE_WHEN_CLOSED
        ):
            return lambda: self._write_and_rename(path, data, self._rename.NONE)
        if self._scheme in _CREATED_AT_ONCE or races_allowed():
            return lambda: self._write(self.system.createFile(path).recursive(), data)
        version = self.java.hadoop.util.VersionInfo.getVersion()
        raise no_create(str(self.root), f"{self.system.getClass().getName()} of Hadoop {version}")

    @cached_property
    def _scheme(self) -> str:
        return str(self.system.getUri().getScheme() or "").lower()

    @cached_property
    def _has_conditional(self) -> bool:
        with translated("looking at", str(self.root)):
            return bool(self.system.hasPathCapability(self.root, _CONDITIONAL))

    @property
    def _rename(self) -> Any:
        return self.java.hadoop.fs.Options.Rename

    def _write_and_rename(
        self, path: Any, data: bytes | Path, how: Any, rights: Any = None
    ) -> None:
        # Spark passes over names that begin with a dot.
        name = f".{path.getName()}.{uuid.uuid4().hex}.tmp"
        unfinished = self.java.hadoop.fs.Path(path.getParent(), name)
        options = self.java.gateway.new_array(self._rename, 1)
        options[0] = how
        context = self.java.hadoop.fs.FileContext.getFileContext(
            self.system.getUri(), self.java.configuration
        )
        try:
            self._write(self.system.createFile(unfinished).recursive(), data)
            if rights is not None:
                self.system.setPermission(unfinished, rights)
            context.rename(unfinished, path, options)
        except BaseException:
            self.system.delete(unfinished, False)
            raise

    def _write(self, builder: Any, data: bytes | Path) -> None:
        stream = builder.build()
        try:
            if isinstance(data, Path):
                source = self.java.jvm.java.io.FileInputStream(str(data))
                self.java.hadoop.io.IOUtils.copyBytes(source, stream, _BLOCK, False)
                source.close()
            else:
                stream.write(data)
            if stream.hasCapability("hsync"):
                stream.hsync()
        except BaseException:
            # To close a stream of a bucket would make a file of what it has so far.
            if stream.hasCapability(_ABORTABLE):
                stream.abort()
            elif self._scheme not in _VISIBLE_WHEN_CLOSED:
                stream.close()
            raise
        stream.close()


# What Hadoop says of files, many in one answer.
#
# Each call of a method through py4j is a round trip. Hadoop writes a whole array of ``FileStatus``
# as bytes, each a message of Protocol Buffers with its length before it.


_STATUS = "org.apache.hadoop.fs.FileStatus"
_FOLDER, _FILE = 1, 2
_TYPE, _PATH, _LENGTH, _MODIFIED = 1, 2, 3, 7


@dataclass(frozen=True)
class HadoopFile:
    """``path`` is a whole URI, ``size`` in bytes, ``modified`` in milliseconds since 1970."""

    path: str
    kind: int
    size: int
    modified: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory."""
        return self.kind == _FOLDER

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, and no link."""
        return self.kind == _FILE


def in_folder(java: Java, system: Any, path: Any) -> list[HadoopFile]:
    """What ``listStatus`` of a ``FileSystem`` finds."""
    return _read(java, system.listStatus(path))


def below(java: Java, system: Any, path: Any) -> list[HadoopFile]:
    """What ``listFiles`` finds at any depth: on an object store one request a thousand names."""
    found = java.hadoop.util.functional.RemoteIterators.toList(system.listFiles(path, True))
    # A list becomes an array by a function object, which Java makes of its own constructor.
    load = java.jvm.java.lang.Class.forName
    kind = load(f"[L{_STATUS};", True, java.configuration.getClassLoader())
    constructor = java.jvm.java.lang.invoke.MethodHandles.arrayConstructor(kind)
    function = load("java.util.function.IntFunction")
    proxies = java.jvm.java.lang.invoke.MethodHandleProxies
    return _read(java, found.toArray(proxies.asInterfaceInstance(function, constructor)))


def one(java: Java, system: Any, path: Any) -> HadoopFile:
    """What ``getFileStatus`` says."""
    array = java.gateway.new_array(java.hadoop.fs.FileStatus, 1)
    array[0] = system.getFileStatus(path)
    return _read(java, array)[0]


def _read(java: Java, array: Any) -> list[HadoopFile]:
    buffer = java.jvm.java.io.ByteArrayOutputStream()
    java.hadoop.io.ObjectWritable(array).write(java.jvm.java.io.DataOutputStream(buffer))
    return list(_statuses(bytes(buffer.toByteArray())))


def _statuses(data: bytes) -> Iterator[HadoopFile]:
    """An array as ``ObjectWritable`` has it: its class, its length, and each with two classes."""
    at = _after_text(data, 0)
    (count,) = struct.unpack_from(">i", data, at)
    at += 4
    for _ in range(count):
        at = _after_text(data, _after_text(data, at))
        (size,) = struct.unpack_from(">i", data, at)
        at += 4 + size
        fields = dict(_fields(data[at - size : at]))
        size, modified = fields.get(_LENGTH, 0), fields.get(_MODIFIED, 0)
        yield HadoopFile(fields[_PATH].decode(), fields[_TYPE], size, modified)


def _after_text(data: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">H", data, at)
    return at + 2 + int(length)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value: Any
        value, at = _varint(message, at) if key & 7 in (0, 2) else (None, at + _width(key & 7))
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        yield key >> 3, value


def _width(kind: int) -> int:
    return {1: 8, 5: 4}[kind]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


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

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """As `Files.list`."""
        path = self._path(folder) if folder else self._root
        look = below if recursive else in_folder
        found: list[HadoopFile] = []
        with suppress(FileNotFoundError), translated("listing", str(path)):
            found = look(self.java, self._system, path)
        entries = (self._entry(each) for each in found)
        # Of a file Hadoop lists the file itself.
        return tuple(sorted(each for each in entries if each.name != folder))

    def find(self, name: str = "") -> FileEntry | None:
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

    def _status(self, path: Any) -> HadoopFile | None:
        with suppress(FileNotFoundError), translated("looking at", str(path)):
            return one(self.java, self._system, path)
        return None

    def _entry(self, status: HadoopFile) -> FileEntry:
        name = f"{_below_host(status.path)}/".removeprefix(self._prefix).rstrip("/")
        if status.is_folder:
            return FileEntry(name, "folder")
        tag = f"{status.modified:x}-{status.size:x}"
        return FileEntry(
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
