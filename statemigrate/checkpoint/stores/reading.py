"""The state of one partition of a store, read from its files without Spark.

All of the HDFS-backed provider, and of the RocksDB provider what is in changelogs: a snapshot with
SST files needs RocksDB itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from statemigrate.checkpoint.logs.pinned import MERGE_OPERATOR, codec_of, has_checksums, pinned
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.stores.changelog import read_changelog
from statemigrate.checkpoint.stores.folding import fold
from statemigrate.checkpoint.stores.hdfs_files import read_state_file
from statemigrate.checkpoint.stores.integrity import verified
from statemigrate.checkpoint.stores.records import Changes
from statemigrate.checkpoint.stores.rocksdb_files import Snapshot, read_snapshot
from statemigrate.checkpoint.stores.versions import StoreVersion
from statemigrate.errors import UnsupportedError
from statemigrate.files import Files


def read_hdfs_state(
    files: Files, version: StoreVersion, conf: Mapping[str, str]
) -> Iterator[tuple[Rows, Rows]]:
    """The keys and values of a version of the HDFS-backed provider, as they are in its files.

    A batch at a time where the version is a snapshot and nothing else, else all at once. ``conf``
    are the pinned settings. Raises `CorruptFileError` for a damaged file.
    """
    if version.snapshot is not None and not version.changes:
        for each in _state_files(files, [version.snapshot], conf):
            yield each.keys, each.values
        return
    changes = _state_files(files, [*filter(None, [version.snapshot]), *version.changes], conf)
    yield fold_state(changes, conf)


def read_changelog_state(
    files: Files, version: StoreVersion, conf: Mapping[str, str]
) -> tuple[Rows, Rows]:
    """The keys and values of a version of the RocksDB provider that is in changelogs only.

    Keys begin with the number of their column family where the store has families. Raises
    `UnsupportedError` for one with SST files, `CorruptFileError` for a damaged file.
    """
    if version.shared:
        raise UnsupportedError(
            "SM-STATE-018",
            f"{files.location}/{version.snapshot} has SST files",
            expected="a store whose state is in changelogs only",
            found=f"{len(version.shared)} files of RocksDB",
            next_action="read it through Spark's state reader, or with RocksDB",
            path=f"{files.location}/{version.snapshot}",
        )
    return fold_state(read_changes(files, version, conf), conf)


def read_changes(files: Files, version: StoreVersion, conf: Mapping[str, str]) -> Iterator[Changes]:
    """What the changelogs of a version have, in their order, deleted keys without checksums.

    Raises `CorruptFileError` for a damaged file, also where a row has another checksum.
    """
    for name in version.changes:
        with _opened(files, name) as source:
            path = f"{files.location}/{name}"
            yield from _verified(read_changelog(source, codec_of(conf), path).changes, conf, path)


def snapshot_of(files: Files, version: StoreVersion) -> Snapshot | None:
    """What the snapshot of a version says of itself; None where it has none."""
    if version.snapshot is None:
        return None
    with _opened(files, version.snapshot) as source:
        return read_snapshot(source, f"{files.location}/{version.snapshot}")


def _state_files(files: Files, names: list[str], conf: Mapping[str, str]) -> Iterator[Changes]:
    for name in names:
        with _opened(files, name) as source:
            path = f"{files.location}/{name}"
            yield from _verified(read_state_file(source, codec_of(conf), path), conf, path)


def _verified(changes: Iterator[Changes], conf: Mapping[str, str], path: str) -> Iterator[Changes]:
    return verified(changes, RowLayout.of(conf), path) if has_checksums(conf) else changes


def fold_state(changes: Iterator[Changes], conf: Mapping[str, str]) -> tuple[Rows, Rows]:
    """What is left of all ``changes`` of a version."""
    return fold(changes, separator=b"," if pinned(conf, MERGE_OPERATOR) == "1" else b"")


@contextmanager
def _opened(files: Files, name: str) -> Iterator[BinaryIO]:
    found = files.find(name)
    if found is None:
        raise FileNotFoundError(f"{files.location}/{name}")
    with tempfile.TemporaryDirectory(prefix="statemigrate-") as folder:
        target = Path(folder, "file")
        files.fetch(name, target, most=found.size, shared=True)
        with target.open("rb") as source:
            yield source
