"""The rows of committed state, as Spark's own reader gives them and as they are read from files.

A row is text of its partition, key and value, by the names of the store and of the family. Spark's
rows with text that is no UTF-8 are none of them.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.operators.catalogue import is_derived
from statemigrate.checkpoint.state import CommittedState
from statemigrate.rewrite.column_pairing import FamilyAddress, is_unused
from statemigrate.rewrite.spark_reader import StateReader, rewriting_session

Families = dict[tuple[int, str, str], list[str]]


def rows_by_spark(spark: Any, state: CommittedState) -> Families:
    """By family the rows of Spark's reader; of what only says again what a variable has, none."""
    reader = StateReader(state.files, state.batch, rewriting_session(spark, state.shape))
    return {
        (each.operator.number, each.store.name, each.family.name): _from_spark(
            reader.rows(each.operator, FamilyAddress(each.store, each.family))
        )
        for each in state.families
        if not is_derived(each.family.name) and not is_unused(each.operator, each.family)
    }


def rows_from_files(state: CommittedState) -> Families:
    """By family the rows that are read without Spark."""
    return {
        (each.operator.number, each.store.name, each.family.name): sorted(
            repr((partition, key, value))
            for partition in range(len(each.parts))
            for keys, values in each.rows(partition)
            for key, value in zip(plain(keys), plain(values), strict=True)
        )
        for each in state.families
    }


def _from_spark(rows: Any) -> list[str]:
    """The rows of a frame, intervals of months as numbers, which Arrow has no type for."""
    from pyspark.sql.types import StructType

    kind = rows.schema.json()
    for each in ("interval year to month", "interval year"):
        kind = kind.replace(f'"{each}"', '"interval month"')
    for each in (kind, kind.replace('"interval month"', '"integer"')):
        types = {field.name: field.dataType for field in StructType.fromJson(json.loads(each))}
        rows = rows.select(*(rows[name].cast(types[name]).alias(name) for name in types))
    table = rows.toArrow()
    columns = [plain(table[name]) for name in ("partition", "key", "value")]
    return sorted(repr(row) for row in zip(*columns, strict=True))


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as Python has them; of moments and spans, which Python has not all, the numbers."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain(chunk)]
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [plain(array.field(at)) for at in range(kind.num_fields)]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        found: list[Any] = [
            list(zip([each.name for each in kind], row, strict=True)) for row in rows
        ]
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        items = plain(array.values)
        found = [items[start:end] for start, end in itertools.pairwise(array.offsets.to_pylist())]
    else:
        if pa.types.is_temporal(kind):
            array = array.cast(pa.int32() if kind == pa.date32() else pa.int64())
        found = array.to_pylist()
    nulls = pc.is_null(array).to_pylist()
    return [None if null else each for null, each in zip(nulls, found, strict=True)]
