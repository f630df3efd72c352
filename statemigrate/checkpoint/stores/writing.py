"""Writing a version of a store, a batch of rows at a time, in memory that does not grow.

For the HDFS-backed provider it is one snapshot. For RocksDB it is a snapshot of an empty store as
the version before, and a changelog with every row: on loading Spark makes a database of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.changelog import ChangelogWriter, LineageItem
from statemigrate.checkpoint.stores.hdfs_files import SnapshotWriter
from statemigrate.checkpoint.stores.rocksdb_files import empty_snapshot
from statemigrate.errors import UnsupportedError


@dataclass(frozen=True)
class WrittenStore:
    """What a version of a store is to be.

    ``version`` is the batch and one. ``families`` has the number of each column family, None for a
    store without them; ``internal`` are those that only Spark looks at. ``unique_ids`` are for
    checkpoint format 2: those of the version before and of this one, of which the commit has the
    second.
    """

    version: int
    codec: str
    rocksdb: bool
    families: Mapping[str, int] | None = None
    internal: Collection[str] = field(default=frozenset())
    unique_ids: tuple[str, str] | None = None


class StoreWriter(Protocol):
    """Takes the rows of a partition, with the keys and values as the provider has them.

    ``names`` are the files that it makes in its folder.
    """

    names: tuple[str, ...]

    def put(self, keys: Rows, values: Rows, *, merge: bool = False) -> None:
        """Take more rows; with ``merge`` the values come after those that are there."""

    def close(self) -> None:
        """Write the end of the files."""


def open_store_writer(folder: Path, store: WrittenStore) -> StoreWriter:
    """A writer of ``store`` to files in ``folder``, which is there and has no such files.

    Raises `UnsupportedError` for what the provider cannot keep, and `FileExistsError`.
    """
    return _RocksDBWriter(folder, store) if store.rocksdb else _HdfsWriter(folder, store)


class _HdfsWriter:
    def __init__(self, folder: Path, store: WrittenStore) -> None:
        if store.families is not None or store.unique_ids is not None:
            raise UnsupportedError(
                "the HDFS-backed provider keeps neither column families nor unique ids",
                expected="the RocksDB provider",
                found=f"column families: {sorted(store.families or ())}",
                next_action="keep the state in RocksDB",
            )
        self.names: tuple[str, ...] = (f"{store.version}.snapshot",)
        self._file = _new(folder, self.names[0])
        self._writer = SnapshotWriter(self._file, store.codec)

    def put(self, keys: Rows, values: Rows, *, merge: bool = False) -> None:
        if merge:
            raise UnsupportedError(
                "the HDFS-backed provider keeps one value under a key",
                expected="the RocksDB provider, for lists",
                found="several values",
                next_action="keep the state in RocksDB",
            )
        self._writer.put(keys, values)

    def close(self) -> None:
        self._writer.close()
        self._file.close()


class _RocksDBWriter:
    def __init__(self, folder: Path, store: WrittenStore) -> None:
        before, this = store.unique_ids or (None, None)
        zipped = _name(store.version - 1, before, "zip")
        changelog = _name(store.version, this, "changelog")
        # Version 0 is empty by itself.
        self.names: tuple[str, ...] = (zipped, changelog) if store.version > 1 else (changelog,)
        if store.version > 1:
            with _new(folder, zipped) as file:
                file.write(empty_snapshot(store.families or {}, store.internal))
        lineage = [] if before is None or store.version < 2 else [_item(store, before)]
        self._file = _new(folder, changelog)
        self._writer = ChangelogWriter(self._file, store.codec, _changelog_version(store), lineage)

    def put(self, keys: Rows, values: Rows, *, merge: bool = False) -> None:
        if merge:
            self._writer.merge(keys, values)
        else:
            self._writer.put(keys, values)

    def close(self) -> None:
        self._writer.close()
        self._file.close()


def _changelog_version(store: WrittenStore) -> int:
    plain = 1 if store.families is None else 2
    return plain if store.unique_ids is None else plain + 2


def _item(store: WrittenStore, before: str) -> LineageItem:
    return LineageItem(store.version - 1, before)


def _name(version: int, unique_id: str | None, kind: str) -> str:
    return f"{version}.{kind}" if unique_id is None else f"{version}_{unique_id}.{kind}"


def _new(folder: Path, name: str) -> BinaryIO:
    return (folder / name).open("xb")
