"""The local file system for ``pyarrow.fs``, confined to one checkpoint."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs

from statemigrate.files.confined import ConfinedPath


def _refuse(*_: Any) -> NoReturn:
    raise NotImplementedError("nothing in a checkpoint is appended to, copied or emptied")


def _is_text(path: ConfinedPath) -> bool:
    # Neither Spark nor Arrow can have written a name that is no UTF-8, nor could they say it.
    try:
        path.name.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Synced(io.BufferedWriter):
    """A file that is on disk once it is closed: what renames it then replaces a whole one."""

    def close(self) -> None:
        """Write what is buffered, and see it to the disk."""
        try:
            if not self.closed:
                self.flush()
                os.fsync(self.fileno())
        finally:
            super().close()


class ConfinedFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """Files below ``root`` by their absolute paths; no link below it is followed.

    Kinds: a link, a pipe or a device is of the type Unknown. Raises `ForeignFileError` where one
    would have to be followed or opened.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def get_type_name(self) -> str:
        """The name that ``type_name`` shows."""
        return "confined"

    def normalize_path(self, path: str) -> str:
        """Paths stay as they are: there are no shorter ones to be made."""
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        """What is under each path."""
        return [self._info(self._at(path), path) for path in paths]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        """What is in a directory, or anywhere below it."""
        at = self._at(selector.base_dir)
        try:
            return list(self._listed(at, selector.base_dir, recursive=selector.recursive))
        except (FileNotFoundError, NotADirectoryError):
            if selector.allow_not_found and not at.exists():
                return []
            raise

    def create_dir(self, path: str, recursive: bool) -> None:
        """Make a directory, with those above it."""
        del recursive
        self._at(path).mkdir()

    def delete_dir(self, path: str) -> None:
        """Remove a directory with what is in it."""
        self._at(path).remove_tree()

    def delete_file(self, path: str) -> None:
        """Remove a file."""
        self._at(path).unlink()

    def move(self, src: str, dest: str) -> None:
        """Rename, in place of what has the name now."""
        self._at(src).rename_to(self._at(dest))

    def open_input_stream(self, path: str) -> Any:
        """Open a document to be read."""
        return pa.PythonFile(self._at(path).open_document(), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        """Make a new file; one of that name is not written over."""
        del metadata
        new: Any = self._at(path).open("xb")
        return pa.PythonFile(_Synced(new.detach()), mode="w")

    open_input_file = open_input_stream
    open_append_stream = copy_file = delete_dir_contents = delete_root_dir_contents = _refuse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfinedFiles) and self._root == other._root

    def __hash__(self) -> int:
        return hash(self._root)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _at(self, path: str) -> ConfinedPath:
        return ConfinedPath(self._root, Path(path).relative_to(self._root).parts)

    def _listed(self, at: ConfinedPath, path: str, *, recursive: bool) -> Iterator[Any]:
        for each in filter(_is_text, at.iterdir()):
            found = self._info(each, f"{path.rstrip('/')}/{each.name}")
            if found.type == fs.FileType.NotFound:
                # Removed since the directory was listed.
                continue
            yield found
            if recursive and found.type == fs.FileType.Directory:
                yield from self._listed(each, found.path, recursive=True)

    def _info(self, at: ConfinedPath, path: str) -> Any:
        try:
            found = at.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return fs.FileInfo(path, fs.FileType.NotFound)
        kinds = {stat.S_IFDIR: fs.FileType.Directory, stat.S_IFREG: fs.FileType.File}
        kind = kinds.get(stat.S_IFMT(found.st_mode), fs.FileType.Unknown)
        size = found.st_size if kind == fs.FileType.File else None
        return fs.FileInfo(path, kind, size=size, mtime_ns=found.st_mtime_ns)
