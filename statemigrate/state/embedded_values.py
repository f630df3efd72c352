"""Values of embedded partitions, read by several processes, each with a copy of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from statemigrate.blocks import in_blocks, record_size
from statemigrate.deployment import StoredFamily
from statemigrate.embedded.engine.stopped.processes import cores, shared_out
from statemigrate.embedded.working.committed import CommittedPartition, CommittedState
from statemigrate.formats import Value
from statemigrate.processor.garbage import few_collections
from statemigrate.state.ticks import Ticks, ticking
from statemigrate.state.values import ALL, Document, Part, Share, Shares, Task, Tick, no_tick

_AT_ONCE = 256
_FEW = 30_000
"""Values for which no other process is worth its start."""


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
    """See `Values`: work for as many processes as there are processors, a partition at a time."""

    partitions: Partitions

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """See `Values`; without Spark."""
        with ticking(tick) as ticks:
            work = partial(
                _worked, partitions=self.partitions, task=task, shares=shares or {}, ticks=ticks
            )
            numbers = range(len(self.partitions.held.manifest.partitions))
            told = shared_out(work, numbers, 1 if self._is_small else cores())
            with closing(told):
                for _, documents in told:
                    yield from documents.items()

    @property
    def _is_small(self) -> bool:
        states = self.partitions.held.manifest.partitions
        names = [family.name for family in self.partitions.families]
        return sum(state.about(name) for state in states for name in names) < _FEW


def _worked(
    number: int, *, partitions: Partitions, task: Task, shares: Shares, ticks: Ticks
) -> Iterator[dict[str, Document]]:
    # As it comes from another process, also where it does not.
    yield json.loads(json.dumps(partitions.work(number, task, shares, ticks)))


def _picked(
    part: Part,
    partition: CommittedPartition,
    family: StoredFamily,
    share: Share,
    count: Callable[[int], None],
) -> Iterator[tuple[bytes, bytes, Value]]:
    decode_many, records = family.format.decode_many, partition.records(family.name)
    for block in in_blocks(records, _AT_ONCE, record_size):
        picked = block
        if not share.is_all:
            picked = [entry for place, entry in enumerate(block, part.seen) if share.picks(place)]
        values = decode_many([data for _, data in picked])
        for (key, data), value in zip(picked, values, strict=True):
            yield key, data, value
        first = part.seen
        part.seen += len(block)
        for index in range(first, part.seen):
            count(index)
