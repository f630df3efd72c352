"""Placing rows: the partition in which Spark will look for each key.

Rows brought to the partitions where Spark will look for them, as blocks of many rows each.

Spark shuffles a block as one row, so that it takes as little of it as can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint import labelled_paths, partitions_of
from statemigrate.checkpoint.operators import OperatorShape, partition_columns
from statemigrate.errors import RewriteError, shown
from statemigrate.rewrite.checksums import NAMES, hashes, hashes_of, summed, sums
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.rewrite.entry_functions import MERGED, ORIGINS
from statemigrate.rewrite.rewrite_report import Checksum
from statemigrate.rewrite.spark_reader import collected_by_one_task
from statemigrate.state import Batches, reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# The partition of a row by its key, as a column of Spark's.


def partition_of(operator: OperatorShape, place: FamilyAddress, key: str = "key") -> Column:
    """Spark's own partition of a row, by the hash of the columns of its key that say it."""
    from pyspark.sql import functions as F  # noqa: N812

    paths = partition_columns(operator, place.store, place.family)
    if not paths:
        return F.lit(0)
    columns = [_at(F.col(key), path) for path in labelled_paths(paths, place.family)]
    return F.pmod(F.hash(*columns), F.lit(place.store.partitions))


def _at(column: Column, path: tuple[str, ...]) -> Column:
    for name in path:
        column = column.getField(name)
    return column


BLOCKS = "partition int, block binary"
"""Spark's schema of blocks: rows of one partition and one family, as a stream of Arrow."""


@dataclass(frozen=True)
class Placing:
    """Says of the rows of a family where they belong, and their two hashes.

    They have a ``key``, a ``value`` and the counts of `entries`; ``number`` is the family's place
    in the plan, ``place`` what it is in the new state. ``partition`` is that of all rows where they
    stay, whose hash by Spark was taken when they were looked at; None where they may move.
    """

    number: int
    operator: OperatorShape
    place: FamilyAddress
    partition: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as `PartitionTask` takes them."""
        for batch in batches:
            keys, values = batch["key"], batch["value"]
            columns = {
                "partition": pa.array(self._partitions(keys)),
                "family": pa.array(np.full(len(keys), self.number, np.int32)),
                **dict(zip(NAMES, map(pa.array, hashes_of(keys, values)), strict=True)),
                ORIGINS: batch[ORIGINS],
                MERGED: batch[MERGED],
                f"key_{self.number}": keys,
                f"value_{self.number}": values,
            }
            yield pa.RecordBatch.from_pydict(columns)

    def _partitions(self, keys: pa.StructArray) -> npt.NDArray[np.int32]:
        if self.partition is None:
            return partitions_of(self.operator, self.place.store, self.place.family, keys)
        return np.full(len(keys), self.partition, np.int32)


@dataclass(frozen=True)
class RowBlocks:
    """Runs ``steps`` one after the other, the last one a `Placing`, and makes blocks."""

    steps: tuple[Batches, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each block."""
        for batch in run_steps(self.steps, batches):
            partitions = batch["partition"].to_numpy()
            order = np.argsort(partitions, kind="stable")
            found, starts = np.unique(partitions[order], return_index=True)
            rows = batch.take(pa.array(order))
            ends = [*starts[1:].tolist(), len(order)]
            blocks = [
                _block(rows.slice(start, end - start))
                for start, end in zip(starts.tolist(), ends, strict=True)
            ]
            columns = [pa.array(found, pa.int32()), pa.array(blocks, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["partition", "block"])


def run_steps(
    steps: Iterable[Batches], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What batches become by one step after the other."""
    found = iter(batches)
    for step in steps:
        found = step(found)
    return found


def rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of blocks."""
    for batch in batches:
        for block in batch["block"]:
            with pa.ipc.open_stream(block.as_buffer()) as reader:
                yield from reader


def _block(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


# One look at all rows of a family: how many, their checksum, and whether each lies where it must.
#
# Before anything is written, every old key must be in the partition that Spark's own hash gives.
# One that is not was written by a query born before Spark 3.3, or the key is not what its schema
# says; either way the new query would not find it.


@dataclass(frozen=True)
class FamilySurvey:
    """Of the rows of a family: the checksum of each partition, by its number."""

    partitions: dict[int, Checksum] = field(default_factory=dict)

    @property
    def total(self) -> Checksum:
        """Of all partitions together."""
        return sum(self.partitions.values(), Checksum())


def survey(
    rows: DataFrame, operator: OperatorShape, place: FamilyAddress, name: str
) -> FamilySurvey:
    """Look at rows as `StateReader` gives them.

    Raises `RewriteError`, with an example, for a row that is not where Spark's hash puts it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    placed = rows.withColumn("expected", partition_of(operator, place))
    is_misplaced = F.col("partition") != F.col("expected")
    hashed = placed.select("partition", is_misplaced.alias("is_misplaced"), *hashes(rows.schema))
    found = hashed.groupBy("partition").agg(*sums(), F.count_if("is_misplaced").alias("misplaced"))
    with reraising_worker_errors(), collected_by_one_task(rows.sparkSession):
        partitions = {each.partition: each for each in found.collect()}
    for number, each in partitions.items():
        if each.misplaced:
            text = F.to_json("key").alias("text")
            here = placed.where(is_misplaced & (F.col("partition") == number))
            example = here.select(text, "expected").orderBy("text").limit(1).collect()[0]
            raise misplaced_error(name, number, each.misplaced, example)
    return FamilySurvey({number: summed(each) for number, each in partitions.items()})


def misplaced_error(
    name: str, partition: int, count: int, example: tuple[str, int]
) -> RewriteError:
    """The error for ``count`` rows; ``example`` is a key of one as JSON, and where it belongs."""
    key, expected = example
    return RewriteError(
        "SM-REWRITE-044",
        f"{count} rows of {name} are not in the partition where Spark would look for them",
        expected=f"the key {shown(key)} in partition {expected}, by Spark's hash of it",
        found=f"it in partition {partition}",
        next_action="nothing was written; a query that was begun before Spark 3.3 lays its rows "
        "out otherwise, which a rewrite does not change: start the query with a new checkpoint",
        store=name,
    )
