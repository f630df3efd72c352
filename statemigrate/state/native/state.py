"""The committed state of Spark's own store, whatever kept it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.deployment import StoredFamily, StoredStore, StorePlan
from statemigrate.errors import CheckpointError
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.state.logical import arranged, in_target
from statemigrate.state.native.reading import Read, Reading, Readings
from statemigrate.state.native.rows import Keys
from statemigrate.state.protocol import Entry, Suspect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Kept(Protocol):
    """What an operator keeps: state variables, or one envelope a key."""

    @property
    def key(self) -> StructType:
        """The type of the grouping key."""

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """What is stored, by name."""

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """A family's rows; None for one that is still to be made."""

    def value_of(self, family: StoredFamily) -> Read:
        """How its values are read."""


class SparkState:
    """See `statemigrate.state.protocol.State`; as of ``batch``, the last committed one."""

    engine = "native"

    def __init__(self, checkpoint: str, batch: int, kept: Kept) -> None:
        self.checkpoint = checkpoint
        self.batch = batch
        self._kept = kept

    @property
    def key(self) -> StructType:
        """See `State`."""
        return self._kept.key

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        return self._kept.stores

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        wanted = [each for each in self.stores[store].families if each.name != but]
        frames = {each.name: self._kept.rows(each) for each in wanted}
        return {name: _counted(rows) for name, rows in frames.items() if rows is not None}

    def quarantined(self, store: str) -> Mapping[str, int] | None:  # noqa: ARG002
        """See `State`: Spark's own state has no note of them."""
        return None

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:  # noqa: ARG002
        """See `State`: counting the state of an earlier batch takes as long as this one's."""
        return None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; family by family."""
        for family in (plan.target, *plan.sources):
            reading = self._reading(family, plan.declared.user_key)
            if reading is not None:
                yield from arranged(plan, in_target(plan, family, reading.entries(key)))

    def values(self, plan: StorePlan, families: Sequence[StoredFamily]) -> Readings:
        """See `State`."""
        found = (self._reading(each, plan.declared.user_key) for each in families)
        return Readings(tuple(each for each in found if each is not None))

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """See `State`: all that is left."""
        for reading in self.values(plan, plan.sources).readings:
            for key, value in arranged(plan, reading.entries()):
                yield reading.family, key, value, False

    def close(self) -> None:
        """See `State`."""

    def _reading(self, family: StoredFamily, user_key: StructType | None) -> Reading | None:
        rows = self._kept.rows(family)
        if rows is None:
            return None
        return Reading(family.name, rows, Keys(self.key, user_key), self._kept.value_of(family))


def _counted(rows: DataFrame) -> dict[int, int]:
    """The rows by partition."""
    counts = rows.groupBy("partition_id").count().collect()
    return {int(number): int(count) for number, count in map(tuple, counts)}


def committed_batch(reader: SparkCheckpoint) -> int:
    """The id of the last committed batch. Raises `CheckpointError` before the first."""
    batch = reader.last_batch()
    if batch is None:
        raise CheckpointError(
            f"nothing is committed in the checkpoint {reader.path}",
            expected="at least one committed batch",
            found="none",
            next_action="check the path; a query writes its state with its first batch",
            path=reader.path,
        )
    return batch
