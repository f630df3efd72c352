"""Rows of state as Spark writes them in bytes, many at a time: to Arrow and back, without Spark."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.checkpoint.rows.buffers import (
        Bytes,
        Integers,
        Rows,
        copy_ranges,
        ends,
        joined,
        within,
    )
    from statemigrate.checkpoint.rows.hashing import SEED, hash_of, partition_of
    from statemigrate.checkpoint.rows.keys import FAMILY, KeyCodec, families_of
    from statemigrate.checkpoint.rows.spark_types import arrow_schema, schema_json
    from statemigrate.checkpoint.rows.unsafe_leaves import normalized
    from statemigrate.checkpoint.rows.unsafe_row import RowCodec
    from statemigrate.checkpoint.rows.values import ValueCodec, merged_values
    from statemigrate.checkpoint.rows.wrapping import (
        CHECKSUM,
        RowLayout,
        Spans,
        Summed,
        crc32c,
        summed_deletions,
        summed_values,
    )
    from statemigrate.checkpoint.rows.xxhash64 import XXHASH64, sum_of_rows
else:
    make_face(
        __name__,
        {
            "buffers": "Bytes Integers Rows copy_ranges ends joined within",
            "hashing": "SEED hash_of partition_of",
            "keys": "FAMILY KeyCodec families_of",
            "spark_types": "arrow_schema schema_json",
            "unsafe_leaves": "normalized",
            "unsafe_row": "RowCodec",
            "values": "ValueCodec merged_values",
            "wrapping": "CHECKSUM RowLayout Spans Summed crc32c summed_deletions summed_values",
            "xxhash64": "XXHASH64 sum_of_rows",
        },
    )
