"""An object store in memory, stricter than any: the second leg of tests of what keeps files.

It has no folders, no rename and no links. A name is written once, unless it is replaced on purpose.
Every request is written down, and at any of them a fault can wait: a 409, a 503, an answer that is
lost after the store did as it was told, or whatever a test calls. Listings may lag behind.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from statemigrate.errors import StorageError
from statemigrate.files.confined import foreign
from statemigrate.files.protocol import LARGEST, ConflictError, FileEntry, check_name, create_once

Answer = TypeVar("Answer")
PAGE = 1000
"""Names in the answer to one listing, and in one request to delete."""
Status = Literal[409, 503]
Verb = Literal["put", "create", "replace", "get", "head", "list", "delete"]


@dataclass(frozen=True)
class Request:
    verb: Verb
    name: str


@dataclass(frozen=True)
class Fault:
    """``done``: the request was carried out, and only its answer is this one."""

    status: Status
    done: bool = False


class _AnsweredError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class _Object:
    data: bytes
    modified: float
    since: int
    """The number of the request that made it."""


@dataclass
class ObjectStore:
    """The store itself. ``faults`` are by the number of the request, counted from 0, each once.

    A listing does not know what the last ``lag`` requests did. ``watch`` is called before each
    request, and may raise. ``clock`` says when something was made.
    """

    faults: dict[int, Fault] = field(default_factory=dict)
    lag: int = 0
    watch: Callable[[Request], None] = lambda request: None
    clock: Callable[[], float] = time.time
    requests: list[Request] = field(default_factory=list)
    objects: dict[str, _Object] = field(default_factory=dict)
    _removed: dict[str, _Object] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def ask(self, verb: Verb, name: str, answer: Callable[[], Answer]) -> Answer:
        """Answer a request, unless a fault waits for it."""
        request = Request(verb, name)
        # Not under the lock: it may be another driver's whole life.
        self.watch(request)
        with self._lock:
            self.requests.append(request)
            fault = self.faults.pop(len(self.requests) - 1, None)
            if fault is None:
                return answer()
            if fault.done:
                with suppress(FileNotFoundError, FileExistsError):
                    answer()
            raise _AnsweredError(fault.status)

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = _Object(bytes(data), self.clock(), len(self.requests))

    def remove(self, key: str) -> None:
        gone = self.objects.pop(key, None)
        if gone is not None:
            self._removed[key] = _Object(gone.data, gone.modified, len(self.requests))

    def listed(self, prefix: str) -> list[str]:
        """The keys as a listing has them, which may be those of a while ago."""
        known = len(self.requests) - self.lag
        found = {key for key, each in self.objects.items() if each.since <= known or not self.lag}
        found |= {key for key, each in self._removed.items() if self.lag and each.since > known}
        return sorted(key for key in found if key.startswith(prefix))

    def about(self, key: str) -> _Object:
        """An object of a listing."""
        return self.objects.get(key) or self._removed[key]


@dataclass(frozen=True)
class MemoryFiles:
    """`Files` in an `ObjectStore`, below a prefix; a request that fails is made four times."""

    store: ObjectStore = field(default_factory=ObjectStore)
    prefix: str = "checkpoint"

    @classmethod
    def holding(cls, files: dict[str, bytes]) -> "MemoryFiles":
        """Files that are there already."""
        made = cls()
        for name, data in files.items():
            made.store.write(made._key(name), data)
        return made

    @property
    def location(self) -> str:
        return f"memory://{self.prefix}"

    @property
    def content(self) -> dict[str, bytes]:
        """All that is there, by name."""
        inner = f"{self.prefix}/"
        found = self.store.objects.items()
        return {k.removeprefix(inner): each.data for k, each in found if k.startswith(inner)}

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        data = self._ask("get", name, lambda: self._data(name))
        if len(data) > most:
            raise foreign(self._key(name), f"more than {most:,} bytes")
        return data

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        data = self.get(name)[:most] if cut else self.get(name, most=most)
        with target.open("xb") as file:
            file.write(data)

    def put(self, name: str, data: bytes | Path) -> None:
        content = data.read_bytes() if isinstance(data, Path) else data

        def write() -> None:
            known = self.store.objects.get(self._key(name))
            assert known is None or known.data == content, f"{name} is written over"
            self.store.write(self._key(name), content)

        self._ask("put", name, write)

    def create(self, name: str, data: bytes) -> None:
        def write() -> None:
            if self._key(name) in self.store.objects:
                raise FileExistsError(name)
            self.store.write(self._key(name), data)

        create_once(
            data, lambda: self._ask("create", name, write), lambda: self.get(name), lambda _: None
        )

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        self._ask("replace", name, lambda: self.store.write(self._key(name), data))

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        inner = f"{self._key(folder) if folder else self.prefix}/"
        found = self._ask("list", folder, lambda: self.store.listed(inner))
        for _ in range(PAGE, len(found), PAGE):
            self._ask("list", folder, lambda: None)
        entries = {
            each.name: each
            for key in found
            for each in (self._entry(key) if recursive else self._first(inner, key),)
        }
        return tuple(sorted(entries.values()))

    def find(self, name: str = "") -> FileEntry | None:
        key = self._key(name) if name else self.prefix
        if self._ask("head", name, lambda: key in self.store.objects):
            return self._entry(key)
        below = self._ask("list", name, lambda: self.store.listed(f"{key}/"))
        return FileEntry(name, "folder") if below else None

    def delete(self, names: Iterable[str]) -> None:
        keys = {name: self._key(name) for name in names}
        for start in range(0, len(keys), PAGE):
            page = list(keys)[start : start + PAGE]
            self._ask(
                "delete", page[0], lambda page=page: [self.store.remove(keys[n]) for n in page]
            )

    def delete_folder(self, folder: str) -> None:
        check_name(folder)
        self.delete([each.name for each in self.list(folder, recursive=True)])

    def _key(self, name: str) -> str:
        return "/".join((self.prefix, *check_name(name)))

    def _data(self, name: str) -> bytes:
        found = self.store.objects.get(self._key(name))
        if found is None:
            raise FileNotFoundError(name)
        return found.data

    def _entry(self, key: str) -> FileEntry:
        found = self.store.about(key)
        tag = hashlib.md5(found.data, usedforsecurity=False).hexdigest()
        name = key.removeprefix(f"{self.prefix}/")
        return FileEntry(name, "file", len(found.data), found.modified, tag)

    def _first(self, inner: str, key: str) -> FileEntry:
        name, slash, _ = key.removeprefix(inner).partition("/")
        folder = f"{inner}{name}".removeprefix(f"{self.prefix}/")
        return FileEntry(folder, "folder") if slash else self._entry(key)

    def _ask(self, verb: Verb, name: str, answer: Callable[[], Answer]) -> Answer:
        """As the clients of real stores do it: again, as long as there is hope."""
        status = 0
        for _ in range(4):
            try:
                return self.store.ask(verb, name, answer)
            except _AnsweredError as error:
                status = error.status
                if verb == "create" and status == 409:
                    break
        kind = ConflictError if status == 409 else StorageError
        raise kind("SM-STORAGE-007", f"{verb} of {name}: {status}", path=name)
