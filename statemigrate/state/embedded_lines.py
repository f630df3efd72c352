"""Entries of embedded partitions as text, a process a partition, joined in the partitions' order.

Each process writes a file of its own beside its working copy. The command takes them as they are
completed, in order, so that the text is that of one process, and nobody holds more than a block.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from statemigrate.deployment import StorePlan, dual_access
from statemigrate.embedded.engine.stopped.processes import cores, shared_out
from statemigrate.embedded.working.committed import CommittedPartition, CommittedState
from statemigrate.families import Span
from statemigrate.state.protocol import Entry

_FEW = 30_000
"""Values for which no other process is worth its start."""
_TOLD = 8_192
Line = Callable[[Entry], bytes]
Shown = Callable[[bytes], tuple[Any, ...]]


@dataclass(frozen=True)
class PartitionLines:
    """A line for each entry of a store, written by as many processes as there are processors.

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

    def write(self, stream: IO[bytes], line: Line, tick: Callable[[int], None]) -> int:
        """Write every entry's ``line`` in the order of `State.entries`; how many there were.

        ``tick`` is told how many were written so far. Raises what reading raises, and
        `CheckpointError` for a process that ended by itself.
        """
        numbers = range(len(self.held.manifest.partitions))
        counts, complete, joined = dict.fromkeys(numbers, 0), set(), 0
        with closing(shared_out(partial(_written, self, line), numbers, cores())) as told:
            for number, document in told:
                counts[number] = document["entries"]
                tick(sum(counts.values()))
                if document["is_complete"]:
                    complete.add(number)
                while joined in complete:
                    _join(_part(self.held, joined), stream)
                    joined += 1
        return sum(counts.values())


def entries_in(
    partition: CommittedPartition, plan: StorePlan, shown: Shown, span: Span
) -> Iterator[Entry]:
    """The entries of one partition in key order, in the target's format; nothing is written."""
    sources = [partition.family(each, plan.declared.kind) for each in plan.sources]
    target = partition.family(plan.target, plan.declared.kind)
    access = dual_access(plan, target, sources, show_key=shown)
    for data, value in access.scan(span):
        yield shown(data), value


def _written(lines: PartitionLines, line: Line, number: int) -> Iterator[dict[str, Any]]:
    entries = 0
    with lines.held.partition(number) as partition, _part(lines.held, number).open("xb") as part:
        for entry in entries_in(partition, lines.plan, lines.shown, Span()):
            part.write(line(entry))
            entries += 1
            if entries % _TOLD == 0:
                yield {"entries": entries, "is_complete": False}
    yield {"entries": entries, "is_complete": True}


def _part(held: CommittedState, number: int) -> Path:
    return held.working / f"lines-{number}"


def _join(part: Path, stream: IO[bytes]) -> None:
    with part.open("rb") as source:
        shutil.copyfileobj(source, stream, 1 << 20)
    part.unlink()
