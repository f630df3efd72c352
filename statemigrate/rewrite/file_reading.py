"""The rows of an operator in the files of its partitions, as tasks of Spark read them.

A task is given where the files are, and needs nothing of the driver. It reads, changes and writes a
partition some thousands of rows at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint import (
    OperatorFamily,
    stored_family,
    stored_partitions,
)
from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape
from statemigrate.checkpoint.stores import StoredPartition
from statemigrate.files import LocalFiles, local_path
from statemigrate.formats import plain_values, visible
from statemigrate.rewrite.arrow_types import arrow_row, arrow_value, retyped, row_type, value_type
from statemigrate.rewrite.checksums import hashes_of
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.rewrite.partitioning import (
    FamilySurvey,
    Placing,
    RowBlocks,
    misplaced_error,
    rows_in,
    run_steps,
)
from statemigrate.rewrite.rewrite_report import Checksum
from statemigrate.rewrite.spark_reader import StateReader
from statemigrate.rewrite.store_writers import PartitionTask
from statemigrate.state import Batches, CarriesErrors, reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FileReader:
    """The rows of a checkpoint of this ``shape``, read by tasks from its files.

    ``states`` is Spark's own state reader of the same checkpoint. It gives the rows that tasks
    cannot reach: those on a file system that only the driver reaches, and those in RocksDB's
    write-ahead log.
    """

    states: StateReader
    shape: CheckpointShape
    _parts: dict[tuple[int, str], tuple[StoredPartition, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def family(self, operator: OperatorShape, place: FamilyAddress) -> OperatorFamily | None:
        """Where a family's rows are; None where only Spark's reader gets at them.

        Raises `CorruptFileError` where a file is missing or is not what Spark writes.
        """
        root = local_path(self.states.files.location)
        if root is None:
            return None
        files, which = LocalFiles(root), (operator.number, place.store.name)
        if which not in self._parts:
            self._parts[which] = stored_partitions(files, self.shape, operator, place.store)
        parts = self._parts[which]
        if any(each.has_log for each in parts):
            return None
        return stored_family(
            files, self.shape, operator, place.store, place.family, parts=parts, name=operator.name
        )

    def rows(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        """See `statemigrate.rewrite.spark_reader.RowReader`.

        An error of a task is raised where the rows are used.
        """
        from pyspark.sql.types import IntegerType, StructType

        stored = self.family(operator, place)
        if stored is None:
            return self.states.rows(operator, place)
        schema = StructType().add("key", row_type(place.family.key))
        schema = schema.add("value", value_type(place.family)).add("partition", IntegerType())
        partitions = partitions_frame(self.states.spark, stored)
        return partitions.mapInArrow(CarriesErrors(_Reading(stored)), schema)


def partitions_frame(spark: SparkSession, stored: OperatorFamily) -> DataFrame:
    """A task for each partition of a family: its number, as ``id``."""
    count = len(stored.parts)
    return spark.range(0, count, 1, count)


def _rows_of(stored: OperatorFamily, partition: int) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, ``key`` and ``value``, in the types that Spark has of them."""
    key, value = arrow_row(stored.family.key), arrow_value(stored.family)
    for keys, values in stored.rows(partition):
        columns = [retyped(keys, key), retyped(values, value)]
        yield pa.RecordBatch.from_arrays(columns, ["key", "value"])


@dataclass(frozen=True)
class _Reading:
    stored: OperatorFamily

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            for rows in _rows_of(self.stored, number):
                partition = pa.array(np.full(rows.num_rows, number, np.int32))
                yield rows.append_column("partition", partition)


# One look at all rows of a family as `partitioning.survey` takes it, by tasks that read the files.


_SCHEMA = "partition int, rows long, checksum string, misplaced long, text string, expected int"
_NAMES = ("partition", "rows", "checksum", "misplaced", "text", "expected")


def survey_stored(spark: SparkSession, stored: OperatorFamily, name: str) -> FamilySurvey:
    """Look at the rows of a family. Raises as `partitioning.survey`."""
    task = CarriesErrors(_Survey(stored))
    with reraising_worker_errors():
        found = partitions_frame(spark, stored).mapInArrow(task, _SCHEMA).collect()
    for each in sorted(found):
        if each.misplaced:
            raise misplaced_error(name, each.partition, each.misplaced, (each.text, each.expected))
    sums = {each.partition: Checksum.from_text(each["rows"], each.checksum) for each in found}
    return FamilySurvey({partition: each for partition, each in sums.items() if each.count})


@dataclass(frozen=True)
class _Survey:
    stored: OperatorFamily

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition in _numbers(batches):
            yield pa.RecordBatch.from_pylist([self._of(partition)], _arrow_schema())

    def _of(self, partition: int) -> dict[str, object]:
        total, count = Checksum(), 0
        example: tuple[str | None, int | None] = (None, None)
        for rows in _rows_of(self.stored, partition):
            first, second = hashes_of(rows["key"], rows["value"])
            total += Checksum.of(rows.num_rows, first.sum(), second.sum())
            expected = self.stored.partitions_of(rows["key"])
            wrong = np.flatnonzero(expected != partition)
            if wrong.size and not count:
                (key,) = plain_values(rows["key"].slice(int(wrong[0]), 1))
                text = json.dumps(visible(key), default=str, ensure_ascii=False)
                example = text, int(expected[wrong[0]])
            count += wrong.size
        return dict(zip(_NAMES, (partition, total.count, total.text, count, *example), strict=True))


def _arrow_schema() -> pa.Schema:
    numbers = {
        "partition": pa.int32(),
        "expected": pa.int32(),
        "rows": pa.int64(),
        "misplaced": pa.int64(),
    }
    return pa.schema([(name, numbers.get(name, pa.string())) for name in _NAMES])


# What tasks make of the rows that they read from files themselves.


@dataclass(frozen=True)
class StoredFlow:
    """The rows of an old family, what ``change`` makes of them, and where they go then."""

    stored: OperatorFamily
    change: Batches
    placing: Placing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks, by their new partitions, of the partitions whose numbers are in ``batches``."""
        blocks = RowBlocks((self.change, self.placing))
        for partition in _numbers(batches):
            yield from blocks(_rows_of(self.stored, partition))

    def staying(self, partition: int) -> Iterator[pa.RecordBatch]:
        """What becomes of one partition, whose rows stay in it."""
        placing = replace(self.placing, partition=partition)
        return run_steps((self.change, placing), _rows_of(self.stored, partition))


@dataclass(frozen=True)
class PartitionRewriter:
    """Rewrites a partition whose rows all stay in it: read, changed and written in one task."""

    flows: tuple[StoredFlow, ...]
    task: PartitionTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `PartitionTask` gives back of the partitions whose numbers are in ``batches``."""
        for partition in _numbers(batches):
            rows = chain.from_iterable(flow.staying(partition) for flow in self.flows)
            yield from self.task.write(partition, rows)


@dataclass(frozen=True)
class BlockWriter:
    """Writes the partition that a task of Spark is about from blocks of its rows."""

    task: PartitionTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `PartitionTask` gives back."""
        return self.task(rows_in(batches))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch["id"].to_pylist()
