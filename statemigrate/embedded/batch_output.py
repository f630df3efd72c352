"""A batch's output on its way to the sink: little of it travels with the reports of the tasks.

The sink gets the output once the state is committed, so it is stored in between. Much of it stays
in Spark's storage. Little of it the driver has with the reports, and the sink reads it without
another job of Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from statemigrate.embedded.task_plan import OUTPUT, REPORT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LITTLE = 1 << 20
"""Bytes of output that the driver takes from all partitions of a batch together."""
Frames = Callable[["SparkSession", Any, "StructType"], "DataFrame"]
"""Makes a DataFrame of an Arrow table and its columns."""


def most_with_report(schema: StructType, partitions: int) -> int:
    """The bytes of output that each partition may send with its report; 0 for none at all.

    Only columns of plain values go that way: a DataFrame made of them is the same on either.
    """
    from pyspark.sql import types

    plain = (
        *(types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType),
        *(types.FloatType, types.DoubleType, types.DecimalType, types.BinaryType, types.DateType),
        *(types.TimestampType, types.TimestampNTZType),
    )
    names = schema.fieldNames()
    are_plain = all(
        # A text with a collation is of the same class as one without.
        type(field.dataType) in plain or field.dataType == types.StringType()
        for field in schema.fields
    )
    return _LITTLE // partitions if names and len({*names}) == len(names) and are_plain else 0


class LittleOutput:
    """A partition's output: held back up to ``most`` bytes, to travel with the report.

    Takes batches that have the output's columns and `REPORT`, and gives them with `OUTPUT`.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._is_little = most > 0
        self._batches: list[Any] = []

    def added(self, batch: Any) -> Iterator[Any]:
        """What is to be handed to Spark now: nothing, or all that there is so far."""
        self._batches.append(batch)
        self._left -= batch.nbytes
        if self._left < 0:
            self._is_little = False
            for each in self._batches:
                yield _with_output(each, None)
            self._batches.clear()

    def reported(self, report: Any, *, failed: bool) -> Any:
        """The batch of a report, with the output if it is little. One that failed has none."""
        if failed or not self._is_little:
            return _with_output(report, None)
        nothing = _without_report(report.slice(0, 0))
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, nothing.schema) as writer:
            for batch in self._batches:
                writer.write_batch(_without_report(batch))
        return _with_output(report, stream.getvalue().to_pybytes())


def _without_report(batch: Any) -> Any:
    return batch.select([name for name in batch.schema.names if name != REPORT])


def _with_output(batch: Any, output: bytes | None) -> Any:
    column = pa.array([output] * batch.num_rows, pa.binary())
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, OUTPUT])


def read_output(streams: Iterable[bytes]) -> Any:
    """The Arrow table of the output that has come with reports."""
    return pa.concat_tables([pa.ipc.open_stream(each).read_all() for each in streams])


def local_frame(session: SparkSession, table: Any, schema: StructType) -> DataFrame:
    """A DataFrame whose rows are in its plan, so that reading them alone is no job of Spark's."""
    from pyspark.sql.pandas.conversion import SparkConversionMixin

    # What the session's own method does, which would also make the session of the stream the
    # active one of the whole program, and load pandas.
    return SparkConversionMixin.createDataFrame(session, table, schema=schema)
