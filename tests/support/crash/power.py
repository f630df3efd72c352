"""What a loss of power leaves of some folders, from what they were and the journal since.

POSIX promises little: a file's bytes survive from its last ``fsync`` on, a name in a directory from
the directory's. File systems give more, each something else, so there are three rules:

- ``strict``: nothing survives but what was synced, names and bytes apart;
- ``names``: every name survives, and of the bytes only what was synced: what ext4 leaves when its
  journal was committed and its delayed allocation was not;
- ``mixed``: of what was not synced a part chosen by a seed survives: of each directory's names and
  of each file's writes the first few, the last of those torn.

A rename from one directory into another survives whole or not at all, with the sync of the second.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from support.crash.journal import Operation

Rule = Literal["strict", "names", "mixed"]
RULES: tuple[Rule, ...] = ("strict", "names", "mixed")
_CUT = -1


@dataclass(eq=False)
class _File:
    durable: bytes = b""
    now: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    """Writes since the last sync: offset and bytes; the offset `_CUT` sets the size."""

    def change(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        _apply(self.now, offset, data)

    def sync(self) -> None:
        self.durable, self.pending = bytes(self.now), []


@dataclass(eq=False)
class _Folder:
    durable: dict[str, _Node] = field(default_factory=dict)
    now: dict[str, _Node] = field(default_factory=dict)
    pending: list[Callable[[], None]] = field(default_factory=list)
    """Changes of names since the last sync, each as what makes it durable."""

    def sync(self) -> None:
        for change in self.pending:
            change()
        self.pending = []


_Node = _File | _Folder


class Disk:
    """Some folders as they were when power was certain, and what was done to them since."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._files: dict[int, _File] = {}
        self._roots = {str(each): self._read(each) for each in folders}

    def replay(self, operations: Iterable[Operation]) -> None:
        """Do on this disk what a journal says was done."""
        for each in operations:
            self._do(each)

    def lay_out(self, rule: Rule, seed: int) -> None:
        """Replace the folders' content by what a loss of power leaves now."""
        random = Random(seed)
        for path in self._folders:
            shutil.rmtree(path, ignore_errors=True)
        laid: dict[_File, Path] = {}
        for path, folder in self._roots.items():
            _lay_out(Path(path), folder, rule, random, laid)

    def _read(self, path: Path) -> _Folder:
        folder = _Folder()
        for each in sorted(path.iterdir()) if path.is_dir() else ():
            folder.now[each.name] = self._read(each) if each.is_dir() else self._read_file(each)
        folder.durable = dict(folder.now)
        return folder

    def _read_file(self, path: Path) -> _File:
        inode = path.stat().st_ino
        if inode not in self._files:
            data = path.read_bytes()
            self._files[inode] = _File(data, bytearray(data))
        return self._files[inode]

    def _do(self, operation: Operation) -> None:
        match operation.kind:
            case "W":
                self._files[operation.inode].change(operation.offset, operation.more)
            case "T":
                size = operation.offset.to_bytes(8, "little")
                self._files[operation.inode].change(_CUT, size)
            case "S":
                self._sync(operation)
            case "C":
                self._files[operation.inode] = made = _File()
                self._name(operation.path, made)
            case "M":
                self._name(operation.path, _Folder())
            case "L":
                self._name(operation.more.decode(), self._found(operation.path))
            case "U" | "D":
                self._name(operation.path, None)
            case "R":
                self._rename(operation.path, operation.more.decode())

    def _sync(self, operation: Operation) -> None:
        file = self._files.get(operation.inode)
        # A directory may have the number of a file that was removed: its path tells.
        folder = self._look(operation.path)
        if isinstance(folder, _Folder):
            folder.sync()
        elif file is not None:
            file.sync()

    def _name(self, path: str, node: _Node | None) -> None:
        folder, name = self._parent(path)
        _set(folder.now, name, node)
        folder.pending.append(lambda: _set(folder.durable, name, node))

    def _rename(self, before: str, after: str) -> None:
        (source, old), (target, new) = self._parent(before), self._parent(after)
        node = source.now.pop(old)
        target.now[new] = node

        def change() -> None:
            if source.durable.get(old) is node:
                del source.durable[old]
            target.durable[new] = node

        target.pending.append(change)

    def _found(self, path: str) -> _Node:
        found = self._look(path)
        assert found is not None, path
        return found

    def _look(self, path: str) -> _Node | None:
        if path in self._roots:
            return self._roots[path]
        folder, name = self._parent(path)
        return folder.now.get(name)

    def _parent(self, path: str) -> tuple[_Folder, str]:
        root = next(each for each in self._roots if path.startswith(f"{each}/"))
        *between, name = path.removeprefix(f"{root}/").split("/")
        folder = self._roots[root]
        for each in between:
            inner = folder.now[each]
            assert isinstance(inner, _Folder)
            folder = inner
        return folder, name


def _set(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _apply(data: bytearray, offset: int, more: bytes) -> None:
    if offset == _CUT:
        size = int.from_bytes(more, "little")
        del data[size:]
        data.extend(bytes(size - len(data)))
        return
    data.extend(bytes(max(0, offset - len(data))))
    data[offset : offset + len(more)] = more


def _lay_out(
    path: Path, folder: _Folder, rule: Rule, random: Random, laid: dict[_File, Path]
) -> None:
    path.mkdir(parents=True)
    for name, node in sorted(_left_names(folder, rule, random).items()):
        if isinstance(node, _Folder):
            _lay_out(path / name, node, rule, random, laid)
        elif node in laid:
            os.link(laid[node], path / name)
        else:
            (path / name).write_bytes(_left_bytes(node, rule, random))
            laid[node] = path / name


def _left_names(folder: _Folder, rule: Rule, random: Random) -> dict[str, _Node]:
    if rule == "names":
        return folder.now
    if rule == "mixed":
        for change in folder.pending[: random.randint(0, len(folder.pending))]:
            change()
    return folder.durable


def _left_bytes(file: _File, rule: Rule, random: Random) -> bytes:
    if rule != "mixed" or not file.pending:
        return file.durable
    data = bytearray(file.durable)
    count = random.randint(0, len(file.pending))
    for offset, more in file.pending[:count]:
        _apply(data, offset, more)
    if count < len(file.pending) and file.pending[count][0] != _CUT:
        offset, more = file.pending[count]
        _apply(data, offset, more[: random.randint(0, len(more))])
    return bytes(data)
