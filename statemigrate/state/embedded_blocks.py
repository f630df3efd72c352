"""Entries of embedded partitions as blocks of bytes, a process a partition, in partitions' order.

Each process writes a file of its own beside its working copy. The command takes them as they are
completed, in order, so that what it gets is that of one process; nobody holds more than a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from statemigrate.blocks import in_blocks
from statemigrate.deployment import StorePlan, dual_access
from statemigrate.embedded.engine.stopped.processes import cores, shared_out
from statemigrate.embedded.working.committed import CommittedPartition, CommittedState
from statemigrate.families import Span
from statemigrate.state.protocol import Entry

_FEW = 30_000
"""Values for which no other process is worth its start."""
ENTRIES_IN_BLOCK = 8_192
Block = Callable[[Sequence[Entry]], bytes]
Shown = Callable[[bytes], tuple[Any, ...]]


@dataclass(frozen=True)
class PartitionBlocks:
    """The entries of a store in blocks, made by as many processes as there are processors.

    ``shown`` turns bytes into a key's columns.
    """

    held: CommittedState
    plan: StorePlan
    shown: Shown

    @property
    def is_small(self) -> bool:
        """Whether one process is as good as several."""
        names = [family.name for family in (self.plan.target, *self.plan.sources)]
        states = self.held.manifest.partitions
        return sum(state.about(name) for state in states for name in names) < _FEW

    def parts(self, block: Block, tick: Callable[[int], None]) -> Iterator[IO[bytes]]:
        """What ``block`` makes of all entries, in the order of `State.entries`, as open files.

        ``tick`` is told how many entries there were so far. Raises what reading raises, and
        `CheckpointError` for a process that ended by itself.
        """
        numbers = range(len(self.held.manifest.partitions))
        counts, complete, joined = dict.fromkeys(numbers, 0), set(), 0
        with closing(shared_out(partial(_written, self, block), numbers, cores())) as told:
            for number, document in told:
                counts[number] = document["entries"]
                tick(sum(counts.values()))
                if document["is_complete"]:
                    complete.add(number)
                while joined in complete:
                    part = _part(self.held, joined)
                    with part.open("rb") as stream:
                        yield stream
                    part.unlink()
                    joined += 1


def blocks_of(entries: Iterator[Entry], block: Block) -> Iterator[tuple[int, bytes]]:
    """So many entries, and what ``block`` makes of them, one block after the other."""
    for some in in_blocks(entries, ENTRIES_IN_BLOCK):
        yield len(some), block(some)


def entries_in(
    partition: CommittedPartition, plan: StorePlan, shown: Shown, span: Span
) -> Iterator[Entry]:
    """The entries of one partition in key order, in the target's format; nothing is written."""
    sources = [partition.family(each, plan.declared.kind) for each in plan.sources]
    target = partition.family(plan.target, plan.declared.kind)
    access = dual_access(plan, target, sources, show_key=shown)
    for data, value in access.scan(span):
        yield shown(data), value


def _written(blocks: PartitionBlocks, block: Block, number: int) -> Iterator[dict[str, Any]]:
    held, done = blocks.held, 0
    with held.partition(number) as partition, _part(held, number).open("xb") as part:
        entries = entries_in(partition, blocks.plan, blocks.shown, Span())
        for count, data in blocks_of(entries, block):
            part.write(data)
            done += count
            yield {"entries": done, "is_complete": False}
    yield {"entries": done, "is_complete": True}


def _part(held: CommittedState, number: int) -> Path:
    return held.working / f"blocks-{number}"
