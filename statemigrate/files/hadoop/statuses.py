"""What Hadoop says of files, many in one answer.

Each call of a method through py4j is a round trip. Hadoop writes a whole array of ``FileStatus`` as
bytes, each a message of Protocol Buffers with its length before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from statemigrate.files.hadoop.jvm import Java

_STATUS = "org.apache.hadoop.fs.FileStatus"
_FOLDER, _FILE = 1, 2
_TYPE, _PATH, _LENGTH, _MODIFIED = 1, 2, 3, 7


@dataclass(frozen=True)
class Status:
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


def in_folder(java: Java, system: Any, path: Any) -> list[Status]:
    """What ``listStatus`` of a ``FileSystem`` finds."""
    return _read(java, system.listStatus(path))


def below(java: Java, system: Any, path: Any) -> list[Status]:
    """What ``listFiles`` finds at any depth: on an object store one request a thousand names."""
    found = java.hadoop.util.functional.RemoteIterators.toList(system.listFiles(path, True))
    # A list becomes an array by a function object, which Java makes of its own constructor.
    load = java.jvm.java.lang.Class.forName
    kind = load(f"[L{_STATUS};", True, java.configuration.getClassLoader())
    constructor = java.jvm.java.lang.invoke.MethodHandles.arrayConstructor(kind)
    function = load("java.util.function.IntFunction")
    proxies = java.jvm.java.lang.invoke.MethodHandleProxies
    return _read(java, found.toArray(proxies.asInterfaceInstance(function, constructor)))


def one(java: Java, system: Any, path: Any) -> Status:
    """What ``getFileStatus`` says."""
    array = java.gateway.new_array(java.hadoop.fs.FileStatus, 1)
    array[0] = system.getFileStatus(path)
    return _read(java, array)[0]


def _read(java: Java, array: Any) -> list[Status]:
    buffer = java.jvm.java.io.ByteArrayOutputStream()
    java.hadoop.io.ObjectWritable(array).write(java.jvm.java.io.DataOutputStream(buffer))
    return list(_statuses(bytes(buffer.toByteArray())))


def _statuses(data: bytes) -> Iterator[Status]:
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
        yield Status(fields[_PATH].decode(), fields[_TYPE], size, modified)


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
