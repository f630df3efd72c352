"""Snapshots: a partition's whole database. Unchanged files are shared.

RocksDB never changes an SST file once written. A snapshot is a listing of files by SHA-256; a file
that the snapshots before it have is not stored again. Only what these name is shared, never what
just lies there: it may be about to be removed. On one file system storing is a hard link. Small
files that are no SST files (CURRENT, manifest, options) lie in the listing itself.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemigrate.embedded.database import Database
from statemigrate.embedded.durable import (
    FILE,
    DurableFile,
    FileReference,
    confined,
    copy,
    link_or_copy,
    linked,
    publish_document,
    read_document,
    rename,
    sha256_of,
    unwritable,
    verify,
)
from statemigrate.embedded.layout import file_name
from statemigrate.errors import CorruptFileError
from statemigrate.files import (
    OBJECT,
    RESTORE_COPY,
    Maybe,
    check_shape,
    understood,
    unsealed,
)

_HASHES = "statemigrate-hashes.json"
_LISTED = {**FILE, "stored": Maybe(str, missing=True), "content": Maybe(str, missing=True)}
_SMALL = 256 << 10
"""Bytes up to which a file that is no SST file lies in the listing."""


@dataclass(frozen=True)
class SnapshotFile:
    """A file of a snapshot: its name in the database, and the content.

    ``stored`` is the file that has it. Without one it is ``small``.
    """

    name: str
    stored: FileReference | None
    small: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """The form that a listing has."""
        if self.stored is None:
            packed = base64.b85encode(zlib.compress(self.small)).decode()
            digest = hashlib.sha256(self.small).hexdigest()
            found = {"name": self.name, "sha256": digest, "size": len(self.small)}
            return {**found, "content": packed}
        file = self.stored
        found = {"name": self.name, "sha256": file.sha256, "size": file.size}
        return {**found, "stored": file.name}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> SnapshotFile:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        packed = document.get("content")
        if packed is not None:
            return cls(document["name"], None, _unpacked(packed, document))
        # Content had its hash as its name once.
        stored = document.get("stored") or document["sha256"]
        return cls(document["name"], FileReference(stored, document["sha256"], document["size"]))


def store_snapshot(
    database: Database,
    directory: Path,
    contents: Path,
    version: int,
    before: Iterable[FileReference] = (),
    lost: Collection[str] = (),
) -> FileReference:
    """Store the open database's present state; returns the listing's reference.

    ``before`` are the listings whose unchanged files are shared. One that is damaged has nothing
    to share, and neither do the files of content that ``lost`` names.
    """
    shared = {
        each.sha256: each
        for listing in before
        for each in _shareable(listing, directory)
        if each.name not in lost
    }
    copy_path = database.path.with_name(f"{database.path.name}-copy-{uuid.uuid4().hex}")
    try:
        database.copy_to(copy_path)
        known = _Hashes(database.path / _HASHES)
        paths = sorted(copy_path.iterdir())
        files = [_store(path, contents, version, shared, known) for path in paths]
        known.save()
    finally:
        shutil.rmtree(copy_path, ignore_errors=True)
    listing = directory / file_name(version, "snapshot")
    return publish_document(listing, {"files": [each.to_json() for each in files]})


def restore_snapshot(reference: FileReference, directory: Path, contents: Path, into: Path) -> None:
    """Lay out a snapshot's files in the empty directory ``into``, each verified."""
    for _ in laid_out(reference, directory, contents, into):
        pass


def laid_out(
    reference: FileReference, directory: Path, contents: Path, into: Path
) -> Iterator[None]:
    """`restore_snapshot`, a file with each step."""
    into.mkdir(parents=True)
    for each in snapshot_files(reference, directory):
        target = FileReference(each.name, "", 0).within(into)
        if each.stored is None:
            with confined(target).open("xb") as file:
                file.write(each.small)
            continue
        source = each.stored.within(contents)
        verify(source, each.stored)
        _link_or_copy(source, target)
        yield


def _shareable(listing: FileReference, directory: Path) -> list[FileReference]:
    try:
        return stored_files(listing, directory)
    except CorruptFileError:
        # What it named is stored once more; a restore by it reports the damage.
        return []


def stored_files(reference: FileReference, directory: Path) -> list[FileReference]:
    """The files of content of a snapshot whose listing is in ``directory``."""
    files = snapshot_files(reference, directory)
    return [each.stored for each in files if each.stored is not None]


def snapshot_files(reference: FileReference, directory: Path) -> list[SnapshotFile]:
    """The files of a snapshot whose listing is in ``directory``."""
    listing = reference.within(directory)
    verify(listing, reference)
    return listed(confined(listing).read_bytes(), reference, str(listing))


def listed(data: bytes, reference: FileReference, place: str) -> list[SnapshotFile]:
    """What a listing says; raises `CorruptFileError`, which names ``place``, if it was altered."""
    if hashlib.sha256(data).hexdigest() != reference.sha256:
        raise CorruptFileError(
            "SM-EMBEDDED-018",
            f"{place} is not what was written",
            expected=f"{reference.size} bytes with SHA-256 {reference.sha256}",
            found=f"{len(data)} other bytes",
            next_action=RESTORE_COPY,
            path=place,
        )
    document = unsealed(data, place)
    return understood(place, "a listing", lambda: _files(document))


def _files(document: dict[str, Any]) -> list[SnapshotFile]:
    check_shape(document, {"files": [_LISTED]})
    return [SnapshotFile.from_json(each) for each in document["files"]]


def _unpacked(packed: str, document: dict[str, Any]) -> bytes:
    try:
        # Bounded: what is packed may claim to be anything.
        content = zlib.decompressobj().decompress(base64.b85decode(packed), _SMALL + 1)
    except zlib.error as error:
        raise ValueError(f"{document['name']} is not packed as a small file is") from error
    if hashlib.sha256(content).hexdigest() != document["sha256"]:
        raise ValueError(f"{document['name']} has another checksum than it should")
    return content


def _store(
    path: Path, contents: Path, version: int, shared: Mapping[str, FileReference], known: _Hashes
) -> SnapshotFile:
    size = path.stat().st_size
    if path.suffix != ".sst" and size <= _SMALL:
        return SnapshotFile(path.name, None, path.read_bytes())
    digest = known.of(path) if path.suffix == ".sst" else sha256_of(path)
    content = shared.get(digest)
    if content is None or not _is_there(content.within(contents), size):
        content = FileReference(file_name(version, "content"), digest, size)
        _store_content(path, contents / content.name)
    return SnapshotFile(path.name, content)


def _is_there(stored: Path, size: int) -> bool:
    kept = confined(stored)
    return kept.is_file() and kept.stat().st_size == size


def _store_content(path: Path, stored: Path) -> None:
    with unwritable(stored.parent):
        confined(stored).parent.mkdir()
        if path.suffix == ".sst":
            temporary = stored.with_name(f".{stored.name}.{uuid.uuid4().hex}.tmp")
            if linked(path, temporary):
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
