"""Rows, keys, values and partitions of ours against Spark's own encoders, byte for byte."""

import json

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.arrow_rows import arrow
from support.avro_rows import avro_types, with_names_of_their_own
from support.sessions import spark_version
from support.spark_rows import SparkEncoders, SparkRows
from support.unsafe_rows import field, leaf_types, schema_of, structs, types, values

from statemigrate.checkpoint.operators.shapes import (
    NoPrefix,
    PrefixScan,
    RangeScan,
    TimestampPostfix,
    TimestampPrefix,
)
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.hashing import MURMUR3, hash_of
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout
from statemigrate.checkpoint.rows.xxhash64 import XXHASH64

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(spark_version() < (4, 3), reason="calls Spark's encoders as 4.3 has them"),
]
ROCKSDB = RowLayout(rocksdb=True)
AVRO = RowLayout(rocksdb=True, avro=True)


def months(spark):
    """Spark takes a number for months alone, not for years and months."""
    return json.loads(json.dumps(spark).replace("interval year to month", "interval month"))


@st.composite
def tables(draw, least=1, most=8, maps=True):
    # PySpark casts what it is given, which Arrow cannot do with lists of nulls.
    schema = draw(structs(types(leaf_types("void"), maps), least, most))
    rows = draw(st.lists(values(schema, False), min_size=1, max_size=8))
    return months(schema), arrow(months(schema), rows)


def check_rows(spark, table):
    schema, made = table
    codec, written = RowCodec(schema), SparkRows(spark, schema, made).bytes()
    assert codec.encode(made).to_list() == written
    assert codec.decode(Rows.from_list(written)).equals(made)


@pytest.mark.long(weight=1 / 3)
def test_rows_are_spark_s_own_bytes(spark):
    @settings(max_examples=10, phases=[Phase.generate])
    @given(tables(4, 12))
    def check(table):
        check_rows(spark, table)

    check()


@pytest.mark.long
def test_rows_of_many_schemas_are_spark_s_own_bytes(spark):
    @settings(max_examples=300, phases=[Phase.generate])
    @given(tables())
    def check(table):
        check_rows(spark, table)

    check()


def test_nulls_without_a_type_are_spark_s_own_bytes(spark):
    frame = spark.sql(
        "SELECT null AS a, array(null, null) AS b, map('k', null) AS c, "
        "named_struct('x', null, 'y', array()) AS d"
    )
    rows = frame._jdf.queryExecution().executedPlan().executeCollect()
    written = Rows.from_list([bytes(row.getBytes()) for row in rows])
    codec = RowCodec(json.loads(frame.schema.json()))
    read = codec.decode(written)
    expected = {"a": None, "b": [None, None], "c": [("k", None)], "d": {"x": None, "y": []}}
    assert read.to_pylist() == [expected]
    assert codec.encode(read).to_list() == written.to_list()


def test_what_is_not_a_number_keeps_its_bits(spark):
    schema = schema_of(
        field("f", "float"),
        field("d", "double"),
        field("a", {"type": "array", "elementType": "double", "containsNull": True}),
    )
    small = np.array([0x7FC00001, 0xFFC00000, 0x7F800001, 1 << 31], np.uint32).view(np.float32)
    large = np.array([0x7FF8 << 48 | 1, 0xFFF8 << 48, 0x7FF0 << 48 | 1, 1 << 63], np.uint64)
    pairs = zip(small, large.view(np.float64), strict=True)
    made = arrow(schema, [{"f": f, "d": d, "a": [d]} for f, d in pairs])
    codec, written = RowCodec(schema), SparkRows(spark, schema, made).bytes()
    assert codec.encode(made).to_list() == written
    assert codec.encode(codec.decode(Rows.from_list(written))).to_list() == written


KEY = schema_of(
    field("name", "string"),
    field("at", "long"),
    field("price", "double"),
    field("rate", "float"),
    field("n", "integer"),
    field("small", "short"),
    field("tiny", "byte"),
    field("place", schema_of(field("x", "decimal(30,2)"), field("y", "binary"))),
)


@pytest.mark.parametrize(
    "encoder",
    [
        NoPrefix(),
        PrefixScan(1),
        PrefixScan(3),
        RangeScan((1,)),
        RangeScan((6, 2, 5)),
        RangeScan((4, 3, 1)),
    ],
    ids=str,
)
def test_keys_are_spark_s_own_bytes(spark, encoder):
    @settings(max_examples=2, phases=[Phase.generate])
    @given(st.lists(values(KEY, False), min_size=15, max_size=15))
    def check(rows):
        made = arrow(KEY, rows)
        written = SparkEncoders(spark, KEY, encoder, KEY).keys(SparkRows(spark, KEY, made).rows)
        codec = KeyCodec(KEY, encoder, ROCKSDB)
        assert codec.encode(made).to_list() == written
        assert codec.decode(Rows.from_list(written)).equals(made)

    check()


def test_a_range_of_every_column_is_spark_s_own_bytes(spark):
    schema = schema_of(field("at", "long"), field("n", "integer"))
    made = arrow(schema, [{"at": -5, "n": None}, {"at": None, "n": 7}])
    encoder = RangeScan((1, 0))
    written = SparkEncoders(spark, schema, encoder, schema).keys(
        SparkRows(spark, schema, made).rows
    )
    assert KeyCodec(schema, encoder, ROCKSDB).encode(made).to_list() == written


@pytest.mark.parametrize("encoder", [TimestampPrefix(), TimestampPostfix()], ids=str)
def test_keys_with_an_event_time_are_spark_s_own_bytes(spark, encoder):
    schema = schema_of(field("name", "string"), field("__event_time", "long", False))
    times = [-(2**63), -1, 0, 1, 2**63 - 1]
    made = arrow(schema, [{"name": f"key {t}", "__event_time": t} for t in times])
    written = SparkEncoders(spark, schema, encoder, schema).keys(
        SparkRows(spark, schema, made).rows
    )
    codec = KeyCodec(schema, encoder, ROCKSDB)
    assert codec.encode(made).to_list() == written
    assert codec.decode(Rows.from_list(written)).equals(made)


@pytest.mark.parametrize("is_list", [False, True])
def test_values_are_spark_s_own_bytes(spark, is_list):
    made = arrow(KEY, [dict.fromkeys(each["name"] for each in KEY["fields"])] * 2)
    encoders = SparkEncoders(spark, KEY, NoPrefix(), KEY)
    written = encoders.values(SparkRows(spark, KEY, made).rows, is_list)
    keys = Rows.from_list([b"key"] * 2)
    assert ValueCodec(KEY, ROCKSDB, is_list=is_list).encode(made, keys).to_list() == written


@pytest.mark.parametrize("rocksdb", [False, True])
def test_checksums_are_spark_s_own(spark, rocksdb):
    schema = schema_of(field("text", "string"))
    made = arrow(schema, [{"text": "x" * n} for n in range(20)])
    keys = Rows.from_list([b"k" * n for n in range(20)])
    encoders = SparkEncoders(spark, schema, NoPrefix(), schema)
    plain = ValueCodec(schema, RowLayout(rocksdb)).encode(made, keys).to_list()
    written = [encoders.summed(k, v, rocksdb) for k, v in zip(keys.to_list(), plain, strict=True)]
    summed = ValueCodec(schema, RowLayout(rocksdb, checksums=True))
    assert summed.encode(made, keys).to_list() == written


AVRO_KEY = schema_of(*(each for each in KEY["fields"] if each["name"] not in ("small", "tiny")))


@pytest.mark.parametrize(
    "encoder", [NoPrefix(), PrefixScan(2), RangeScan((1,)), RangeScan((4, 2, 3))], ids=str
)
def test_keys_as_avro_are_spark_s_own_bytes(spark, encoder):
    @settings(max_examples=2, phases=[Phase.generate])
    @given(st.lists(values(AVRO_KEY, False), min_size=15, max_size=15))
    def check(rows):
        made = arrow(AVRO_KEY, rows)
        encoders = SparkEncoders(spark, AVRO_KEY, encoder, AVRO_KEY, avro=3)
        written = encoders.keys(SparkRows(spark, AVRO_KEY, made).rows)
        codec = KeyCodec(AVRO_KEY, encoder, AVRO, schema_number=3)
        assert codec.encode(made).to_list() == written
        assert codec.decode(Rows.from_list(written)).equals(made)

    check()


@pytest.mark.parametrize("encoder", [TimestampPrefix(), TimestampPostfix()], ids=str)
def test_avro_keys_with_an_event_time_are_spark_s_own_bytes(spark, encoder):
    schema = schema_of(field("name", "string"), field("__event_time", "long", False))
    made = arrow(schema, [{"name": f"key {t}", "__event_time": t} for t in (-1, 0, 2**50)])
    encoders = SparkEncoders(spark, schema, encoder, schema, avro=0)
    written = encoders.keys(SparkRows(spark, schema, made).rows)
    assert KeyCodec(schema, encoder, AVRO).encode(made).to_list() == written


@pytest.mark.long(weight=1 / 3)
def test_values_as_avro_are_spark_s_own_bytes(spark):
    @settings(max_examples=8, phases=[Phase.generate])
    @given(st.data())
    def check(data):
        # Spark has a map's entries in the order of Java's hash table.
        schema = with_names_of_their_own(data.draw(structs(avro_types(maps=False), 4, 12)))
        made = arrow(schema, data.draw(st.lists(values(schema, False), min_size=1, max_size=8)))
        key = schema_of(field("k", "string"))
        encoders = SparkEncoders(spark, key, NoPrefix(), schema, avro=1)
        rows = SparkRows(spark, schema, made).rows
        for is_list in (False, True):
            written = encoders.values(rows, is_list)
            keys = Rows.from_list([b"key"] * len(written))
            codec = ValueCodec(schema, AVRO, is_list=is_list, schema_number=1)
            assert codec.encode(made, keys).to_list() == written
            assert codec.decode(Rows.from_list(written), keys)[0].equals(made)

    check()


@pytest.mark.parametrize(
    ("name", "function", "kind"),
    [("hash", MURMUR3, np.int32), ("xxhash64", XXHASH64, np.int64)],
    ids=["hash, which says the partition", "xxhash64"],
)
def test_hashes_are_those_of_spark(spark, name, function, kind):
    def expected(columns):
        return hash_of(columns, function).view(kind).tolist()

    @settings(max_examples=8, phases=[Phase.generate])
    @given(tables(4, 10, maps=False))
    def check(table):
        schema, made = table
        names = [each["name"] for each in schema["fields"]]
        found = SparkRows(spark, schema, made).frame.selectExpr(
            f"{name}(*)", *(f"{name}({each})" for each in names)
        )
        columns = found.toArrow().columns
        assert columns[0].to_pylist() == expected([made])
        for index, column in enumerate(columns[1:]):
            assert column.to_pylist() == expected([made.field(index)])

    check()
