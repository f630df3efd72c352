"""Rows brought to the partitions where Spark will look for them, as blocks of many rows each.

Spark shuffles a block as one row, so that it takes as little of it as can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.arrow.entries import MERGED, ORIGINS
from statemigrate.rewrite.rows.checksums import NAMES, hashes_of
from statemigrate.rewrite.rows.columns import partitions_of
from statemigrate.state.telling import Batches

BLOCKS = "partition int, block binary"
"""Spark's schema of blocks: rows of one partition and one family, as a stream of Arrow."""


@dataclass(frozen=True)
class Placing:
    """Says of the rows of a family where they belong, and their two hashes.

    They have a ``key``, a ``value`` and the counts of `entries`; ``number`` is the family's place
    in the plan, ``place`` what it is in the new state. ``partition`` is that of all rows where they
    stay, of which Spark's hash was taken when they were looked at; None where they may move.
    """

    number: int
    operator: OperatorShape
    place: Place
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
            return partitions_of(self.operator, self.place, keys)
        return np.full(len(keys), self.partition, np.int32)


@dataclass(frozen=True)
class Blocks:
    """Runs ``steps`` one after the other, of which the last is a `Placing`, and makes blocks."""

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
