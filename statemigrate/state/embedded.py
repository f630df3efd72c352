"""The committed state of the embedded engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import StoredFamily, StoredStore, StorePlan
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.working.committed import CommittedPartition, hold
from statemigrate.embedded.working.families import list_key
from statemigrate.errors import UnsupportedError
from statemigrate.families import Span
from statemigrate.processor.keys.codec import KeyCodec, shown_key
from statemigrate.state.embedded_blocks import PartitionBlocks, entries_in
from statemigrate.state.embedded_values import Partitions, PartitionValues
from statemigrate.state.protocol import Collisions, Entry, Suspect

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BATCHES = 20
"""How far back a rate is reckoned from."""


class EmbeddedState:
    """See `statemigrate.state.protocol.State`. Nothing of it needs Spark's Java."""

    engine = "embedded"
    operator = ""

    def __init__(self, checkpoint: str) -> None:
        layout = Layout.of(checkpoint)
        self.checkpoint = layout.files.location
        self.held = hold(layout)
        self._open = ExitStack()
        self._partitions: dict[int, CommittedPartition] = {}
        self.batch = self.held.manifest.version

    @property
    def key(self) -> StructType:
        """The type of the grouping key."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self.held.manifest.key_schema)

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `State`."""
        return self.key

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        return self.held.manifest.stored_stores()

    @property
    def operator_stores(self) -> frozenset[str]:
        """See `State`."""
        return frozenset()

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        families = self.stores[store].families
        return {each.name: self.held.counts(each.name) for each in families if each.name != but}

    def pages_with(self, families: Sequence[str]) -> int | None:  # noqa: ARG002
        """See `State`: there are none."""
        return None

    def quarantined(self, store: str) -> Mapping[str, int]:
        """See `State`."""
        partitions = self.held.manifest.partitions
        return {
            each.name: sum(state.quarantined.get(each.name, 0) for state in partitions)
            for each in self.stores[store].families
        }

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:
        """See `State`."""
        found = self.held.earlier(_BATCHES)
        if found is None:
            return None
        counts = [found[1].left(name) for name in families]
        known = [count for count in counts if count is not None]
        return (found[0], sum(known)) if len(known) == len(counts) else None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; in key order within a partition."""
        shown = _shown(self.key, plan)
        span = Span() if key is None else Span.prefix(_encoded(self.key, plan, key))
        for number in range(len(self.held.manifest.partitions)):
            yield from entries_in(self._partition(number), plan, shown, span)

    def blocks(self, plan: StorePlan) -> PartitionBlocks:
        """`entries`, to be made into blocks by several processes."""
        return PartitionBlocks(self.held, plan, _shown(self.key, plan))

    def values(self, plan: StorePlan, families: Sequence[StoredFamily]) -> PartitionValues:
        """See `State`."""
        return PartitionValues(self.partitions(plan, families))

    def partitions(self, plan: StorePlan, families: Sequence[StoredFamily]) -> Partitions:
        """The partitions with these families, which can travel to workers."""
        shown = _shown(self.key, plan, element=plan.declared.kind == "list")
        return Partitions(self.held, tuple(families), shown)

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
        for number in range(len(self.held.manifest.partitions)):
            partition = self._partition(number)
            for source in plan.sources:
                family = partition.family(source, plan.declared.kind)
                for key, _ in partition.quarantined(source.name):
                    yield source.name, shown(key), family.get(key), True

    def close(self) -> None:
        """See `State`."""
        self._open.close()
        self._partitions.clear()
        self.held.close()

    def _partition(self, number: int) -> CommittedPartition:
        """One partition, restored when it is first read."""
        if number not in self._partitions:
            self._partitions[number] = self._open.enter_context(self.held.partition(number))
        return self._partitions[number]


def _shown(key: StructType, plan: StorePlan, *, element: bool = False) -> Any:
    user_key = plan.declared.user_key
    codec = KeyCodec(key), None if user_key is None else KeyCodec(user_key)
    return partial(_shown_element if element else shown_key, *codec)


def _shown_element(keys: KeyCodec, user_keys: KeyCodec | None, data: bytes) -> tuple[Any, ...]:
    return shown_key(keys, user_keys, list_key(data))


def _encoded(schema: StructType, plan: StorePlan, key: tuple[Any, ...]) -> bytes:
    width = len(schema)
    data = KeyCodec(schema).encode(key[:width])
    if plan.declared.user_key is not None and len(key) > width:
        data += KeyCodec(plan.declared.user_key).encode(key[width:])
    return data
