"""The files of one state store: which make a version, and how each provider lays them out.

Which files make a version of a store.

A version is the newest snapshot up to it, and the changes of each version after that. In checkpoint
format 2 a file has a unique id in its name, and each changelog names those before it back to a
snapshot: a version that was written twice has two files, and the commit names one.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from statemigrate.errors import CorruptFileError
from statemigrate.files import Files, Maybe, Table, check_shape, parse_json

if TYPE_CHECKING:
    from statemigrate.checkpoint.stores.changelog import LineageItem

# Snapshots of Spark's RocksDB provider: ``<version>.zip``.
#
# The zip has RocksDB's small files and ``metadata``: a line ``v1``, and JSON that says which SST
# files and logs, in ``SSTs/`` and ``logs/`` next to it, belong to them, how many keys there are,
# and the numbers of the column families. A snapshot with nothing but ``metadata`` is of an empty
# store, for which Spark makes a new database. Format: ``RocksDBFileManager.scala`` of apache/spark.


_LARGEST = 64 << 20
"""Bytes of ``metadata``; an SST file takes about 150."""
_WHEN = (1980, 1, 1, 0, 0, 0)
_FILE = {"localFileName": str, "sizeBytes": int}
_SHAPE = {
    "sstFiles": [{**_FILE, "dfsSstFileName": str}],
    "logFiles": Maybe([{**_FILE, "dfsLogFileName": str}], missing=True),
    "numKeys": range(-1, 2**63),
    "numInternalKeys": Maybe(int, missing=True),
    "columnFamilyMapping": Maybe(Table(int), missing=True),
    "columnFamilyTypeMap": Maybe(Table(bool), missing=True),
    "maxColumnFamilyId": Maybe(int, missing=True),
}
_ROCKSDB_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")


@dataclass(frozen=True)
class SharedFile:
    """A file that snapshots share: its ``name`` below the store, and the one RocksDB knows."""

    name: str
    local_name: str
    size: int


@dataclass(frozen=True)
class Snapshot:
    """What ``metadata`` says. ``families`` has the number of each column family.

    ``keys`` is -1 where Spark did not count.
    """

    shared: tuple[SharedFile, ...] = ()
    keys: int = 0
    internal_keys: int = 0
    families: Mapping[str, int] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()


_WRONG = (
    ValueError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What `zipfile` raises for a zip that is damaged, or that it does not understand."""


def read_snapshot(source: BinaryIO, path: str) -> Snapshot:
    """What a zip says of itself; ``path`` is for messages. Raises `CorruptFileError`."""
    # Changelogs are Arrow's, which takes a while to load.
    from statemigrate.checkpoint.stores.changelog import corrupt

    try:
        with zipfile.ZipFile(source) as archive:
            _check_methods(archive)
            with archive.open("metadata") as file:
                data = file.read(_LARGEST + 1)
        return _parsed(data)
    except (KeyError, *_WRONG) as error:
        raise corrupt(path, error) from error


def check_archive(source: BinaryIO, path: str) -> None:
    """Raise `CorruptFileError` where a file in a snapshot's zip is not what was put into it.

    These are RocksDB's small files, which state is read without and Spark needs.
    """
    from statemigrate.checkpoint.stores.changelog import corrupt

    try:
        with zipfile.ZipFile(source) as archive:
            _check_methods(archive)
            _check_files(archive)
    except _WRONG as error:
        raise corrupt(path, error) from error


def _check_methods(archive: zipfile.ZipFile) -> None:
    """Raise ValueError for a file that Java would not have packed so: each library has errors."""
    for each in archive.infolist():
        if each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{each.filename[:100]!r} is packed by method {each.compress_type}")


def _check_files(archive: zipfile.ZipFile) -> None:
    size = sum(each.file_size for each in archive.infolist())
    if size > LARGEST_SMALL:
        raise ValueError(f"{size:,} bytes in a zip for at most {LARGEST_SMALL:,}")
    altered = archive.testzip()
    if altered is not None:
        raise ValueError(f"the checksum of {altered[:100]!r} is another one")


def empty_snapshot(families: Mapping[str, int], internal: Collection[str] = ()) -> bytes:
    """The zip of a store with these column families and no key; none of a store without them.

    ``internal`` are those that only Spark itself looks at, whose keys it counts apart.
    """
    return written_snapshot(Snapshot(families=families, internal=frozenset(internal)), {})


def written_snapshot(snapshot: Snapshot, small: Mapping[str, bytes]) -> bytes:
    """The zip that says ``snapshot``, with RocksDB's ``small`` files by their names."""
    document = {
        "sstFiles": [
            {
                "localFileName": each.local_name,
                "dfsSstFileName": each.name.removeprefix("SSTs/"),
                "sizeBytes": each.size,
            }
            for each in snapshot.shared
        ],
        "numKeys": snapshot.keys,
        "numInternalKeys": snapshot.internal_keys,
        "columnFamilyMapping": dict(snapshot.families),
        "columnFamilyTypeMap": {name: name in snapshot.internal for name in snapshot.families},
        "maxColumnFamilyId": max(snapshot.families.values(), default=0),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        # The same state makes the same file, whenever it is made.
        for name, data in {**small, "metadata": f"v1\n{text}".encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data)
    return made.getvalue()


def _parsed(data: bytes) -> Snapshot:
    version, _, text = data.partition(b"\n")
    if len(data) > _LARGEST or version.strip() != b"v1":
        raise ValueError(f"metadata of {len(data):,} bytes, version {version[:20]!r}")
    document = parse_json(text)
    check_shape(document, _SHAPE)
    if not set(document) <= set(_SHAPE):
        raise ValueError(f"{', '.join(sorted(set(document) - set(_SHAPE)))[:200]} in metadata")
    return Snapshot(
        tuple(_shared_tables(document)),
        document["numKeys"],
        document.get("numInternalKeys") or 0,
        document.get("columnFamilyMapping") or {},
        frozenset(n for n, own in (document.get("columnFamilyTypeMap") or {}).items() if own),
    )


def _shared_tables(document: Mapping[str, Any]) -> list[SharedFile]:
    ssts = [("SSTs", each, "dfsSstFileName") for each in document["sstFiles"]]
    logs = [("logs", each, "dfsLogFileName") for each in document.get("logFiles") or ()]
    found = [
        SharedFile(f"{folder}/{each[name]}", each["localFileName"], each["sizeBytes"])
        for folder, each, name in ssts + logs
    ]
    for each in found:
        for name in (each.name.partition("/")[2], each.local_name):
            if not _ROCKSDB_NAME.fullmatch(name):
                raise ValueError(f"a file called {name[:100]!r}")
    return found


_NAME = re.compile(
    r"(0|[1-9][0-9]{0,18})(?:_([0-9A-Za-z-]{1,64}))?\.(zip|changelog|snapshot|delta)"
)
LARGEST_ZIP = 256 << 20
"""Bytes of a snapshot's zip, which has RocksDB's small files only."""
LARGEST_SMALL = 1 << 30
"""Bytes of these files together."""


@dataclass(frozen=True)
class StoreVersion:
    """The files of one version of one store, by their names below the checkpoint.

    ``snapshot`` is None where all changes since the beginning are there. ``shared`` are the files
    that belong to the snapshot.
    """

    folder: str
    version: int
    snapshot: str | None
    changes: tuple[str, ...]
    shared: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(filter(None, [self.snapshot, *self.changes, *self.shared]))

    @property
    def has_ids(self) -> bool:
        """Whether files have unique ids in their names, as in checkpoint format 2."""
        return "_" in next(iter(self.names), "").rpartition("/")[2]


@dataclass(frozen=True)
class StoredPartition:
    """One partition of a store: its files, and the numbers of its column families.

    ``keys`` is how many its snapshot has; None where no snapshot says it. ``has_log`` says that the
    snapshot has rows in RocksDB's write-ahead log, which Spark's own reader alone replays.
    """

    version: StoreVersion
    families: Mapping[str, int]
    keys: int | None = None
    has_log: bool = False


def store_folder(operator: int, partition: int, store: str = "default") -> str:
    """Where the files of a store are, below the checkpoint."""
    return f"state/{operator}/{partition}" + ("" if store == "default" else f"/{store}")


def hdfs_version(files: Files, folder: str, version: int) -> StoreVersion:
    """The files of a version of the HDFS-backed provider.

    Raises `CorruptFileError` where one is missing.
    """
    return _without_ids(_listed(files, folder), files, folder, version, ("snapshot", "delta"))


def rocksdb_version(
    files: Files, folder: str, version: int, unique_id: str | None, codec: str
) -> StoreVersion:
    """The files of a version of the RocksDB provider.

    ``unique_id`` is what the commit says, None in checkpoint format 1. Raises `CorruptFileError`
    where a file is missing, or is not what Spark writes.
    """
    from statemigrate.checkpoint.stores.changelog import LineageItem

    names = _listed(files, folder)
    if unique_id is None:
        found = _without_ids(names, files, folder, version, ("zip", "changelog"))
    else:
        found = _with_ids(names, files, folder, LineageItem(version, unique_id), codec)
    return StoreVersion(
        folder, version, found.snapshot, found.changes, _shared(files, folder, found.snapshot)
    )


def _listed(files: Files, folder: str) -> set[str]:
    return {each.base_name for each in files.list(folder) if _NAME.fullmatch(each.base_name)}


def _without_ids(
    names: set[str], files: Files, folder: str, version: int, kinds: tuple[str, str]
) -> StoreVersion:
    whole, change = kinds
    numbers = {int(n.partition(".")[0]) for n in names if n.endswith(f".{whole}") and "_" not in n}
    newest = max((each for each in numbers if each <= version), default=0)
    snapshot = f"{newest}.{whole}" if newest else None
    changes = [f"{each}.{change}" for each in range(newest + 1, version + 1)]
    return _present(names, files, folder, version, snapshot, changes)


def _with_ids(
    names: set[str], files: Files, folder: str, last: LineageItem, codec: str
) -> StoreVersion:
    from statemigrate.checkpoint.stores.changelog import read_changelog

    if f"{_file(last)}.zip" in names:
        return _present(names, files, folder, last.version, f"{_file(last)}.zip", [])
    changelog = f"{_file(last)}.changelog"
    _present(names, files, folder, last.version, None, [changelog])
    with io.BytesIO(files.get(f"{folder}/{changelog}")) as source:
        path = f"{files.location}/{folder}/{changelog}"
        lineage = [*read_changelog(source, codec, path).lineage, last]
    _check_lineage(lineage, path)
    start = max((n for n, each in enumerate(lineage) if f"{_file(each)}.zip" in names), default=-1)
    snapshot = f"{_file(lineage[start])}.zip" if start >= 0 else None
    if snapshot is None and lineage[0].version != 1:
        raise _missing(files, folder, last.version, f"{_file(lineage[0])}.zip")
    changes = [f"{_file(each)}.changelog" for each in lineage[start + 1 :]]
    return _present(names, files, folder, last.version, snapshot, changes)


def _file(item: LineageItem) -> str:
    return f"{item.version}_{item.unique_id}"


def _check_lineage(lineage: Sequence[LineageItem], path: str) -> None:
    versions = [each.version for each in lineage]
    known = all(_NAME.fullmatch(f"{_file(each)}.zip") for each in lineage)
    if not known or versions != list(range(versions[0], versions[0] + len(versions))):
        raise CorruptFileError(
            "SM-CHECKPOINT-021",
            f"{path} has a lineage with a gap",
            expected="the unique id of each version from a snapshot on",
            found=str(versions)[:200],
            next_action="restore the file from a copy of the checkpoint; Spark refuses it too",
            path=path,
        )


def _present(  # what a version is, and where it is looked for
    names: set[str],
    files: Files,
    folder: str,
    version: int,
    snapshot: str | None,
    changes: Sequence[str],
) -> StoreVersion:
    for name in changes:
        if name not in names:
            raise _missing(files, folder, version, name)
    return StoreVersion(
        folder,
        version,
        None if snapshot is None else f"{folder}/{snapshot}",
        tuple(f"{folder}/{each}" for each in changes),
    )


def _shared(files: Files, folder: str, snapshot: str | None) -> tuple[str, ...]:
    """The files next to a snapshot that belong to it, with the size that it says."""
    if snapshot is None:
        return ()
    with io.BytesIO(files.get(snapshot, most=LARGEST_ZIP)) as source:
        shared = read_snapshot(source, f"{files.location}/{snapshot}").shared
    places = dict.fromkeys({each.name.partition("/")[0] for each in shared}, 0)
    there = {
        f"{place}/{each.base_name}": each.size
        for place in places
        for each in files.list(f"{folder}/{place}")
        if each.kind == "file"
    }
    for each in shared:
        if there.get(each.name) != each.size:
            raise CorruptFileError(
                "SM-CHECKPOINT-022",
                f"{files.location}/{folder}/{each.name} is not what {snapshot} says",
                expected=f"a file of {each.size:,} bytes",
                found="no such file"
                if each.name not in there
                else f"one of {there[each.name]:,} bytes",
                next_action="restore the file from a copy of the checkpoint; Spark needs it too",
                path=f"{files.location}/{folder}/{each.name}",
            )
    return tuple(f"{folder}/{each.name}" for each in shared)


def _missing(files: Files, folder: str, version: int, name: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-CHECKPOINT-023",
        f"{files.location}/{folder}/{name} is missing",
        expected=f"the files that version {version} of the store is made of",
        found="no such file",
        next_action="take a batch whose state is still kept, or restore the file from a copy of "
        "the checkpoint",
        path=f"{files.location}/{folder}/{name}",
        version=version,
    )
