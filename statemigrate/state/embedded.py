"""The committed state of the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from statemigrate.blocks import in_blocks, record_size
from statemigrate.deployment import StoredFamily, StoredStore, StorePlan, dual_access
from statemigrate.embedded import (
    CommittedPartition,
    CommittedVersion,
    Layout,
    cores,
    hold,
    list_key,
    shared_out,
)
from statemigrate.errors import UnsupportedError
from statemigrate.families import Span
from statemigrate.files import files_to_read
from statemigrate.processor import TupleKeyCodec, few_collections, shown_key
from statemigrate.state.protocol import (
    ALL,
    Block,
    Collisions,
    Document,
    Entry,
    Part,
    Share,
    Shares,
    Suspect,
    Task,
    Tick,
    Ticks,
    no_tick,
    ticking,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# Entries of embedded partitions as blocks of bytes, a process a partition, in partitions' order.
#
# Each process writes a file of its own next to its working copy. The command takes them as they are
# completed, in order, so that what it gets is that of one process; nobody holds more than a block.


_FEW = 30_000
"""Values for which no other process is worth its start."""
ENTRIES_IN_BLOCK = 8_192
BlockWriter = Callable[[Sequence[Entry]], bytes]
Shown = Callable[[bytes], tuple[Any, ...]]


@dataclass(frozen=True)
class PartitionBlocks:
    """The entries of a store in blocks, made by as many processes as there are processors.

    ``shown`` turns bytes into a key's columns.
    """

    committed: CommittedVersion
    plan: StorePlan
    shown: Shown

    @property
    def is_small(self) -> bool:
        """Whether one process is as good as several."""
        names = [family.name for family in (self.plan.target, *self.plan.sources)]
        states = self.committed.manifest.partitions
        return sum(state.about(name) for state in states for name in names) < _FEW

    def parts(self, block: BlockWriter, tick: Callable[[int], None]) -> Iterator[IO[bytes]]:
        """What ``block`` makes of all entries, in the order of `State.entries`, as open files.

        ``tick`` gets the number of entries so far. Raises what reading raises, and
        `CheckpointError` for a process that ended by itself.
        """
        numbers = range(len(self.committed.manifest.partitions))
        counts, complete, joined = dict.fromkeys(numbers, 0), set(), 0
        with closing(shared_out(partial(_written, self, block), numbers, cores())) as reports:
            for number, document in reports:
                counts[number] = document["entries"]
                tick(sum(counts.values()))
                if document["is_complete"]:
                    complete.add(number)
                while joined in complete:
                    part = _part(self.committed, joined)
                    with part.open("rb") as stream:
                        yield stream
                    part.unlink()
                    joined += 1


def blocks_of(entries: Iterator[Entry], block: BlockWriter) -> Iterator[tuple[int, bytes]]:
    """So many entries, and what ``block`` makes of them, one block after the other."""
    for some in in_blocks(entries, ENTRIES_IN_BLOCK):
        yield len(some), block(some)


def entries_in(
    partition: CommittedPartition, plan: StorePlan, shown: Shown, span: Span
) -> Iterator[Entry]:
    """The entries of one partition in key order, in the target's format; nothing is written."""
    sources = [partition.family(each, plan.declared.kind) for each in plan.sources]
    target = partition.family(plan.target, plan.declared.kind)
    complement = None
    if plan.complement is not None:
        complement = partition.family(plan.complement, "value")
    access = dual_access(plan, target, sources, show_key=shown, complement=complement)
    for data, value in access.scan(span):
        yield shown(data), value


def _written(blocks: PartitionBlocks, block: BlockWriter, number: int) -> Iterator[dict[str, Any]]:
    committed, done = blocks.committed, 0
    with committed.partition(number) as partition, _part(committed, number).open("xb") as part:
        entries = entries_in(partition, blocks.plan, blocks.shown, Span())
        for count, data in blocks_of(entries, block):
            part.write(data)
            done += count
            yield {"entries": done, "is_complete": False}
    yield {"entries": done, "is_complete": True}


def _part(committed: CommittedVersion, number: int) -> Path:
    return committed.working / f"blocks-{number}"


# Values of embedded partitions, read by several processes, each with a copy of its own.


_AT_ONCE = 4_096


@dataclass(frozen=True)
class Partitions:
    """The families of one store in all partitions; ``shown`` turns bytes into a key's columns."""

    committed: CommittedVersion
    families: tuple[StoredFamily, ...]
    shown: Callable[[bytes], tuple[Any, ...]]

    def work(self, number: int, task: Task, shares: Shares, ticks: Ticks) -> dict[str, Document]:
        """What the task says of each family in one partition, which is restored for it."""
        with few_collections(), self.committed.partition(number) as partition:
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
        part = Part(family.name, family.format, self.shown)
        share = shares.get(number, ALL)
        part.blocks = _picked(part, partition, family, share, partial(ticks.count, number))
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
            numbers = range(len(self.partitions.committed.manifest.partitions))
            reports = shared_out(work, numbers, 1 if self._is_small else cores())
            with closing(reports):
                for _, documents in reports:
                    yield from documents.items()

    @property
    def _is_small(self) -> bool:
        states = self.partitions.committed.manifest.partitions
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
) -> Iterator[Block]:
    for block in in_blocks(partition.records(family.name), _AT_ONCE, record_size):
        picked = block
        if not share.is_all:
            picked = [entry for place, entry in enumerate(block, part.seen) if share.picks(place)]
        yield Block([key for key, _ in picked], [data for _, data in picked])
        first = part.seen
        part.seen += len(block)
        for index in range(first, part.seen):
            count(index)


_BATCHES = 20
"""How far back a rate is measured."""


class EmbeddedState:
    """See `statemigrate.state.protocol.State`. Nothing of it needs Spark's Java."""

    engine = "embedded"
    operator: str | None = None
    can_be_rewritten = counts_target = keeps_control_source = False
    target_is_deployed = True

    def __init__(self, checkpoint: str, batch: int | None = None) -> None:
        layout = Layout.over(files_to_read(checkpoint))
        self.files = layout.files
        self.checkpoint = layout.files.location
        self.committed = hold(layout, batch=batch)
        self._open = ExitStack()
        self._partitions: dict[int, CommittedPartition] = {}
        self.batch = self.committed.manifest.version

    @property
    def key(self) -> StructType:
        """The type of the grouping key."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self.committed.manifest.key_schema)

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `State`."""
        return self.key

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        return self.committed.manifest.stored_stores()

    @property
    def operator_stores(self) -> frozenset[str]:
        """See `State`."""
        return frozenset()

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        families = self.stores[store].families
        return {
            each.name: self.committed.counts(each.name) for each in families if each.name != but
        }

    def pages_with(self, families: Sequence[str]) -> int | None:  # noqa: ARG002
        """See `State`: there are none."""
        return None

    def quarantined(self, store: str) -> Mapping[str, int]:
        """See `State`."""
        partitions = self.committed.manifest.partitions
        return {
            each.name: sum(state.quarantined.get(each.name, 0) for state in partitions)
            for each in self.stores[store].families
        }

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:
        """See `State`."""
        found = self.committed.earlier(_BATCHES)
        if found is None:
            return None
        counts = [found[1].left(name) for name in families]
        known = [count for count in counts if count is not None]
        return (found[0], sum(known)) if len(known) == len(counts) else None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; in key order within a partition."""
        shown = _shown(self.key, plan)
        span = Span() if key is None else Span.prefix(_encoded(self.key, plan, key))
        for number in range(len(self.committed.manifest.partitions)):
            yield from entries_in(self.partition(number), plan, shown, span)

    def blocks(self, plan: StorePlan) -> PartitionBlocks:
        """`entries`, to be made into blocks by several processes."""
        return PartitionBlocks(self.committed, plan, _shown(self.key, plan))

    def values(self, plan: StorePlan, families: Sequence[StoredFamily]) -> PartitionValues:
        """See `State`."""
        return PartitionValues(self.partitions(plan, families))

    def partitions(self, plan: StorePlan, families: Sequence[StoredFamily]) -> Partitions:
        """The partitions with these families, which can travel to workers."""
        shown = _shown(self.key, plan, element=plan.declared.variable_kind.has_several_values)
        return Partitions(self.committed, tuple(families), shown)

    def keys_after(
        self,
        plan: StorePlan,
        family: StoredFamily,
        keys: Callable[[Iterator[Any]], Iterator[bytes]],
    ) -> Collisions:
        """See `State`."""
        raise UnsupportedError(
            "SM-REWRITE-060",
            f"the keys of {plan.declared.store} cannot change: its state is the embedded engine's",
            expected="scripts that a running query can run: `upgrade(value)` alone",
            found=f"{family.name}, and {keys!r}",
            next_action="keep the keys, and give state with other keys a store of its own",
            store=plan.declared.store,
        )

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """See `State`: those that the backfill has marked."""
        shown = _shown(self.key, plan)
        for number in range(len(self.committed.manifest.partitions)):
            partition = self.partition(number)
            for source in plan.sources:
                family = partition.family(source, plan.declared.kind)
                for key, _ in partition.quarantined(source.name):
                    yield source.name, shown(key), family.get(key), True

    def close(self) -> None:
        """See `State`."""
        self._open.close()
        self._partitions.clear()
        self.committed.close()

    def partition(self, number: int) -> CommittedPartition:
        """One partition, restored when it is first read."""
        if number not in self._partitions:
            self._partitions[number] = self._open.enter_context(self.committed.partition(number))
        return self._partitions[number]


def _shown(key: StructType, plan: StorePlan, *, element: bool = False) -> Any:
    user_key = plan.declared.user_key
    codec = TupleKeyCodec(key), None if user_key is None else TupleKeyCodec(user_key)
    return partial(_shown_element if element else shown_key, *codec)


def _shown_element(
    keys: TupleKeyCodec, user_keys: TupleKeyCodec | None, data: bytes
) -> tuple[Any, ...]:
    return shown_key(keys, user_keys, list_key(data))


def _encoded(schema: StructType, plan: StorePlan, key: tuple[Any, ...]) -> bytes:
    width = len(schema)
    data = TupleKeyCodec(schema).encode(key[:width])
    if plan.declared.user_key is not None and len(key) > width:
        data += TupleKeyCodec(plan.declared.user_key).encode(key[width:])
    return data
