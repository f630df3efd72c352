"""What a function of ``applyInPandasWithState`` keeps, one envelope a key, as of one batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.migration import Lineage
from statemigrate.native.backfill.envelope_leftovers import lineage_of, revisions_in
from statemigrate.native.seen.record import StoreRecord, read_record
from statemigrate.native.startup.envelopes import stored_envelopes
from statemigrate.state.native.rows import EnvelopeValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Envelopes:
    """See `statemigrate.state.native.state.Kept`; a family is the envelopes of its revision."""

    def __init__(
        self,
        checkpoint: str,
        envelopes: DataFrame,
        lineages: Mapping[str, Lineage],
        wanted: Mapping[str, str],
    ) -> None:
        self._checkpoint = checkpoint
        self._envelopes = envelopes
        self._revisions = revisions_in(envelopes)
        self._lineage = lineage_of(checkpoint, self._revisions, lineages, wanted)

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `Kept`."""
        return self._envelopes.schema["key"].dataType  # type: ignore[return-value]

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`."""
        store = self._lineage.store
        known = read_record(self._checkpoint).get(store, StoreRecord())
        stored = stored_envelopes(self._lineage, self._revisions, known)
        return {store: stored.led_by(known.target, self._lineage)}

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """See `Kept`."""
        return self._envelopes.where(self._envelopes.value.revision == family.revision)

    def value_of(self, family: StoredFamily) -> EnvelopeValues:
        """See `Kept`."""
        return EnvelopeValues(family.format)
