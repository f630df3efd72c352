"""The committed state of a function of ``applyInPandasWithState``: one envelope a key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.migration import Lineage
from statemigrate.native import StoreRecord, lineage_of, read_record, stored_envelopes
from statemigrate.state.envelopes import EnvelopesOf, revisions_of
from statemigrate.state.spark_operators import EnvelopeValues
from statemigrate.state.user_rows import UserRows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Envelopes:
    """See `statemigrate.state.spark.Kept`; a family is the envelopes of its revision."""

    def __init__(
        self,
        checkpoint: str,
        envelopes: UserRows,
        lineages: Mapping[str, Lineage],
        wanted: Mapping[str, str],
    ) -> None:
        self._checkpoint = checkpoint
        self._envelopes = envelopes
        self._revisions = sorted(revisions_of(envelopes))
        self._lineage = lineage_of(checkpoint, self._revisions, lineages, wanted)

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `Kept`."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._envelopes.key)

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`."""
        store = self._lineage.store
        known = read_record(self._checkpoint).get(store, StoreRecord())
        stored = stored_envelopes(self._lineage, self._revisions, known)
        return {store: stored.led_by(known.target, self._lineage)}

    def rows(self, family: StoredFamily) -> EnvelopesOf:
        """See `Kept`."""
        return EnvelopesOf(self._envelopes, family.revision)

    def value_of(self, family: StoredFamily) -> EnvelopeValues:
        """See `Kept`."""
        return EnvelopeValues(family.format)
