"""What tasks make of the rows that they read from files themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.placing import Blocks, Placing, rows_in, run_steps
from statemigrate.rewrite.stored.state import StoredOperator
from statemigrate.rewrite.writing.partition import PartitionTask
from statemigrate.state.telling import Batches


@dataclass(frozen=True)
class StoredFlow:
    """The rows of an old family, what ``change`` makes of them, and where they go then."""

    stored: StoredOperator
    place: Place
    change: Batches
    placing: Placing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks, by their new partitions, of the partitions whose numbers are in ``batches``."""
        blocks = Blocks((self.change, self.placing))
        for partition in _numbers(batches):
            yield from blocks(self._rows(partition))

    def staying(self, partition: int) -> Iterator[pa.RecordBatch]:
        """What becomes of one partition, whose rows stay in it."""
        placing = replace(self.placing, partition=partition)
        return run_steps((self.change, placing), self._rows(partition))

    def _rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        for keys, values in self.stored.rows(self.place, partition):
            yield pa.RecordBatch.from_arrays([keys, values], ["key", "value"])


@dataclass(frozen=True)
class InPlace:
    """Rewrites a partition whose rows all stay in it: read, changed and written in one task."""

    flows: tuple[StoredFlow, ...]
    task: PartitionTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `PartitionTask` gives back of the partitions whose numbers are in ``batches``."""
        for partition in _numbers(batches):
            rows = chain.from_iterable(flow.staying(partition) for flow in self.flows)
            yield from self.task.write(partition, rows)


@dataclass(frozen=True)
class Gathered:
    """Writes the partition that a task of Spark is about from blocks of its rows."""

    task: PartitionTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `PartitionTask` gives back."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a task"  # noqa: S101
        return self.task.write(context.partitionId(), rows_in(batches))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch["id"].to_pylist()
