"""The embedded engine: state in RocksDB, one database a partition, durable in the checkpoint."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.embedded.batches import Sink
    from statemigrate.embedded.changed_versions import (
        ComplementedValues,
        CopiedFamily,
        contents_at,
        copy_changed,
        fork_version,
        fork_versions,
        heartbeat_line,
        removed_versions,
    )
    from statemigrate.embedded.committed import CommittedPartition, CommittedVersion, hold
    from statemigrate.embedded.continuation import batch_time, last_committed, require_committed
    from statemigrate.embedded.embedded_options import EmbeddedOptions
    from statemigrate.embedded.layout import Layout, lock_holder
    from statemigrate.embedded.manifest import Manifest
    from statemigrate.embedded.offline import StoppedBackfill, StoppedQuery, stopped
    from statemigrate.embedded.processes import cores, shared_out
    from statemigrate.embedded.progress import BatchProgress
    from statemigrate.embedded.query import (
        ProcessorQuery,
        QueryParts,
        RunningQuery,
        check_checkpoint,
        parts_of,
    )
    from statemigrate.embedded.query_trial import QueryTrial
    from statemigrate.embedded.repair import (
        SET_ASIDE,
        DamagedFile,
        Inspection,
        Remade,
        StoppedRepair,
        locked_for_repair,
    )
    from statemigrate.embedded.rocksdb_families import list_key
    from statemigrate.embedded.versions import read_manifest, require_stopped, retained_versions
else:
    make_face(
        __name__,
        {
            "batches": "Sink",
            "changed_versions": (
                "ComplementedValues CopiedFamily contents_at copy_changed fork_version "
                "fork_versions heartbeat_line removed_versions"
            ),
            "committed": "CommittedPartition CommittedVersion hold",
            "continuation": "batch_time last_committed require_committed",
            "embedded_options": "EmbeddedOptions",
            "layout": "Layout lock_holder",
            "manifest": "Manifest",
            "offline": "StoppedBackfill StoppedQuery stopped",
            "processes": "cores shared_out",
            "progress": "BatchProgress",
            "query": "ProcessorQuery QueryParts RunningQuery check_checkpoint parts_of",
            "query_trial": "QueryTrial",
            "repair": "SET_ASIDE DamagedFile Inspection Remade StoppedRepair locked_for_repair",
            "rocksdb_families": "list_key",
            "versions": "read_manifest require_stopped retained_versions",
        },
    )
