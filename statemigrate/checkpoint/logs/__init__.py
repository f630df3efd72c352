"""The logs of a query: which offsets a batch had, that it was committed, what a source noted."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.checkpoint.logs.entries import (
        AGGREGATION_FORMAT,
        ENCODING,
        FILE_IDS,
        GROUPS_FORMAT,
        HDFS_PROVIDER,
        JOIN_FORMAT,
        MERGE_OPERATOR,
        PARTITIONS,
        PROVIDER,
        ROCKSDB_PROVIDER,
        CommitEntry,
        OffsetEntry,
        StateIds,
        codec_of,
        has_checksums,
        is_avro,
        is_read_twice,
        lines_of_folders,
        pinned,
        read_commit,
        read_entry,
        unknown_setting,
    )
    from statemigrate.checkpoint.logs.offsets import (
        NO_OFFSET,
        Offsets,
        SourceLog,
        TakenFile,
        batches_in,
        file_offset,
        files_taken,
        folders_in,
        names_in,
        newest_offsets,
        parse_offsets,
        reads_twice,
        taken_until,
        takes_below,
        unknown,
    )
else:
    make_face(
        __name__,
        {
            "entries": (
                "AGGREGATION_FORMAT CommitEntry ENCODING FILE_IDS GROUPS_FORMAT HDFS_PROVIDER "
                "JOIN_FORMAT MERGE_OPERATOR OffsetEntry PARTITIONS PROVIDER ROCKSDB_PROVIDER "
                "StateIds codec_of has_checksums is_avro is_read_twice lines_of_folders pinned "
                "read_commit read_entry unknown_setting"
            ),
            "offsets": (
                "NO_OFFSET Offsets SourceLog TakenFile batches_in file_offset files_taken "
                "folders_in names_in newest_offsets parse_offsets reads_twice taken_until "
                "takes_below unknown"
            ),
        },
    )
