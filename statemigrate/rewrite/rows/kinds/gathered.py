"""Elements of lists, of which a reader gives one a row, put together under their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.hashing import hash_of
from statemigrate.checkpoint.rows.xxhash64 import XXHASH64
from statemigrate.rewrite.rows.arrow.structs import list_array
from statemigrate.state.telling import Telling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def gathered(rows: DataFrame) -> DataFrame:
    """The rows ``key``, ``value`` and ``partition`` with a list of values for each key.

    Those of one key stand side by side, and stay in their order.
    """
    from pyspark.sql.types import ArrayType, StructType

    fields = {each.name: each.dataType for each in rows.schema.fields}
    schema = StructType().add("key", fields["key"])
    schema = schema.add("value", ArrayType(fields["value"])).add("partition", fields["partition"])
    return rows.mapInArrow(Telling(_lists), schema)


def _lists(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows:
            rows = batch if held is None else pa.concat_batches([held, batch])
            starts = _starts(rows)
            # The last key may go on in the next batch.
            last = int(starts[-1])
            if last:
                yield _grouped(rows.slice(0, last), starts[:-1])
            held = rows.slice(last)
    if held is not None:
        yield _grouped(held, np.zeros(1, np.int64))


def _starts(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Where a key begins. That two of 64 bits are one, side by side and at one time, is not met."""
    keys = rows["key"]
    hashes, times = hash_of([keys], XXHASH64), keys.field(keys.type.num_fields - 1)
    known = np.asarray(times.fill_null(-1)).astype(np.int64)
    changes = (hashes[1:] != hashes[:-1]) | (known[1:] != known[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def _grouped(rows: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> pa.RecordBatch:
    lengths = np.diff(np.append(starts, rows.num_rows))
    first = rows.take(pa.array(starts))
    values = pa.concat_arrays([rows["value"]])
    lists = list_array(lengths, values, pa.list_(values.type))
    return pa.RecordBatch.from_arrays(
        [first["key"], lists, first["partition"]], ["key", "value", "partition"]
    )
