"""The committed state of a function of ``applyInPandasWithState``: one envelope a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import StoredFamily, StoredStore, StorePlan
from statemigrate.inspect.trial.course import Course
from statemigrate.inspect.trial.findings import Findings
from statemigrate.migration import Lineage
from statemigrate.native.backfill.envelope_leftovers import lineage_of, revisions_in
from statemigrate.native.seen.record import StoreRecord, read_record
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.startup.envelopes import stored_envelopes
from statemigrate.state.frames import (
    committed_batch,
    counted,
    logical,
    suspected,
    tried,
)
from statemigrate.state.protocol import Entry, Shares, Suspect, Tick
from statemigrate.state.spark_rows import Keys
from statemigrate.state.variables import target_first

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class EnvelopeState:
    """See `statemigrate.state.protocol.State`; a family is the envelopes of its revision."""

    engine = "native"

    def __init__(
        self,
        checkpoint: str,
        lineages: Mapping[str, Lineage],
        wanted: Mapping[str, str],
        spark: SparkSession,
        operator: int | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.batch = committed_batch(SparkCheckpoint(checkpoint, spark))
        reader = SparkCheckpoint(checkpoint, spark, batch=self.batch, operator=operator)
        envelopes = reader.envelopes()
        assert envelopes is not None  # noqa: S101 - whoever opens this has looked
        self._envelopes = envelopes
        self._revisions = revisions_in(envelopes)
        self._lineage = lineage_of(checkpoint, self._revisions, lineages, wanted)

    @property
    def key(self) -> StructType:
        """See `State`."""
        return self._envelopes.schema["key"].dataType  # type: ignore[return-value]

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        store = self._lineage.store
        known = read_record(self.checkpoint).get(store, StoreRecord())
        stored = stored_envelopes(self._lineage, self._revisions, known)
        return {store: target_first(stored, self._lineage, known)}

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        families = self.stores[store].families
        return {each.name: counted(self._entries(each)) for each in families if each.name != but}

    def quarantined(self, store: str) -> Mapping[str, int] | None:  # noqa: ARG002
        """See `State`: Spark's own state has no note of them."""
        return None

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:  # noqa: ARG002
        """See `State`: counting the state of an earlier batch takes as long as this one's."""
        return None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`."""
        return logical(plan, self._entries, Keys(self.key, None), key, envelope=True)

    def try_out(
        self,
        plan: StorePlan,  # noqa: ARG002 - an envelope is read alike whatever the plan
        courses: Sequence[Course],
        shares: Shares,
        tick: Tick,
    ) -> Mapping[str, Findings]:
        """See `State`."""
        keys = Keys(self.key, None)
        found: dict[str, Findings] = {}
        for course in courses:
            frame = self._entries(course.family)
            found |= tried(frame, course, keys, shares, tick, envelope=True)
        return found

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """See `State`: all that is left."""
        return suspected(plan, self._entries, Keys(self.key, None), envelope=True)

    def close(self) -> None:
        """See `State`."""

    def _entries(self, family: StoredFamily) -> DataFrame:
        return self._envelopes.where(self._envelopes.value.revision == family.revision)
