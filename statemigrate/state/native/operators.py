"""The state of Spark's own operators, as of one committed batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.shapes import StructJson
from statemigrate.checkpoint.operators.user_stores import OperatorStore
from statemigrate.deployment import StoredFamily, StoredStore, store_of
from statemigrate.formats import Format
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration import BASE, Lineage
from statemigrate.native.seen.record import StoreRecord, read_record
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.state.native.revisions import stored_revision
from statemigrate.state.native.rows import StructValues

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class OperatorRows:
    """See `statemigrate.state.native.state.Kept`; a store has one family, of the store's name.

    A side of a join is a store of lists: the rows under what is equal on both sides, in the order
    in which they came.
    """

    def __init__(
        self,
        reader: SparkCheckpoint,
        found: Mapping[str, OperatorStore],
        lineages: Mapping[str, Lineage],
    ) -> None:
        self._reader = reader
        self._found = found
        self._lineages = lineages

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`: each is looked at when it is asked for, as its scripts may not fit it."""
        return _Stores(self._found, self._stored)

    def key_of(self, store: str) -> StructType:
        """See `Kept`."""
        return struct_from_json(self._found[store].key).struct_type()

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """See `Kept`: they are of one revision, whose family may have a name of its own."""
        name = store_of(family.name)
        (held,) = self.stores[name].families
        is_held = held.revision == family.revision
        return _shown(self._reader, self._found[name]) if is_held else None

    def value_of(self, family: StoredFamily) -> StructValues:
        """See `Kept`."""
        return StructValues(family.format)

    @cached_property
    def _record(self) -> Mapping[str, StoreRecord]:
        return read_record(self._reader.files)

    def _stored(self, name: str) -> StoredStore:
        store, record = self._found[name], self._record.get(name, StoreRecord())
        held: Format = struct_from_json(store.value)
        revision, lineage = BASE, self._lineages.get(name)
        if lineage is not None:
            revision = stored_revision(lineage, held, struct_from_json(store.key), record)
            held = lineage.format_of(revision)
        family = StoredFamily(name, revision, held)
        return StoredStore("list" if store.is_join else "value", (family,), record.applied)


class _Stores(Mapping[str, StoredStore]):
    def __init__(self, names: Collection[str], stored: Callable[[str], StoredStore]) -> None:
        self._names = names
        self._stored = stored

    def __getitem__(self, name: str) -> StoredStore:
        if name not in self._names:
            raise KeyError(name)
        return self._stored(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def together(
    one: Mapping[str, StoredStore], other: Mapping[str, StoredStore]
) -> Mapping[str, StoredStore]:
    """The stores of both."""
    return _Stores([*one, *other], lambda name: one[name] if name in one else other[name])


def _shown(reader: SparkCheckpoint, store: OperatorStore) -> DataFrame:
    """The rows with each column under the name that users know."""
    rows = reader.operator_rows(store.number, store.store.name, store.side)
    if store.is_join and store.side is None:
        # All rows of a key are in one partition: there they come one after the other.
        rows = rows.sortWithinPartitions("key")
    numbered = rows.select(_numbered("key", rows), _numbered("value", rows), "partition_id")
    key, value = _named("key", store.key, numbered), _named("value", store.value, numbered)
    return numbered.select(key, value, "partition_id")


def _numbered(name: str, rows: DataFrame) -> Column:
    """A struct whose fields go by their place: Spark's names may repeat."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    held: Any = rows.schema[name].dataType
    numbered = StructType()
    for place, field in enumerate(held.fields):
        numbered.add(str(place), field.dataType)
    return functions.col(name).cast(numbered).alias(name)


def _named(name: str, shown: StructJson, rows: DataFrame) -> Column:
    from pyspark.sql import functions

    held: Any = rows.schema[name].dataType
    places = [field.name for field in held.fields if field.dataType.typeName() != "void"]
    columns = [
        functions.col(name)[place].alias(field["name"])
        for place, field in zip(places, shown["fields"], strict=False)
    ]
    # Where the sides of a join share a store, Spark's reader leaves out whether a row has matched.
    columns += [
        functions.lit(None).cast("boolean").alias(field["name"])
        for field in shown["fields"][len(places) :]
    ]
    return functions.struct(*columns).alias(name)
