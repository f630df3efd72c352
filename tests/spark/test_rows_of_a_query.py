"""The state of a real query, as Spark's raw reader gives it: read, written again, and placed."""

import json

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.arrow_rows import arrow
from support.sessions import spark_version
from support.spark_rows import SparkRows
from support.unsafe_rows import field, leaf_types, schema_of, types, values

from statemigrate.checkpoint.operators.shapes import NoPrefix
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.hashing import partition_of
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(spark_version() < (4, 2), reason="Spark's raw reader came with 4.2"),
]
PARTITIONS = 3
ROWS = 40


def as_read(spark):
    """A schema that PySpark takes: months alone, and null everywhere.

    Arrow does not cast a struct that is null where a field of it cannot be.
    """
    text = json.dumps(spark).replace("interval year to month", "interval month")
    for flag in ("nullable", "containsNull", "valueContainsNull"):
        text = text.replace(f'"{flag}": false', f'"{flag}": true')
    return json.loads(text)


class Table:
    """A schema and rows, which are too many to be shown."""

    def __init__(self, schema, rows):
        self.schema, self.rows = schema, rows


@st.composite
def tables(draw):
    """Keys of six types and values of six, with more rows than fields."""
    leaves = leaf_types("void")
    keyed = st.lists(types(leaves, maps=False), min_size=6, max_size=6)
    valued = st.lists(types(leaves), min_size=6, max_size=6)
    fields = [field("id", "long", False)]
    fields += [field(f"k{i}", kind) for i, kind in enumerate(draw(keyed))]
    fields += [field(f"v{i}", kind) for i, kind in enumerate(draw(valued))]
    schema = as_read(schema_of(*fields))
    drawn = draw(st.lists(values(schema, False), min_size=ROWS, max_size=ROWS))
    return Table(schema, [{**row, "id": number} for number, row in enumerate(drawn)])


def aggregated(spark, folder, schema, made):
    """A checkpoint of a query that keeps the first values of each key."""
    source = str(folder / "input")
    frame = SparkRows(spark, schema, made).frame
    frame.write.parquet(source)
    keys = [each["name"] for each in schema["fields"] if each["name"][0] in "ik"]
    firsts = [f"first({each['name']})" for each in schema["fields"] if each["name"][0] == "v"]
    from pyspark.sql.functions import expr

    query = (
        spark.readStream.schema(frame.schema)
        .parquet(source)
        .groupBy(*keys)
        .agg(*map(expr, firsts))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return str(folder / "checkpoint")


def test_the_state_of_a_query_is_read_and_written_byte_for_byte(spark, tmp_path):
    @settings(max_examples=4, phases=[Phase.generate])
    @given(tables())
    def check(table):
        check_query(spark, tmp_path / str(len(list(tmp_path.iterdir()))), table)

    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    try:
        check()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def check_query(spark, folder, table):
    made = arrow(table.schema, table.rows)
    checkpoint = aggregated(spark, folder, table.schema, made)
    state = spark.read.format("statestore").load(checkpoint)
    key, value = (json.loads(state.schema[name].dataType.json()) for name in ("key", "value"))
    reader = spark.read.format("statestore").option("_readAllColumnFamilies", "true")
    raw = reader.load(checkpoint).select("key_bytes", "value_bytes").toArrow().combine_chunks()
    keys, stored = (Rows.from_arrow(raw.column(i).combine_chunks()) for i in (0, 1))
    # The raw reader gives the rows alone.
    layout = RowLayout(rocksdb=False)
    keyed = KeyCodec(key, NoPrefix(), layout)
    found = keyed.decode(keys)
    assert sorted(found.field("id").to_pylist()) == list(range(ROWS))
    assert keyed.encode(found).to_list() == keys.to_list()
    valued = ValueCodec(value, layout)
    kept, _ = valued.decode(stored, keys)
    assert valued.encode(kept, keys).to_list() == stored.to_list()
    check_places(state, found)


def check_places(state, found):
    """The partition of each key, as the reader tells it."""
    table = state.selectExpr("key.id AS id", "partition_id").toArrow()
    places = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    columns = [found.field(index) for index in range(found.type.num_fields)]
    expected = partition_of(columns, PARTITIONS)
    assert [places[each] for each in found.field("id").to_pylist()] == expected.tolist()
    assert np.unique(expected).size == PARTITIONS
