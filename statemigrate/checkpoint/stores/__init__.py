"""The files of a state store, of either provider: read and written without Spark."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.checkpoint.stores.changelog import DELETE, LineageItem, SparkChangelogWriter
    from statemigrate.checkpoint.stores.files import (
        SharedFile,
        Snapshot,
        StoredPartition,
        StoreVersion,
        empty_snapshot,
        read_snapshot,
        rocksdb_version,
        store_folder,
        written_snapshot,
    )
    from statemigrate.checkpoint.stores.hdfs_state import SnapshotWriter
    from statemigrate.checkpoint.stores.partition_reader import snapshot_of
    from statemigrate.checkpoint.stores.provider import (
        PROVIDERS,
        StoreReader,
        provider_of,
        row_layout,
    )
else:
    make_face(
        __name__,
        {
            "changelog": "DELETE LineageItem SparkChangelogWriter",
            "files": (
                "SharedFile Snapshot StoreVersion StoredPartition empty_snapshot read_snapshot "
                "rocksdb_version store_folder written_snapshot"
            ),
            "hdfs_state": "SnapshotWriter",
            "partition_reader": "snapshot_of",
            "provider": "PROVIDERS StoreReader provider_of row_layout",
        },
    )
