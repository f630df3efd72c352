"""The one way to the files of a checkpoint, on a local disk, on HDFS or in a bucket.

What an object store cannot do is not in it: nothing is renamed, linked, appended to or locked, and
a folder is nothing but the part of names before a slash. Who may write what:

- Files of data get a name that is new (`Files.put`) and never change.
- What says that something is so (a manifest, an epoch) is made by one writer, once
  (`Files.create`): of two that try, one gets an error.
- Only small documents with a fixed name that one writer keeps up to date are written over
  (`Files.replace`): a plan, a record of deployments, a line of Spark's offset log.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import unquote

from statemigrate.errors import StorageError, UnsupportedError

LARGEST = 256 << 20
"""Bytes of a document, which is read as a whole; that of a thousand partitions has some ten MB."""


@dataclass(frozen=True, order=True)
class FileEntry:
    """What a listing says: ``name`` below the root, with slashes.

    ``kind`` is "other" for a link, a pipe or a device, which are never opened. ``size`` is in
    bytes, and ``modified`` in seconds since 1970 by the clock of the store, both 0 for a folder.
    ``tag`` is another one once the content is another one, as far as the store tells.
    """

    name: str
    kind: Literal["file", "folder", "other"]
    size: int = 0
    modified: float = 0.0
    tag: str = ""

    @property
    def base_name(self) -> str:
        """The name within its folder."""
        return self.name.rpartition("/")[2]


class Files(Protocol):
    """The files below one place. Names are relative to it, their parts separated by slashes.

    Threads may share one. Methods raise `FileNotFoundError` and `FileExistsError` where that is
    said, `ForeignFileError` for what is no file of data, ValueError for what is no such name, and
    `StorageError` for everything else that the store refuses or fails at. After that a file is
    there whole, as it was before, or not at all; which, nobody knows.
    """

    @property
    def location(self) -> str:
        """The place as a path or URI, as Spark takes it; for messages too."""

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        """What is in a document. Raises `ForeignFileError` for one of more than ``most`` bytes.

        Raises `FileNotFoundError`.
        """

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        """Write what is in a file to ``target``, a new local file, which is on disk then.

        With ``shared`` it may be a second name of the file: for what is only read. With ``cut``
        only the first ``most`` bytes of a longer file are read. Raises `FileNotFoundError`, and
        without ``cut`` `ForeignFileError` for a file of more than ``most`` bytes.
        """

    def put(self, name: str, data: bytes | Path) -> None:
        """Make a file of a name that nobody else uses; the same may be put any number of times.

        It appears whole, and survives a loss of power once this returns. ``data`` may be a local
        file that nobody changes any more, since it may get a second name.
        """

    def create(self, name: str, data: bytes) -> None:
        """Make a file that is not there, whole and durably. Raises `FileExistsError` if it is.

        Of all who try at the same time one succeeds. ``data`` has something in it that no other
        writer has: an answer may be lost, and a file with this very content is taken for the one
        made here. Raises `UnsupportedError` on a store that cannot do that, unless the user allows
        it with `ALLOW_RACES`.
        """

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        """Write a small document over the one that is there; a reader sees either, whole.

        For one writer: of several the last one stays. Where files have rights it has those of the
        file ``like``, or else of the one that it replaces.
        """

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """What is in a folder, in order; nothing where there is no such folder.

        With ``recursive`` the files in it and in all folders below it, without the folders.
        """

    def find(self, name: str = "") -> FileEntry | None:
        """What the name is of now, or the place itself; None where nothing has it."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; one that is not there is passed over."""

    def delete_folder(self, folder: str) -> None:
        """Remove everything below a folder, and the folder where there is such a thing."""


def check_name(name: str) -> tuple[str, ...]:
    """The parts of a name. Raises ValueError for what is no name below a checkpoint."""
    parts = tuple(name.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is not a name below a checkpoint")
    return parts


# Several files at a time, since each waits for a disk or a network.


_THREADS = 8


def done_at_once(tasks: Mapping[str, Callable[[], None]]) -> Iterator[str]:
    """Do all ``tasks``; each name is given when its own is done. Raises what a task raises."""
    with ThreadPoolExecutor(_THREADS) as threads:
        found = {name: threads.submit(task) for name, task in tasks.items()}
        try:
            for name, each in found.items():
                each.result()
                yield name
        finally:
            # After a failure nothing more is begun.
            threads.shutdown(cancel_futures=True)


# Where a checkpoint is, from a path or URI as Hadoop reads it.


# hdfs:/x is a URI too; on the local disk it would be a folder named hdfs:.
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//(?P<host>[^/]*))?(?P<path>/.*||(?<=^file:).*)",
    re.DOTALL,
)


def local_path(place: str) -> Path | None:
    """The absolute path of a place on a local or mounted disk; None for any other URI.

    Nothing in a path is a query or a fragment.
    """
    uri = _URI.fullmatch(place)
    if uri is None:
        return hadoop_path(Path(place))
    is_local = uri["scheme"].lower() == "file" and uri["host"] in (None, "", "localhost")
    is_path = is_local and uri["path"].startswith("/")
    return hadoop_path(Path(unquote(uri["path"]))) if is_path else None


def hadoop_path(path: Path) -> Path:
    """The absolute path that Hadoop, and so Spark, makes of one: ``..`` goes by the text.

    Behind a link the system would go to another directory than Spark does.
    """
    normal = os.path.normpath(path.absolute())
    # Two slashes in front are one to all but POSIX.
    return Path(f"/{normal.lstrip('/')}") if normal.startswith("//") else Path(normal)


def is_within(place: str, folder: str) -> bool:
    """Whether a place is another one, or somewhere below it, by their names."""
    return f"{place.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


# Making a file only if it is not there, on stores that answer in many ways, or not at all.


ALLOW_RACES = "STATEMIGRATE_ALLOW_RACES"
"""The environment variable by which somebody says: never do two writers start at one time."""
_ATTEMPTS = 4


class ConflictError(StorageError):
    """Two writers made a file of one name at the same time (S3's 409): neither may have it."""


def races_allowed() -> bool:
    """Whether a store without conditional writes may be used as if it had them."""
    return os.environ.get(ALLOW_RACES, "").lower() not in ("", "0", "false", "no")


def no_create(place: str, found: str) -> UnsupportedError:
    """The error for a store on which one of two writers would get no error."""
    return UnsupportedError(
        "SM-STORAGE-002",
        f"{place} cannot make a file only if it is not there",
        expected="a file system or connector with conditional creation: S3A since Hadoop 3.4.2, "
        "HDFS, Azure, Google Cloud Storage, a local disk",
        found=found,
        next_action="update the connector. Or make sure yourself that no two drivers ever use "
        f"one checkpoint at a time, and say so with {ALLOW_RACES}=1: two that do would write over "
        "each other's state without a word",
        path=place,
    )


def create_once(
    data: bytes,
    attempt: Callable[[], None],
    read: Callable[[], bytes],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Create a file by ``attempt``, again after a conflict.

    An attempt raises `FileExistsError` where the file is there. An answer may have been lost on the
    way, and a client that asked again gets the answer that its own file is there; then ``read`` has
    the same ``data``, as no other writer's can.
    """
    for number in range(_ATTEMPTS):
        try:
            attempt()
        except FileExistsError:
            if read() != data:
                raise
        except ConflictError:
            if number == _ATTEMPTS - 1:
                raise
            sleep(0.1 * 2**number)
            continue
        return
