"""The rows of a family as Spark's own state reader gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint import OperatorFamily
from statemigrate.checkpoint.logs import FILE_IDS
from statemigrate.checkpoint.operators import (
    DEFAULT,
    FIRST_METADATA,
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    PrefixScan,
    entry_of,
    is_timers,
    kind_of,
)
from statemigrate.checkpoint.rows import XXHASH64, hash_of
from statemigrate.files import Files
from statemigrate.native import check_readable, readable_uri
from statemigrate.rewrite.arrow_types import list_array, row_type, value_type
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.state import CarriesErrors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# Elements of lists, which a reader gives one a row, put together under their keys.


def grouped_by_key(rows: DataFrame) -> DataFrame:
    """The rows ``key``, ``value`` and ``partition`` with a list of values for each key.

    Those of one key stand side by side, and stay in their order.
    """
    from pyspark.sql.types import ArrayType, StructType

    fields = {each.name: each.dataType for each in rows.schema.fields}
    schema = StructType().add("key", fields["key"])
    schema = schema.add("value", ArrayType(fields["value"])).add("partition", fields["partition"])
    return rows.mapInArrow(CarriesErrors(_lists), schema)


def _lists(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows:
            rows = batch if held is None else pa.concat_batches([held, batch])
            starts = _starts(rows)
            # The last key may go on in the next batch.
            last = int(starts[-1])
            if last:
                yield _grouped(rows.slice(0, last), starts[:-1])
            held = rows.slice(last)
    if held is not None:
        yield _grouped(held, np.zeros(1, np.int64))


def _starts(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Where a key begins. That two of 64 bits are one, side by side and at one time, is not met."""
    keys = rows["key"]
    hashes, times = hash_of([keys], XXHASH64), keys.field(keys.type.num_fields - 1)
    known = np.asarray(times.fill_null(-1)).astype(np.int64)
    changes = (hashes[1:] != hashes[:-1]) | (known[1:] != known[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def _grouped(rows: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> pa.RecordBatch:
    lengths = np.diff(np.append(starts, rows.num_rows))
    first = rows.take(pa.array(starts))
    values = pa.concat_arrays([rows["value"]])
    lists = list_array(lengths, values, pa.list_(values.type))
    return pa.RecordBatch.from_arrays(
        [first["key"], lists, first["partition"]], ["key", "value", "partition"]
    )


class RowReader(Protocol):
    """Gives the rows of families."""

    def rows(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        """A family's ``key`` and ``value``, fields by their labels, and its ``partition``.

        The value of a list is the array of its elements.
        """

    def family(self, operator: OperatorShape, place: FamilyAddress) -> OperatorFamily | None:
        """Where tasks read the same rows from files themselves; None where they cannot."""


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

    def rows(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        """A family's ``key`` and ``value``, fields by their labels, and its ``partition``.

        The value of a list is the array of its elements. Raises `CheckpointError` for a path that
        Spark's reader cannot open.
        """
        from pyspark.sql import functions as F  # noqa: N812

        check_readable(self.files.location)
        key, value = _columns(operator, place.family)
        # Of a join's lists the reader gives one row for each element.
        apart = place.family.is_list and not kind_of(operator.name).has_variables
        kind = row_type(place.family.value) if apart else value_type(place.family)
        found = self._frame(operator, place).select(
            key.cast(row_type(place.family.key)).alias("key"),
            value.cast(kind).alias("value"),
            F.col("partition_id").alias("partition"),
        )
        return grouped_by_key(found) if apart else found

    def family(self, operator: OperatorShape, place: FamilyAddress) -> None:
        """See `RowReader`: these rows are Spark's."""

    @cached_property
    def _uri(self) -> str:
        return readable_uri(self.files, self.files.location, self.spark, self.metadata)

    def _uri_for(self, operator: OperatorShape) -> str:
        """Where Spark's reader finds the operator: keys by their prefix only if metadata say so."""
        encoders = [each.encoder for store in operator.stores for each in store.families]
        by_prefix = any(isinstance(each, PrefixScan) for each in encoders)
        if operator.metadata_version or not by_prefix:
            return self._uri
        untold = {FIRST_METADATA.format(operator.number): entry_of(operator).data}
        return readable_uri(self.files, self.files.location, self.spark, untold)

    def _frame(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        # Spark 4.1 looks for an endpoint here that only its query manager makes, when first asked.
        self.spark.streams  # noqa: B018
        reader = self.spark.read.format("statestore").option("operatorId", operator.number)
        reader = reader.option("batchId", self.batch)
        if is_timers(place.family.name):
            reader = reader.option("readRegisteredTimers", True)
        elif kind_of(operator.name).has_variables:
            reader = reader.option("stateVarName", place.family.name)
            reader = reader.option("flattenCollectionTypes", not place.family.is_list)
        elif place.store.name != DEFAULT or place.family.name != DEFAULT:
            part = place.store.name if place.store.name != DEFAULT else place.family.name
            reader = reader.option("storeName", part)
        return reader.load(self._uri_for(operator))


def _columns(operator: OperatorShape, family: FamilyShape) -> tuple[Column, Column]:
    from pyspark.sql import functions as F  # noqa: N812

    if not kind_of(operator.name).has_variables:
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


# The session that a rewrite runs in: the user's, with settings of its own.


_SETTINGS = {
    # Moments are handed to Python in the zone of the session, and are the same in every one.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # A value that a new type cannot hold is an error, and never null.
    "spark.sql.ansi.enabled": "true",
    # A partition of state is a partition of the rows, whatever its size.
    "spark.sql.adaptive.enabled": "false",
}
_TASKS = "spark.sql.shuffle.partitions"


@contextmanager
def collected_by_one_task(session: SparkSession) -> Iterator[None]:
    """What is found in every partition is brought together by one task, instead of some 200.

    For a `rewriting_session`, and for a few rows of each partition only.
    """
    before = str(session.conf.get(_TASKS))
    session.conf.set(_TASKS, "1")
    try:
        yield
    finally:
        session.conf.set(_TASKS, before)


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """A frame of a `rewriting_session`; the user's session stays the active one.

    PySpark makes the session active that makes a frame of local rows, and says so nowhere.
    """
    active = type(session).getActiveSession()
    try:
        return session.createDataFrame(table)
    finally:
        if active is not None:
            active.createDataFrame([], "nothing INT")


def rewriting_session(spark: SparkSession, shape: CheckpointShape) -> SparkSession:
    """A session of its own settings in the same application, to read a checkpoint of this shape."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    # Spark's reader takes the ids of files from the commit log only if the session says so.
    has_ids = shape.commits[shape.batch].state_ids is not None
    session.conf.set(FILE_IDS, "2" if has_ids else "1")
    return session
