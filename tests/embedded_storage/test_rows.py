"""Between the tuples a processor sees and plain values."""

import copy
import datetime as dt

import pytest
from pyspark.sql import Row
from pyspark.sql.types import StructField, StructType, TimestampType

from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Struct
from statemigrate.processor.rows import TupleCodec

DDL = (
    "id BIGINT, name STRING, raw BINARY, at TIMESTAMP, "
    "inner STRUCT<x: INT, at: TIMESTAMP>, many ARRAY<STRUCT<x: INT>>, named MAP<STRING, TIMESTAMP>"
)
FORMAT = Struct(DDL)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FORMAT_OF_ONE = Struct("at TIMESTAMP")
CODEC = TupleCodec(FORMAT.struct_type())
LOCAL = dt.datetime(2026, 7, 1, 12, 30, 0, 5)
AWARE = LOCAL.astimezone(dt.UTC)
ROW = (
    1, "one", bytearray(b"\x00\x01"), LOCAL, Row(x=1, at=LOCAL), [Row(x=1), Row(x=2), None],
    {"a": LOCAL, "b": None},
)  # fmt: skip
VALUE = {
    "id": 1,
    "name": "one",
    "raw": b"\x00\x01",
    "at": AWARE,
    "inner": {"x": 1, "at": AWARE},
    "many": [{"x": 1}, {"x": 2}, None],
    "named": {"a": AWARE, "b": None},
}


def test_a_row_becomes_a_value_that_the_format_takes_and_comes_back_equal():
    value = CODEC.to_value(ROW)
    assert value == VALUE
    assert value["at"].tzinfo is dt.UTC
    stored = FORMAT.decode(FORMAT.encode(value))
    back = CODEC.to_tuple(stored)
    assert back == (1, "one", b"\x00\x01", *ROW[3:])
    assert isinstance(back[4], Row)
    assert back[4].at == LOCAL
    assert back[5][1].x == 2
    assert back[3].tzinfo is None


def test_a_codec_travels_to_workers_as_its_schema():
    for codec in (CODEC, TupleCodec(CODEC.schema, rows=False)):
        sent = copy.copy(codec)
        assert sent.to_value(ROW) == VALUE
        assert repr(sent.to_tuple(VALUE)) == repr(codec.to_tuple(VALUE))


def test_nulls_stay_nulls():
    nothing = (None,) * 7
    assert CODEC.to_tuple(CODEC.to_value(nothing)) == nothing


def test_one_field_and_a_row_are_tuples_too():
    codec = TupleCodec(Struct("n BIGINT").struct_type())
    assert codec.to_value(Row(n=5)) == codec.to_value((5,)) == {"n": 5}
    assert codec.to_tuple({"n": 5}) == (5,)


def test_a_nested_struct_may_be_given_by_name():
    value = CODEC.to_value((*ROW[:4], {"at": LOCAL, "x": 1}, [{"x": 1}, (2,), None], ROW[6]))
    assert value == VALUE


@pytest.mark.parametrize(
    "row", [(), (1, 2), "a", "ab", {"m": 1}, {"n": 1, "m": 2}, 5, None, {1}], ids=repr
)
def test_what_does_not_have_the_fields_is_refused(row):
    """Also a string, which has a length, and a dictionary, whose elements are its keys."""
    codec = TupleCodec(Struct("n STRING").struct_type())
    with pytest.raises(ValueMismatchError, match="does not have the fields") as raised:
        codec.to_value(row)
    assert raised.value.expected == "a tuple of 1 fields: n"
    assert raised.value.found == repr(row)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("raw", 5), ("raw", "text"), ("at", "2026"), ("many", 5), ("named", [1]), ("id", "1")],
)
def test_a_value_of_the_wrong_type_reaches_the_format_as_it_is(field, wrong):
    """Never turned into something else: bytes(5) would be five zero bytes."""
    position = list(VALUE).index(field)
    value = CODEC.to_value((*ROW[:position], wrong, *ROW[position + 1 :]))
    assert value[field] == wrong
    with pytest.raises(ValueMismatchError) as raised:
        FORMAT.encode(value)
    assert raised.value.data["field"] == field


def test_an_empty_struct_has_an_empty_value():
    codec = TupleCodec(StructType())
    assert codec.to_value(()) == {}
    assert codec.to_tuple({}) == ()


def test_a_timestamp_of_the_repeated_hour_comes_back_as_the_same_moment(berlin):
    codec = TupleCodec(Struct("at TIMESTAMP").struct_type())
    for hour in (0, 1):
        moment = dt.datetime(2026, 10, 25, hour, 30, tzinfo=dt.UTC)
        row = codec.to_tuple({"at": moment})
        assert row == (dt.datetime(2026, 10, 25, 2, 30),)
        assert codec.to_value(row) == {"at": moment}


def test_spark_is_given_the_moment_and_not_the_time_on_the_clock(berlin):
    """PySpark writes a naive time of the repeated hour without a look at ``fold``."""
    codec = TupleCodec(Struct("at TIMESTAMP").struct_type(), rows=False)
    moments = [dt.datetime(2026, 10, 25, hour, 30, tzinfo=dt.UTC) for hour in (0, 1)]
    written = [codec.to_tuple({"at": moment})[0] for moment in moments]
    schema = StructType([StructField("at", TimestampType())])
    stored = [schema.toInternal((each,))[0] for each in written]
    assert stored == [int(moment.timestamp()) * 1_000_000 for moment in moments]


def test_the_ends_of_time_come_back_in_every_zone(zone):
    codec, spark = (TupleCodec(Struct("at TIMESTAMP").struct_type(), rows=rows) for rows in (1, 0))
    for local in (
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    ):
        value = codec.to_value((local,))
        stored = FORMAT_OF_ONE.decode(FORMAT_OF_ONE.encode(value))
        assert stored == value
        assert codec.to_tuple(stored) == (local,)
        schema = StructType([StructField("at", TimestampType())])
        # What PySpark itself would store for the time on the clock.
        assert schema.toInternal(spark.to_tuple(stored)) == schema.toInternal((local,))


def test_an_hour_that_clocks_skip_is_the_one_after(berlin):
    """As the C library has it, by which PySpark goes."""
    codec = TupleCodec(FORMAT_OF_ONE.struct_type())
    skipped = dt.datetime(2026, 3, 29, 2, 30, 0, 7)
    at = StructType([StructField("at", TimestampType())]).toInternal((skipped,))[0]
    assert codec.to_value((skipped,)) == {"at": EPOCH + dt.timedelta(microseconds=at)}
    assert codec.to_tuple(codec.to_value((skipped,))) == (skipped + dt.timedelta(hours=1),)
