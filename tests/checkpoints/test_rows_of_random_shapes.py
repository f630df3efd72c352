"""Committed state of any schema, read from its files, is what Spark's own state reader gives.

Schemas, values, operators, providers, encodings and codecs are drawn at random; the seed is in the
name of a test. ``STATEMIGRATE_SHAPES=500`` draws as many, from the seed ``STATEMIGRATE_SEED`` on.
"""

import itertools
import json
import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from random_shapes import RandomQuery

from statemigrate import open_state
from statemigrate.checkpoint.operators.catalogue import is_derived
from statemigrate.checkpoint.state import CommittedState
from statemigrate.files import LocalFiles
from statemigrate.rewrite.column_pairing import FamilyAddress, is_unused
from statemigrate.rewrite.reading import StateReader, rewriting_session

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

FIRST = int(os.environ.get("STATEMIGRATE_SEED", "1"))
MANY = int(os.environ.get("STATEMIGRATE_SHAPES", "3"))
OPERATORS = ["aggregation", "deduplicate", "join", "variables"]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + MANY))
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_row_is_the_one_that_spark_reads(spark, tmp_path, operator, seed):
    query = RandomQuery.of(seed, operator)
    query.feed(tmp_path)
    checkpoint = query.run(spark, tmp_path)
    state = CommittedState(LocalFiles(checkpoint))
    reader = StateReader(state.files, state.batch, rewriting_session(spark, state.shape))
    compared = 0
    for each in state.families:
        if is_derived(each.family.name) or is_unused(each.operator, each.family):
            continue
        rows = reader.rows(each.operator, FamilyAddress(each.store, each.family))
        expected = by_spark(rows)
        found = sorted(
            repr((partition, key, value))
            for partition in range(len(each.parts))
            for keys, values in each.rows(partition)
            for key, value in zip(plain(keys), plain(values), strict=True)
        )
        assert found == expected, (each.store.name, each.family.name)
        compared += len(found)
    assert compared
    check_tables(checkpoint)


def by_spark(rows):
    """The rows of a frame, intervals of months as numbers, which Arrow has no type for."""
    from pyspark.sql.types import StructType

    kind = rows.schema.json()
    for each in ("interval year to month", "interval year"):
        kind = kind.replace(f'"{each}"', '"interval month"')
    for each in (kind, kind.replace('"interval month"', '"integer"')):
        types = {field.name: field.dataType for field in StructType.fromJson(json.loads(each))}
        rows = rows.select(*(rows[name].cast(types[name]).alias(name) for name in types))
    table = rows.toArrow().combine_chunks()
    columns = [plain(table[name].combine_chunks()) for name in ("partition", "key", "value")]
    return sorted(repr(row) for row in zip(*columns, strict=True))


def check_tables(checkpoint):
    """The tables have as many rows as their count says, and each is found by its key."""
    state = open_state(checkpoint, migrations=None)
    for name in state.stores:
        table = state[name]
        rows = table.to_arrow()
        assert rows.num_rows == table.count() > 0
        for key in rows.select(list(table.key_columns)).slice(0, 2).to_pylist():
            assert table.under(*key.values()).num_rows, (name, key)


def plain(array):
    """Values as Python has them; of moments and spans, which Python has not all, the numbers."""
    kind = array.type
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_struct(kind):
        columns = [plain(array.field(at)) for at in range(kind.num_fields)]
        names = [field.name for field in kind]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        found = [dict(zip(names, row, strict=True)) for row in rows]
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        items = plain(array.values)
        ends = array.offsets.to_pylist()
        found = [items[start:end] for start, end in itertools.pairwise(ends)]
    else:
        if pa.types.is_temporal(kind) or pa.types.is_duration(kind):
            array = array.cast(pa.int32() if kind == pa.date32() else pa.int64())
        found = array.to_pylist()
    nulls = pc.is_null(array).to_pylist()
    return [None if null else each for null, each in zip(nulls, found, strict=True)]
