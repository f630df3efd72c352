"""One look at all rows of a family as `rows.surveying` takes it, by tasks that read the files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.formats.arrow_values import plain_values
from statemigrate.formats.escaped_text import visible
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.checksums import hashes_of
from statemigrate.rewrite.rows.columns import partitions_of
from statemigrate.rewrite.rows.surveying import Survey, astray
from statemigrate.rewrite.stored.state import StoredOperator
from statemigrate.state.telling import Telling, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "partition int, rows long, checksum string, astray long, text string, expected int"
_NAMES = ("partition", "rows", "checksum", "astray", "text", "expected")


def partitions_frame(spark: SparkSession, stored: StoredOperator) -> DataFrame:
    """A task for each partition of an operator: its number, as ``id``."""
    return spark.range(0, stored.partitions, 1, stored.partitions)


def survey_stored(
    spark: SparkSession, stored: StoredOperator, operator: OperatorShape, place: Place, name: str
) -> Survey:
    """Look at the rows of a family. Raises as `rows.surveying.survey`."""
    task = Telling(_Looking(stored, operator, place))
    with told():
        found = partitions_frame(spark, stored).mapInArrow(task, _SCHEMA).collect()
    for each in sorted(found):
        if each.astray:
            raise astray(name, each.partition, each.astray, (each.text, each.expected))
    sums = {each.partition: Checksum.from_text(each["rows"], each.checksum) for each in found}
    return Survey({partition: each for partition, each in sums.items() if each.count})


@dataclass(frozen=True)
class _Looking:
    stored: StoredOperator
    operator: OperatorShape
    place: Place

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pylist([self._looked(partition)], _arrow_schema())

    def _looked(self, partition: int) -> dict[str, object]:
        total, count = Checksum(), 0
        example: tuple[str | None, int | None] = (None, None)
        for keys, values in self.stored.rows(self.place, partition):
            first, second = hashes_of(keys, values)
            total += Checksum.of(len(keys), first.sum(), second.sum())
            expected = partitions_of(self.operator, self.place, keys)
            wrong = np.flatnonzero(expected != partition)
            if wrong.size and not count:
                (key,) = plain_values(keys.slice(int(wrong[0]), 1))
                text = json.dumps(visible(key), default=str, ensure_ascii=False)
                example = text, int(expected[wrong[0]])
            count += wrong.size
        return dict(zip(_NAMES, (partition, total.count, total.text, count, *example), strict=True))


def _arrow_schema() -> pa.Schema:
    numbers = {
        "partition": pa.int32(),
        "expected": pa.int32(),
        "rows": pa.int64(),
        "astray": pa.int64(),
    }
    return pa.schema([(name, numbers.get(name, pa.string())) for name in _NAMES])
