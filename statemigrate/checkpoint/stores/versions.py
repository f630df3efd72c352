"""Which files make a version of a store.

A version is the newest snapshot up to it, and the changes of each version after that. In checkpoint
format 2 a file has a unique id in its name, and each changelog names those before it back to a
snapshot: a version that was written twice has two files, of which the commit names one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from statemigrate.checkpoint.stores.changelog import LineageItem, read_changelog
from statemigrate.checkpoint.stores.rocksdb_files import read_snapshot
from statemigrate.errors import CorruptFileError
from statemigrate.files import Files

_NAME = re.compile(
    r"(0|[1-9][0-9]{0,18})(?:_([0-9A-Za-z-]{1,64}))?\.(zip|changelog|snapshot|delta)"
)
LARGEST_ZIP = 256 << 20
"""Bytes of a snapshot's zip, which has RocksDB's small files only."""


@dataclass(frozen=True)
class StoreVersion:
    """The files of one version of one store, by their names below the checkpoint.

    ``snapshot`` is None where all changes since the beginning are there. ``shared`` are the files
    that the snapshot has beside it.
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
    """The files of a snapshot that are beside it, in the size that it says."""
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
