"""The rows of a family as Spark's own state reader gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from statemigrate.checkpoint.operators.catalogue import DEFAULT, VARIABLES, is_timers, kind_of
from statemigrate.checkpoint.operators.shapes import FamilyShape, OperatorShape, PrefixScan
from statemigrate.checkpoint.operators.telling import FIRST_METADATA, entry_of
from statemigrate.files import Files
from statemigrate.native.spark_state.paths import check_readable
from statemigrate.native.spark_state.view import readable_place
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.arrow.structs import row_type, value_type
from statemigrate.rewrite.rows.kinds.gathered import gathered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class RowReader(Protocol):
    """Gives the rows of families."""

    def rows(self, operator: OperatorShape, place: Place) -> DataFrame:
        """A family's ``key`` and ``value``, fields by their labels, and its ``partition``."""


@dataclass(frozen=True)
class StateReader:
    """The state of a checkpoint as of the committed ``batch``.

    ``metadata`` are those of operators that Spark's reader is shown in place of the checkpoint's
    own, by their paths.
    """

    files: Files
    batch: int
    spark: SparkSession
    metadata: Mapping[str, bytes] = field(default_factory=dict)

    def rows(self, operator: OperatorShape, place: Place) -> DataFrame:
        """A family's ``key`` and ``value``, fields by their labels, and its ``partition``.

        The value of a list is the array of its elements. Raises `CheckpointError` for a path that
        Spark's reader cannot open.
        """
        from pyspark.sql import functions as F  # noqa: N812

        check_readable(self.files.location)
        key, value = _columns(operator, place.family)
        # Of a join's lists the reader gives one row for each element.
        apart = place.family.is_list and kind_of(operator.name) is not VARIABLES
        kind = row_type(place.family.value) if apart else value_type(place.family)
        found = self._frame(operator, place).select(
            key.cast(row_type(place.family.key)).alias("key"),
            value.cast(kind).alias("value"),
            F.col("partition_id").alias("partition"),
        )
        return gathered(found) if apart else found

    @cached_property
    def _place(self) -> str:
        return readable_place(self.files, self.files.location, self.spark, self.metadata)

    def _place_of(self, operator: OperatorShape) -> str:
        """Where Spark's reader finds the operator: keys by their prefix only if metadata say so."""
        encoders = [each.encoder for store in operator.stores for each in store.families]
        by_prefix = any(isinstance(each, PrefixScan) for each in encoders)
        if operator.metadata_version or not by_prefix:
            return self._place
        untold = {FIRST_METADATA.format(operator.number): entry_of(operator).data}
        return readable_place(self.files, self.files.location, self.spark, untold)

    def _frame(self, operator: OperatorShape, place: Place) -> DataFrame:
        # Spark 4.1 looks for an endpoint here that only its query manager makes, when first asked.
        self.spark.streams  # noqa: B018
        reader = self.spark.read.format("statestore").option("operatorId", operator.number)
        reader = reader.option("batchId", self.batch)
        if is_timers(place.family.name):
            reader = reader.option("readRegisteredTimers", True)
        elif kind_of(operator.name) is VARIABLES:
            reader = reader.option("stateVarName", place.family.name)
            reader = reader.option("flattenCollectionTypes", not place.family.is_list)
        elif place.store.name != DEFAULT or place.family.name != DEFAULT:
            part = place.store.name if place.store.name != DEFAULT else place.family.name
            reader = reader.option("storeName", part)
        return reader.load(self._place_of(operator))


def _columns(operator: OperatorShape, family: FamilyShape) -> tuple[Column, Column]:
    from pyspark.sql import functions as F  # noqa: N812

    if kind_of(operator.name) is not VARIABLES:
        return F.col("key"), F.col("value")
    if is_timers(family.name):
        return F.struct(*_timer(family)), F.struct(F.lit(None).alias("nothing"))
    if family.user_key is not None:
        return F.struct("key", "user_map_key"), F.col("user_map_value")
    return F.col("key"), F.col("list_value" if family.is_list else "value")


def _timer(family: FamilyShape) -> list[str]:
    """The reader's columns of a timer, in the order in which the family's key has them."""
    names = [str(field["name"]) for field in family.key["fields"]]
    return ["key" if name == "key" else "expiration_timestamp_ms" for name in names]
