"""Snapshots: a partition's whole database, stored by content so that unchanged files are shared.

RocksDB never changes an SST file once written. A snapshot is a listing of files by SHA-256; a file
already stored under its hash is not stored again. On one file system storing is a hard link.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.database import Database
from statemigrate.embedded.storage.durable import (
    FILE,
    DurableFile,
    FileReference,
    copy,
    link_or_copy,
    linked,
    publish_document,
    read_document,
    rename,
    sha256_of,
    understood,
    unwritable,
    verify,
)
from statemigrate.embedded.storage.layout import file_name
from statemigrate.errors import CorruptFileError
from statemigrate.files.shapes import OBJECT, check_shape

_HASHES = "statemigrate-hashes.json"


def store_snapshot(
    database: Database, directory: Path, contents: Path, version: int
) -> FileReference:
    """Store the open database's present state; returns the listing's reference."""
    moment = database.path.with_name(f"{database.path.name}-copy-{uuid.uuid4().hex}")
    try:
        database.copy_to(moment)
        known = _Hashes(database.path / _HASHES)
        files = [_store(path, contents, known) for path in sorted(moment.iterdir())]
        known.save()
    finally:
        shutil.rmtree(moment, ignore_errors=True)
    listing = directory / file_name(version, "snapshot")
    return publish_document(
        listing,
        {"files": [{"name": n, "sha256": r.sha256, "size": r.size} for n, r in files]},
    )


def restore_snapshot(reference: FileReference, directory: Path, contents: Path, into: Path) -> None:
    """Lay out a snapshot's files in the empty directory ``into``, each verified."""
    into.mkdir(parents=True)
    for name, file in snapshot_files(reference, directory):
        source = file.within(contents)
        verify(source, file)
        _link_or_copy(source, FileReference(name, file.sha256, file.size).within(into))


def snapshot_files(reference: FileReference, directory: Path) -> list[tuple[str, FileReference]]:
    """The files of a snapshot: the name in the database, and the stored content."""
    listing = reference.within(directory)
    verify(listing, reference)
    document = read_document(listing)
    understood(listing, "a listing", lambda: check_shape(document, {"files": [FILE]}))
    return [
        (each["name"], FileReference(each["sha256"], each["sha256"], each["size"]))
        for each in document["files"]
    ]


def _store(path: Path, contents: Path, known: _Hashes) -> tuple[str, FileReference]:
    digest = known.of(path) if path.suffix == ".sst" else sha256_of(path)
    size = path.stat().st_size
    stored = contents / digest
    kept = confined(stored)
    if not (kept.is_file() and kept.stat().st_size == size):
        _store_content(path, stored)
    return path.name, FileReference(digest, digest, size)


def _store_content(path: Path, stored: Path) -> None:
    with unwritable(stored.parent):
        confined(stored).parent.mkdir()
        temporary = stored.with_name(f".{stored.name}.{uuid.uuid4().hex}.tmp")
        if path.suffix == ".sst" and linked(path, temporary):
            rename(temporary, stored)
            return
    file = DurableFile(stored)
    with path.open("rb") as source:
        shutil.copyfileobj(source, file.stream)
    file.publish()


def _link_or_copy(source: Path, target: Path) -> None:
    # RocksDB appends to its manifest and rewrites CURRENT, so only SST files may be shared.
    if target.suffix == ".sst":
        link_or_copy(source, target)
    else:
        copy(source, target)


class _Hashes:
    """Hashes of SST files by inode, size and time, so that each file is hashed once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read_hashes(path)
        self._used: dict[str, str] = {}

    def of(self, path: Path) -> str:
        stat = path.stat()
        identity = f"{path.name}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}"
        digest = self._known.get(identity) or sha256_of(path)
        self._used[identity] = digest
        return digest

    def save(self) -> None:
        publish_document(self._path, {"hashes": self._used})


def _read_hashes(path: Path) -> dict[str, str]:
    try:
        document = read_document(path)
        check_shape(document, {"hashes": OBJECT})
    except (FileNotFoundError, CorruptFileError, ValueError):
        # It only saves time: hash the files again.
        return {}
    known: dict[str, str] = document["hashes"]
    return known
