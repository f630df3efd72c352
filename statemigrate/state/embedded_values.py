"""Values of embedded partitions, read in the tasks of a Spark job, each with a copy of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import StoredFamily
from statemigrate.embedded.working.committed import CommittedPartition, CommittedState
from statemigrate.formats import Value
from statemigrate.processor.garbage import few_collections
from statemigrate.state.ticks import Ticks, ticking
from statemigrate.state.values import ALL, Document, Part, Share, Shares, Task, Tick, no_tick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Ticks come every 8,192 values and are asked for at the end of a block: a power of two meets them.
_AT_ONCE = 256


@dataclass(frozen=True)
class Partitions:
    """The families of one store in all partitions; ``shown`` turns bytes into a key's columns."""

    held: CommittedState
    families: tuple[StoredFamily, ...]
    shown: Callable[[bytes], tuple[Any, ...]]

    def work(self, number: int, task: Task, shares: Shares, ticks: Ticks) -> dict[str, Document]:
        """What the task says of each family in one partition, which is restored for it."""
        with few_collections(), self.held.partition(number) as partition:
            return {
                family.name: task(
                    self._part(partition, number, family, shares.get(family.name, {}), ticks)
                )
                for family in self.families
            }

    def _part(
        self,
        partition: CommittedPartition,
        number: int,
        family: StoredFamily,
        shares: Mapping[int, Share],
        ticks: Ticks,
    ) -> Part:
        part = Part(family.name, self.shown)
        share = shares.get(number, ALL)
        part.values = _picked(part, partition, family, share, partial(ticks.count, number))
        return part


@dataclass(frozen=True)
class PartitionValues:
    """See `Values`: a Spark task a partition, which sees to all of the families."""

    partitions: Partitions
    spark: SparkSession

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """See `Values`."""
        number = len(self.partitions.held.manifest.partitions)
        with ticking(tick) as ticks:
            run = partial(
                _run, partitions=self.partitions, task=task, shares=shares or {}, ticks=ticks
            )
            tasks = self.spark.range(0, number, 1, number)
            rows = tasks.mapInArrow(run, "documents string").collect()
        for row in rows:
            yield from json.loads(row.documents).items()


def _run(
    batches: Iterator[Any], *, partitions: Partitions, task: Task, shares: Shares, ticks: Ticks
) -> Iterator[Any]:
    """What one Spark task does with the partitions whose numbers its rows have."""
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            documents = partitions.work(number, task, shares, ticks)
            yield pa.RecordBatch.from_pydict({"documents": [json.dumps(documents)]})


def _picked(
    part: Part,
    partition: CommittedPartition,
    family: StoredFamily,
    share: Share,
    count: Callable[[int], None],
) -> Iterator[tuple[bytes, bytes, Value]]:
    decode_many, records = family.format.decode_many, partition.records(family.name)
    while block := list(islice(records, _AT_ONCE)):
        picked = block
        if not share.is_all:
            picked = [entry for place, entry in enumerate(block, part.seen) if share.picks(place)]
        values = decode_many([data for _, data in picked])
        for (key, data), value in zip(picked, values, strict=True):
            yield key, data, value
        part.seen += len(block)
        count(part.seen - 1)
