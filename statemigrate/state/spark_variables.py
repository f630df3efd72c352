"""State variables of ``transformWithState``, as of one committed batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.deployment import StoredFamily, StoredStore, complement_of, store_of
from statemigrate.migration import Lineage
from statemigrate.native.deployment_check import StoreRecord, read_record
from statemigrate.native.listing import check_listed
from statemigrate.native.older_families import lineage_of
from statemigrate.native.startup_functions import stored_envelopes
from statemigrate.native.startup_stored import read_stores
from statemigrate.state.envelopes import EnvelopesOf, revisions_of
from statemigrate.state.rows import UserRows
from statemigrate.state.spark_operators import EnvelopeValues, StructValues
from statemigrate.state.stored_checkpoint import StoredCheckpoint

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Variables:
    """See `statemigrate.state.spark.Kept`; ``reader`` reads the last committed ``batch``."""

    def __init__(
        self,
        reader: StoredCheckpoint,
        batch: int,
        lineages: Mapping[str, Lineage],
        operator: int | None = None,
    ) -> None:
        self._reader = reader
        self._batch = batch
        self._lineages = lineages
        self._operator = operator
        self._variables = reader.variables()

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `Kept`."""
        return self._reader.grouping_key()

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`."""
        record = read_record(self._reader.files)
        there = dict.fromkeys(map(store_of, self._variables))
        complements = {complement_of(store).name for store in there}
        names = [store for store in there if store not in complements]
        found = read_stores(self._reader, names, self._lineages, record).stores
        stores = {store: stored for store, each in found.items() if (stored := each.stored())}
        return {
            store: each.led_by(record.get(store, StoreRecord()).target, self._lineages.get(store))
            for store, each in stores.items()
        }

    def rows(self, family: StoredFamily) -> UserRows | None:
        """See `Kept`: None for one that Spark does not list, since it is still to be made.

        Raises `CheckpointError` where it may have been made without being listed.
        """
        variable = self._variables.get(family.name)
        if variable is None:
            check_listed(self._reader.files, self._batch, family.name, self._operator)
            return None
        return self._reader.rows(variable.name)

    def value_of(self, family: StoredFamily) -> StructValues:
        """See `Kept`."""
        return StructValues(family.format)


# What a function of ``applyInPandasWithState`` keeps, one envelope a key, as of one batch.


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
