"""The journal that the preloaded library writes: each file operation, in the order it was done."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = struct.Struct("<B7xQQII")
NAMES = {
    "C": "create",
    "T": "truncate",
    "W": "write",
    "S": "sync",
    "R": "rename",
    "L": "link",
    "U": "unlink",
    "D": "rmdir",
    "M": "mkdir",
    "O": "open",
    "r": "read",
    "N": "hint",
}


@dataclass(frozen=True)
class Operation:
    """One operation: its kind (a letter of `NAMES`), the file's number and path, and what it had.

    ``more`` is what was written, or the second path of a rename or link; ``offset`` is where it
    was written, or the size a file was cut to.
    """

    kind: str
    inode: int
    offset: int
    path: str
    more: bytes


def operations(journal: Path) -> Iterator[Operation]:
    """What was done, without the last word of the library about where it stopped."""
    return (each for each in _records(journal.read_bytes()) if each.kind != "K")


def stopped_at(journal: Path) -> str | None:
    """The operation at which the library ended the process or let it fail, in words."""
    for each in _records(journal.read_bytes()):
        if each.kind == "K":
            return f"operation {each.inode}, {NAMES[chr(each.offset)]} {each.path}"
    return None


def _records(data: bytes) -> Iterator[Operation]:
    at = 0
    while at < len(data):
        kind, inode, offset, first, second = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        path = data[at : at + first].decode()
        yield Operation(chr(kind), inode, offset, path, data[at + first : at + first + second])
        at += first + second
