"""`Files` in buckets and on HDFS for who only reads them: through libraries without a JVM.

Buckets are reached through pyarrow, which is there already: its wheels have the clients of Amazon,
Google and Microsoft, which find credentials as those vendors' own tools do, in profiles and roles
too. obstore needs one request a file where pyarrow needs two (34 small files in 0.22 seconds in
place of 0.44, on one machine), but knows no profiles, and is one more package of 16 MB. HDFS is
reached through hdfs-native, an extra, since pyarrow's own way there is a JVM.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit

from statemigrate.errors import StorageError, UnsupportedError, without_credentials
from statemigrate.files.confined import foreign
from statemigrate.files.protocol import LARGEST, FileEntry, check_name

ANSWER_TIMEOUT = 9.0
"""Seconds in which a store has to answer the first question."""
_BLOCK = 1 << 20


class Store(Protocol):
    """What a library reads; paths are the store's own, from its root.

    Methods raise `FileNotFoundError`, and OSError for everything else.
    """

    def find(self, path: str) -> FileEntry | None:
        """What is at a path, its name the whole path."""

    def list(self, path: str, *, recursive: bool) -> Iterable[FileEntry]:
        """What is below a folder, each name the whole path; nothing where there is none."""

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A file to read from its start."""


class ArrowStore:
    """A bucket, or whatever else a file system of pyarrow has."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def find(self, path: str) -> FileEntry | None:
        """As `Store.find`."""
        return _arrow_entry(self._system.get_file_info(path))

    def list(self, path: str, *, recursive: bool) -> Iterable[FileEntry]:
        """As `Store.list`."""
        from pyarrow.fs import FileSelector

        # Of Google's buckets pyarrow lists no folder without an object of its own, which nothing
        # but some connectors makes.
        is_by_prefix = self._system.type_name == "gcs" and not recursive
        chosen = FileSelector(path, recursive=recursive or is_by_prefix, allow_not_found=True)
        found = map(_arrow_entry, self._system.get_file_info(chosen))
        entries = [each for each in found if each is not None]
        return _children(path, entries) if is_by_prefix else entries

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """As `Store.open`."""
        opened: AbstractContextManager[BinaryIO] = self._system.open_input_stream(path)
        return opened


def _children(path: str, entries: Iterable[FileEntry]) -> list[FileEntry]:
    """What is directly below a folder, of all that is below it."""
    found: dict[str, FileEntry] = {}
    for each in entries:
        first, _, rest = each.name.removeprefix(f"{path}/").partition("/")
        name = f"{path}/{first}"
        if rest or each.kind == "folder":
            found[name] = FileEntry(name, "folder")
        else:
            found.setdefault(name, each)
    return list(found.values())


def _arrow_entry(info: Any) -> FileEntry | None:
    from pyarrow.fs import FileType

    path = info.path.rstrip("/")
    if info.type == FileType.NotFound:
        return None
    if info.type == FileType.Directory:
        return FileEntry(path, "folder")
    nanoseconds, size = info.mtime_ns or 0, info.size or 0
    kind: Any = "file" if info.type == FileType.File else "other"
    return FileEntry(path, kind, size, nanoseconds / 1e9, f"{nanoseconds:x}-{size:x}")


class HdfsFiles:
    """HDFS, by its own protocol; settings are those of ``HADOOP_CONF_DIR``."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def find(self, path: str) -> FileEntry | None:
        """As `Store.find`."""
        try:
            return _hdfs_entry(self._client.get_file_info(path))
        except FileNotFoundError:
            return None

    def list(self, path: str, *, recursive: bool) -> Iterable[FileEntry]:
        """As `Store.list`."""
        try:
            return [_hdfs_entry(each) for each in self._client.list_status(path, recursive)]
        except FileNotFoundError:
            return []

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """As `Store.open`."""
        opened: AbstractContextManager[BinaryIO] = self._client.read(path)
        return opened


def _hdfs_entry(status: Any) -> FileEntry:
    if status.isdir:
        return FileEntry(status.path, "folder")
    modified, size = status.modification_time, status.length
    return FileEntry(status.path, "file", size, modified / 1000, f"{modified:x}-{size:x}")


@dataclass(frozen=True)
class ReadFiles:
    """`Files` below ``root``, a path of a ``store``, which are only read.

    ``location`` is the place as the user gave it. What writes raises `UnsupportedError`.
    """

    location: str
    store: Store
    root: str

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        """As `Files.get`."""
        path = self._path(name)
        with _translated("reading", self._shown(name)), self.store.open(path) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise foreign(self._shown(name), f"more than {most:,} bytes")
        return bytes(data)

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        """As `Files.fetch`; nothing is ever shared."""
        del shared
        path, place = self._path(name), self._shown(name)
        with (
            target.open("xb") as file,
            _translated("reading", place),
            self.store.open(path) as source,
        ):
            left = most
            while left and (part := source.read(min(left, _BLOCK))):
                file.write(part)
                left -= len(part)
            if not left and not cut and source.read(1):
                raise foreign(place, f"more than {most:,} bytes")
            file.flush()
            os.fsync(file.fileno())

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """As `Files.list`."""
        path = self._path(folder) if folder else self.root
        found: list[FileEntry] = []
        with suppress(FileNotFoundError), _translated("listing", self._shown(folder)):
            found = [self._below(each) for each in self.store.list(path, recursive=recursive)]
        # Of a file HDFS lists the file itself.
        return tuple(
            sorted(
                each
                for each in found
                if each.name not in ("", folder) and not (recursive and each.kind == "folder")
            )
        )

    def find(self, name: str = "") -> FileEntry | None:
        """As `Files.find`."""
        path = self._path(name) if name else self.root
        with _translated("looking at", self._shown(name)):
            found = self.store.find(path)
        return None if found is None else self._below(found)

    def put(self, name: str, data: bytes | Path) -> None:  # noqa: ARG002
        """Raise `UnsupportedError`."""
        raise self._only_read(name)

    def create(self, name: str, data: bytes) -> None:  # noqa: ARG002
        """Raise `UnsupportedError`."""
        raise self._only_read(name)

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:  # noqa: ARG002
        """Raise `UnsupportedError`."""
        raise self._only_read(name)

    def delete(self, names: Iterable[str]) -> None:
        """Raise `UnsupportedError`."""
        raise self._only_read(", ".join(names))

    def delete_folder(self, folder: str) -> None:
        """Raise `UnsupportedError`."""
        raise self._only_read(folder)

    def _path(self, name: str) -> str:
        check_name(name)
        return f"{self.root}/{name}"

    def _shown(self, name: str) -> str:
        return f"{self.location}/{name}".rstrip("/")

    def _below(self, entry: FileEntry) -> FileEntry:
        name = f"{entry.name}/".removeprefix(f"{self.root}/").rstrip("/")
        return FileEntry(name, entry.kind, entry.size, entry.modified, entry.tag)

    def _only_read(self, name: str) -> UnsupportedError:
        return UnsupportedError(
            "SM-STORAGE-019",
            f"{self._shown(name)} is only read here, and not written",
            expected="a command that reads",
            found="files that are reached without Java",
            next_action="please report this: what writes a checkpoint reaches it through Spark",
            path=self.location,
        )


# Which library reaches a place.


_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs"}
_HDFS = {"hdfs", "viewfs"}
_SETTINGS = {
    **dict.fromkeys(("s3", "s3a", "s3n"), ("fs.s3", "fs.s3a", "fs.s3n")),
    "gs": ("fs.gs", "google.cloud"),
    **dict.fromkeys(("abfs", "abfss"), ("fs.azure",)),
}
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE) or the machine's "
    "role; AWS_REGION, and AWS_ENDPOINT_URL for a store that is not Amazon's",
    "gs": "application default credentials (GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth "
    "application-default login`)",
    "abfs": "Azure's default credentials (AZURE_CLIENT_ID, AZURE_TENANT_ID and "
    "AZURE_CLIENT_SECRET, `az login`, or a managed identity)",
    "hdfs": "a Kerberos ticket (kinit), or HADOOP_USER_NAME where there is no Kerberos; "
    "HADOOP_CONF_DIR for a name service",
}
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|EXPIRED|UNRECOGNIZED_CLIENT|"
    r"PERMISSION_DENIED|UNAUTHENTICATED|Permission denied|Forbidden|HTTP 40[13]|credential",
    re.IGNORECASE,
)
_reached: set[tuple[str, str]] = set()


def settings_of(location: str) -> tuple[str, ...]:
    """What the names of the settings begin with by which Hadoop reaches a place."""
    return _SETTINGS.get(urlsplit(location).scheme.lower(), ())


def files_without_java(location: str) -> ReadFiles | None:
    """The files at a URI; None where no library that is installed reaches them.

    Raises `StorageError` within ten seconds where the store does not answer.
    """
    place = urlsplit(location)
    is_reached = (place.scheme, place.netloc) in _reached
    if _SCHEMES.get(place.scheme.lower()) == "abfs" and not is_reached:
        _require_azure(location)
    files: ReadFiles | None = _in_time(location, lambda: opened(location))
    if files is None:
        return None
    if not is_reached:
        top = files.root.partition("/")[0] or "/"
        if _in_time(location, lambda: files.store.find(top)) is None:
            raise _unreachable(location, f"no bucket or container {top}")
        _reached.add((place.scheme, place.netloc))
    return files


def opened(location: str) -> ReadFiles | None:
    """As `files_without_java`, but no store is asked whether it is there."""
    place = urlsplit(location)
    scheme, host = place.scheme.lower(), place.netloc
    path = location.partition("://")[2].partition("/")[2].rstrip("/")
    if scheme in _SCHEMES and host:
        from pyarrow import fs

        try:
            # The rest of the path is no URI: what is a percent sign there is one.
            system, base = fs.FileSystem.from_uri(f"{_SCHEMES[scheme]}://{host}/x")
        except (NotImplementedError, ImportError, ValueError):
            # This platform's wheel has no client for it, or the host is not of its form.
            return None
        root = "/".join(filter(None, (base.removesuffix("x").rstrip("/"), path)))
        return ReadFiles(location.rstrip("/"), ArrowStore(system), root)
    if scheme in _HDFS:
        try:
            from hdfs_native import Client
        except ImportError:
            return None
        client = Client(f"{scheme}://{host}")
        return ReadFiles(location.rstrip("/"), HdfsFiles(client), f"/{path}".rstrip("/"))
    return None


_LOOK = """
import sys
from statemigrate.files.without_java import opened
files = opened(sys.stdin.read())
if files is not None:
    files.store.find(files.root.partition("/")[0])
print("answered")
"""


def _require_azure(location: str) -> None:
    """Look at a place of Microsoft's in another process.

    Where credentials are missing or refused, pyarrow ends its process without an exception.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a place goes by standard input
            [sys.executable, "-c", _LOOK],
            input=location,
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unreachable(location, f"no answer in {ANSWER_TIMEOUT:.0f} seconds") from error
    if done.returncode or "answered" not in done.stdout:
        lines = [each.strip() for each in done.stderr.splitlines() if each.strip()]
        said = [each.partition("what():")[2].strip() for each in lines if "what():" in each]
        found = (said or lines[-1:] or [f"exit code {done.returncode}"])[0]
        raise _unreachable(location, without_credentials(found[:600]))


def _in_time(location: str, ask: Callable[[], Any]) -> Any:
    """What ``ask`` answers. Libraries try again for minutes; nobody waits for them that long."""
    answers: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def asking() -> None:
        try:
            answers.put((ask(), None))
        except Exception as error:
            answers.put((None, error))

    threading.Thread(target=asking, name="statemigrate-reaching", daemon=True).start()
    try:
        answer, error = answers.get(timeout=ANSWER_TIMEOUT)
    except Empty:
        raise _unreachable(location, f"no answer in {ANSWER_TIMEOUT:.0f} seconds") from None
    if error is not None:
        raise _unreachable(location, _described(error)) from error
    return answer


def _unreachable(location: str, found: str) -> StorageError:
    shown = without_credentials(location)
    return StorageError(
        "SM-STORAGE-012",
        f"{shown} cannot be reached",
        expected=f"an answer, with {_credentials(location)}",
        found=found,
        next_action="correct the address or the credentials; or pass a Spark session, whose "
        "connector is used then",
        path=shown,
    )


def _credentials(location: str) -> str:
    scheme = urlsplit(location).scheme.lower()
    vendor = "hdfs" if scheme in _HDFS else _SCHEMES.get(scheme, scheme)
    return _CREDENTIALS[vendor]


@contextmanager
def _translated(doing: str, path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, "No such file", path) from error
    except OSError as error:
        found = _described(error)
        if _REFUSED.search(found):
            raise StorageError(
                "SM-STORAGE-006",
                f"{doing} {path} was refused",
                expected=f"credentials that may do it, and have not expired: {_credentials(path)}",
                found=found,
                next_action="renew the credentials, or have the rights given; then run the same "
                "again",
                path=path,
            ) from error
        raise StorageError(
            "SM-STORAGE-007",
            f"{doing} {path} failed",
            expected="a store that answers, and that this user may use",
            found=found,
            next_action="look at what was found; when that is mended, run the same again",
            path=path,
        ) from error


def _described(error: Exception) -> str:
    """One line, without the server's stack."""
    text = str(error).partition("\n\tat ")[0] or type(error).__name__
    return " ".join(text.split())[:600]
