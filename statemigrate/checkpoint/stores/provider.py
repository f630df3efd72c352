"""State store providers: how each lays out the files of a store, and what surrounds its rows.

Spark has two. The RocksDB provider has keys in order, column families and files with unique ids;
the HDFS-backed provider has one map of keys, as files of changes. Whatever reads a store asks its
provider, which `provider_of` finds by the settings that are pinned to the query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from statemigrate.checkpoint.logs import (
    HDFS_PROVIDER,
    PROVIDER,
    ROCKSDB_PROVIDER,
    codec_of,
    pinned,
    unknown_setting,
)
from statemigrate.checkpoint.stores.files import (
    StoredPartition,
    StoreVersion,
    hdfs_version,
    rocksdb_version,
)
from statemigrate.files import Files

if TYPE_CHECKING:
    from statemigrate.checkpoint.rows import RowLayout, Rows
    from statemigrate.checkpoint.stores.changelog import ChangelogRecords

Conf = Mapping[str, str]
"""The settings that are pinned to a query, by their names."""


class StoreReader(Protocol):
    """The keys and values of one partition of a store as of a version.

    Methods raise `CorruptFileError` for a file that is missing or not what Spark writes.
    """

    def rows(
        self, start: bytes = b"", stop: bytes | None = None, *, values: bool = True
    ) -> Iterator[tuple[Rows, Rows]]:
        """Keys from ``start`` up to ``stop``, without it, and their values, some at a time.

        Keys begin with the number of their column family where the store has families. Without
        ``values`` these may be empty.
        """
        ...

    def find(self, keys: Rows) -> tuple[Rows, Rows]:
        """Those of ``keys`` that are there, with their values."""
        ...

    def keys_in(self, names: Collection[str]) -> Rows | None:
        """The keys in some of the version's shared files, also of what is deleted there.

        None where the provider has no such files, so that they do not tell.
        """
        ...

    def check(self) -> None:
        """Read everything that a restart of the query reads."""
        ...


class StoreProvider(Protocol):
    """One provider. ``name`` is its word in the command line, ``class_name`` Spark's setting.

    ``label`` is for people. ``has_families``: a store may have several column families, as
    ``transformWithState`` needs. ``has_file_ids``: files may have unique ids in their names, as in
    checkpoint format 2. ``changes_suffix`` ends the name of a file with one version's changes.
    """

    name: str
    class_name: str
    label: str
    has_families: bool
    has_file_ids: bool
    changes_suffix: str

    def row_layout(self, conf: Conf) -> RowLayout:
        """What surrounds a row. Raises `UnsupportedError` for a setting that is not known."""
        ...

    def version(
        self, files: Files, folder: str, version: int, conf: Conf, unique_id: str | None
    ) -> StoreVersion:
        """The files of a version of the store in ``folder``.

        ``unique_id`` is what the commit says, None in checkpoint format 1. Raises
        `CorruptFileError` where a file is missing.
        """
        ...

    def partition(self, files: Files, version: StoreVersion) -> StoredPartition:
        """The version with what its snapshot says of itself."""
        ...

    def open(self, files: Files, version: StoreVersion, conf: Conf) -> StoreReader:
        """The rows of a version."""
        ...

    def changes(self, files: Files, names: Sequence[str], conf: Conf) -> Iterator[ChangelogRecords]:
        """What some files of changes have, in their order, deleted keys without checksums.

        Raises `CorruptFileError` for a damaged file, also where a row has another checksum.
        """
        ...


class RocksDBProvider:
    """Snapshots of RocksDB's tables, and a changelog for each version since."""

    name = "rocksdb"
    class_name = ROCKSDB_PROVIDER
    label = "RocksDB"
    has_families = True
    has_file_ids = True
    changes_suffix = "changelog"

    def row_layout(self, conf: Conf) -> RowLayout:
        """Rows behind a byte of version, framed by lengths where one key has several."""
        from statemigrate.checkpoint.rows import RowLayout

        return RowLayout.of(conf, rocksdb=True)

    def version(
        self, files: Files, folder: str, version: int, conf: Conf, unique_id: str | None
    ) -> StoreVersion:
        """The newest snapshot, its tables, and the changelogs since."""
        return rocksdb_version(files, folder, version, unique_id, codec_of(conf))

    def partition(self, files: Files, version: StoreVersion) -> StoredPartition:
        """The numbers of column families and the count of keys are in the snapshot's metadata."""
        from statemigrate.checkpoint.stores.partition_reader import snapshot_of
        from statemigrate.checkpoint.stores.rocksdb_state import is_log

        snapshot = snapshot_of(files, version)
        if snapshot is None:
            return StoredPartition(version, {})
        return StoredPartition(
            version,
            dict(snapshot.families),
            None if snapshot.keys < 0 else snapshot.keys,
            any(is_log(each) for each in snapshot.shared),
        )

    def open(self, files: Files, version: StoreVersion, conf: Conf) -> StoreReader:
        """Tables and changelogs as one."""
        from statemigrate.checkpoint.stores.rocksdb_state import RocksDBState

        return RocksDBState(files, version, conf)

    def changes(self, files: Files, names: Sequence[str], conf: Conf) -> Iterator[ChangelogRecords]:
        """What changelogs have."""
        from statemigrate.checkpoint.stores.partition_reader import read_changelogs

        return read_changelogs(files, names, conf)


class HdfsBackedProvider:
    """Snapshots of all keys, and a delta for each version since."""

    name = "hdfs"
    class_name = HDFS_PROVIDER
    label = "HDFS-backed"
    has_families = False
    has_file_ids = False
    changes_suffix = "delta"

    def row_layout(self, conf: Conf) -> RowLayout:
        """Rows as they are."""
        from statemigrate.checkpoint.rows import RowLayout

        return RowLayout.of(conf, rocksdb=False)

    def version(
        self,
        files: Files,
        folder: str,
        version: int,
        conf: Conf,  # noqa: ARG002
        unique_id: str | None,  # noqa: ARG002
    ) -> StoreVersion:
        """The newest snapshot, and the deltas since."""
        return hdfs_version(files, folder, version)

    def partition(self, files: Files, version: StoreVersion) -> StoredPartition:  # noqa: ARG002
        """Its files say nothing of themselves."""
        return StoredPartition(version, {})

    def open(self, files: Files, version: StoreVersion, conf: Conf) -> StoreReader:
        """What is left of the deltas since the snapshot."""
        from statemigrate.checkpoint.stores.hdfs_state import HdfsState

        return HdfsState(files, version, conf)

    def changes(self, files: Files, names: Sequence[str], conf: Conf) -> Iterator[ChangelogRecords]:
        """What snapshots and deltas have."""
        from statemigrate.checkpoint.stores.hdfs_state import read_state_files

        return read_state_files(files, names, conf)


PROVIDERS: dict[str, StoreProvider] = {
    each.name: each for each in (RocksDBProvider(), HdfsBackedProvider())
}
"""The providers whose files are understood, by their names."""


def provider_of(conf: Conf) -> StoreProvider:
    """The provider of a query. Raises `UnsupportedError` for one that is not known."""
    found = pinned(conf, PROVIDER)
    by_class = {each.class_name: each for each in PROVIDERS.values()}
    if found not in by_class:
        raise unknown_setting(PROVIDER, found, tuple(by_class))
    return by_class[found]


def row_layout(conf: Conf) -> RowLayout:
    """What surrounds a row of a query's state. Raises `UnsupportedError` as `provider_of`."""
    return provider_of(conf).row_layout(conf)
