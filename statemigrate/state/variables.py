"""The committed state of Spark's own store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import Declared, Settings, StoredFamily, StoredStore, StorePlan
from statemigrate.formats import Struct
from statemigrate.inspect.trial.course import Course
from statemigrate.inspect.trial.findings import Findings
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord, read_record
from statemigrate.native.spark_state.listing import check_listed
from statemigrate.native.spark_state.operators import Variable
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.startup.stored import committed_state
from statemigrate.state.frames import (
    committed_batch,
    counted,
    logical,
    suspected,
    tried,
)
from statemigrate.state.protocol import Entry, Shares, Suspect, Tick
from statemigrate.state.spark_rows import Keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class NativeState:
    """State variables of ``transformWithState``; see `statemigrate.state.protocol.State`."""

    engine = "native"

    def __init__(
        self,
        checkpoint: str,
        lineages: Mapping[str, Lineage],
        spark: SparkSession,
        operator: int | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self._lineages = lineages
        self._operator = operator
        self.batch = committed_batch(SparkCheckpoint(checkpoint, spark))
        self._reader = SparkCheckpoint(checkpoint, spark, batch=self.batch, operator=operator)
        self._variables = self._reader.variables()

    @cached_property
    def key(self) -> StructType:
        """See `State`."""
        return self._reader.grouping_key()

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        by_store: dict[str, Variable] = {}
        for name, variable in self._variables.items():
            by_store.setdefault(name.partition("@")[0], variable)
        declared = [self._declared(store, variable) for store, variable in by_store.items()]
        lineages = {
            each.store: self._lineages.get(each.store)
            or Lineage.unmigrated(each.store, Struct(each.schema))
            for each in declared
        }
        record = read_record(self.checkpoint)
        found = committed_state(self._reader, declared, lineages, record, Settings()).stores
        return {
            store: target_first(each, lineages[store], record.get(store, StoreRecord()))
            for store, each in found.items()
        }

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        families = self.stores[store].families
        frames = {each.name: self._frame(each) for each in families if each.name != but}
        return {name: counted(frame) for name, frame in frames.items() if frame is not None}

    def quarantined(self, store: str) -> Mapping[str, int] | None:  # noqa: ARG002
        """See `State`: Spark's own state has no note of them."""
        return None

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:  # noqa: ARG002
        """See `State`: counting the state of an earlier batch takes as long as this one's."""
        return None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; family by family."""
        keys = Keys(self.key, plan.declared.user_key)
        return logical(plan, self._frame, keys, key, envelope=False)

    def try_out(
        self, plan: StorePlan, courses: Sequence[Course], shares: Shares, tick: Tick
    ) -> Mapping[str, Findings]:
        """See `State`: the tasks are those of Spark's state reader."""
        keys = Keys(self.key, plan.declared.user_key)
        found: dict[str, Findings] = {}
        for course in courses:
            frame = self._frame(course.family)
            if frame is not None:
                found |= tried(frame, course, keys, shares, tick, envelope=False)
        return found

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """See `State`: all that is left."""
        keys = Keys(self.key, plan.declared.user_key)
        return suspected(plan, self._frame, keys, envelope=False)

    def close(self) -> None:
        """See `State`."""

    def _frame(self, family: StoredFamily) -> DataFrame | None:
        """A family's rows; None for one that Spark does not list, since it is still to be made.

        Raises `CheckpointError` where it may have been made without being listed.
        """
        variable = self._variables.get(family.name)
        if variable is None:
            check_listed(self.checkpoint, self.batch, family.name, self._operator)
            return None
        return self._reader.entries(variable)

    def _declared(self, store: str, variable: Variable) -> Declared:
        schema = self._reader.value_schema(variable)
        return Declared(store, variable.kind, schema, None, 1 if variable.expires else None)


def target_first(stored: StoredStore, lineage: Lineage, record: StoreRecord) -> StoredStore:
    """The same store with its families as an engine reads them: the target, then newest first.

    Where no deployment has left a note of it, the newest revision is taken for the target.
    """
    known = {revision: place for place, revision in enumerate(lineage.revisions)}
    target = record.families[0] if record.families else None
    ordered = sorted(
        stored.families,
        key=lambda each: (each.name == target, known.get(each.revision, -1)),
        reverse=True,
    )
    return replace(stored, families=tuple(ordered))
