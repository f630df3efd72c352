"""The committed state of Spark's own store, whatever kept it there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.deployment import StoredFamily, StoredStore, StorePlan, store_of
from statemigrate.state.logical import arranged, in_target
from statemigrate.state.native.meeting import collisions
from statemigrate.state.native.operators import together
from statemigrate.state.native.reading import Read, Reading, Readings
from statemigrate.state.native.rows import Keys
from statemigrate.state.protocol import Collisions, Entry, Suspect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Kept(Protocol):
    """What an operator keeps: state variables, or one envelope a key."""

    def key_of(self, store: str) -> StructType:
        """The type of a store's keys."""

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """What is stored, by name."""

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """A family's rows; None for one that is still to be made."""

    def value_of(self, family: StoredFamily) -> Read:
        """How its values are read."""


class Together:
    """See `Kept`: state variables or envelopes, and the state of other operators of the query."""

    def __init__(self, main: Kept, operators: Kept) -> None:
        self._main = main
        self._operators = operators

    def key_of(self, store: str) -> StructType:
        """See `Kept`."""
        return self._of(store).key_of(store)

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`."""
        return together(self._main.stores, self._operators.stores)

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """See `Kept`."""
        return self._of(family.name).rows(family)

    def value_of(self, family: StoredFamily) -> Read:
        """See `Kept`."""
        return self._of(family.name).value_of(family)

    def _of(self, name: str) -> Kept:
        return self._operators if store_of(name) in self._operators.stores else self._main


class SparkState:
    """See `statemigrate.state.protocol.State`; as of ``batch``, the last committed one."""

    engine = "native"
    operator = ""

    def __init__(
        self, checkpoint: str, batch: int, kept: Kept, operator_stores: Iterable[str] = ()
    ) -> None:
        self.checkpoint = checkpoint
        self.batch = batch
        self.operator_stores = frozenset(operator_stores)
        self._kept = kept

    def key_of(self, store: str) -> StructType:
        """See `State`."""
        return self._kept.key_of(store)

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        return self._kept.stores

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        wanted = [each for each in self.stores[store].families if each.name != but]
        frames = {each.name: self._kept.rows(each) for each in wanted}
        return {name: _counted(rows) for name, rows in frames.items() if rows is not None}

    def pages_with(self, families: Sequence[str]) -> int | None:  # noqa: ARG002
        """See `State`: there are none."""
        return None

    def quarantined(self, store: str) -> Mapping[str, int] | None:  # noqa: ARG002
        """See `State`: Spark's own state has no note of them."""
        return None

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:  # noqa: ARG002
        """See `State`: counting the state of an earlier batch takes as long as this one's."""
        return None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; family by family."""
        for family in (plan.target, *plan.sources):
            reading = self._reading(plan, family)
            if reading is not None:
                yield from arranged(plan, in_target(plan, family, reading.entries(key)))

    def values(self, plan: StorePlan, families: Sequence[StoredFamily]) -> Readings:
        """See `State`."""
        found = (self._reading(plan, each) for each in families)
        return Readings(tuple(each for each in found if each is not None))

    def keys_after(
        self,
        plan: StorePlan,
        family: StoredFamily,
        keys: Callable[[Iterator[Any]], Iterator[bytes]],
    ) -> Collisions:
        """See `State`."""
        reading = self._reading(plan, family)
        return Collisions(0, 0, 0) if reading is None else collisions(reading, keys)

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """See `State`: all that is left."""
        for reading in self.values(plan, plan.sources).readings:
            for key, value in arranged(plan, reading.entries()):
                yield reading.family, key, value, False

    def close(self) -> None:
        """See `State`."""

    def _reading(self, plan: StorePlan, family: StoredFamily) -> Reading | None:
        rows = self._kept.rows(family)
        if rows is None:
            return None
        keys = Keys(self.key_of(plan.declared.store), plan.declared.user_key)
        return Reading(family.name, rows, keys, self._kept.value_of(family))


def _counted(rows: DataFrame) -> dict[int, int]:
    """The rows by partition."""
    counts = rows.groupBy("partition_id").count().collect()
    return {int(number): int(count) for number, count in map(tuple, counts)}
