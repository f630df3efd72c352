"""The logs of a query: which offsets a batch had, that it was committed, what a source noted."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.checkpoint.logs.entries import (
        CommitEntry,
        OffsetEntry,
        StateIds,
        read_commit,
        read_entry,
    )
    from statemigrate.checkpoint.logs.folders import is_read_twice, lines_of_folders
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
    from statemigrate.checkpoint.logs.settings import (
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
        codec_of,
        has_checksums,
        is_avro,
        pinned,
        unknown_setting,
    )
else:
    make_face(
        __name__,
        {
            "entries": "CommitEntry OffsetEntry StateIds read_commit read_entry",
            "folders": "is_read_twice lines_of_folders",
            "offsets": (
                "NO_OFFSET Offsets SourceLog TakenFile batches_in file_offset files_taken "
                "folders_in names_in newest_offsets parse_offsets reads_twice taken_until "
                "takes_below unknown"
            ),
            "settings": (
                "AGGREGATION_FORMAT ENCODING FILE_IDS GROUPS_FORMAT HDFS_PROVIDER JOIN_FORMAT "
                "MERGE_OPERATOR PARTITIONS PROVIDER ROCKSDB_PROVIDER codec_of has_checksums "
                "is_avro pinned unknown_setting"
            ),
        },
    )
