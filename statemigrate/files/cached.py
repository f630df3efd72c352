"""Files as they were when first looked at, so that one look at a checkpoint asks once for each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from statemigrate.files.protocol import LARGEST, FileEntry, Files


class Remembered:
    """`Files` that remembers what it read and listed, until something is written through it.

    For the length of one look at one moment: what a running query adds later is not seen, and what
    it removes meanwhile is there still.
    """

    def __init__(self, files: Files) -> None:
        self.now = files
        """The files as they are."""
        self._contents: dict[str, bytes | None] = {}
        self._lists: dict[tuple[str, bool], tuple[FileEntry, ...]] = {}
        self._found: dict[str, FileEntry | None] = {}

    @property
    def location(self) -> str:
        """As `Files.location`."""
        return self.now.location

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        """As `Files.get`."""
        if name not in self._contents:
            try:
                self._contents[name] = self.now.get(name, most=most)
            except FileNotFoundError:
                self._contents[name] = None
                # Who lists again wants to see what there is instead.
                self._lists.pop((name.rpartition("/")[0], False), None)
        content = self._contents[name]
        if content is None:
            raise FileNotFoundError(f"{self.location}/{name}")
        return content

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """As `Files.list`."""
        key = (folder, recursive)
        if key not in self._lists:
            self._lists[key] = self.now.list(folder, recursive=recursive)
        return self._lists[key]

    def find(self, name: str = "") -> FileEntry | None:
        """As `Files.find`; of a folder that was listed nobody is asked again."""
        parent = name.rpartition("/")[0]
        if name and (parent, False) in self._lists:
            return next((each for each in self._lists[parent, False] if each.name == name), None)
        if name not in self._found:
            self._found[name] = self.now.find(name)
        return self._found[name]

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        """As `Files.fetch`."""
        self.now.fetch(name, target, most=most, shared=shared, cut=cut)

    def put(self, name: str, data: bytes | Path) -> None:
        """As `Files.put`."""
        self._forget()
        self.now.put(name, data)

    def create(self, name: str, data: bytes) -> None:
        """As `Files.create`."""
        self._forget()
        self.now.create(name, data)

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        """As `Files.replace`."""
        self._forget()
        self.now.replace(name, data, like=like)

    def delete(self, names: Iterable[str]) -> None:
        """As `Files.delete`."""
        self._forget()
        self.now.delete(names)

    def delete_folder(self, folder: str) -> None:
        """As `Files.delete_folder`."""
        self._forget()
        self.now.delete_folder(folder)

    def _forget(self) -> None:
        self._contents.clear()
        self._lists.clear()
        self._found.clear()
