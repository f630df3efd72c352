"""Rows of state as Avro, against another writer of Avro."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.operators.shapes import NoPrefix, PrefixScan, RangeScan
from statemigrate.checkpoint.rows.avro_encoding import AvroPart
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout, Spans
from statemigrate.errors import CorruptFileError, UnsupportedError, ValueMismatchError
from tests.support.arrow_rows import arrow
from tests.support.avro_rows import avro_types, encoded
from tests.support.unsafe_rows import field, schema_of, structs, values

AVRO = RowLayout(rocksdb=True, avro=True)


@st.composite
def tables(draw):
    schema = draw(structs(avro_types(), most=6))
    return schema, draw(st.lists(values(schema, False), max_size=5))


@given(tables())
def test_rows_are_another_writer_s_bytes_behind_version_and_number(table):
    schema, rows = table
    part, made = AvroPart(schema, "a value", 5), arrow(schema, rows)
    found = part.encode(made)
    assert found.to_list() == [b"\0\5\0" + encoded(schema, each) for each in rows]
    read = part.decode(Spans.of(found))
    read.validate(full=True)
    assert read.equals(made)


@given(tables(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_is_encoded_as_its_rows_are(table, start, count):
    schema, rows = table
    part = AvroPart(schema, "a value")
    found = part.encode(arrow(schema, rows).slice(start, count))
    expected = [b"\0" + encoded(schema, each) for each in rows[start : start + count]]
    assert found.to_list() == expected


KEY = schema_of(field("name", "string"), field("at", "long"), field("n", "integer"))
KEYS = [{"name": "a", "at": -1, "n": 2}, {"name": None, "at": None, "n": None}]


def test_the_parts_of_a_key_for_scans_have_one_number_between_them():
    made = arrow(KEY, KEYS)
    first, rest = (schema_of(*KEY["fields"][part]) for part in (slice(1), slice(1, None)))
    codec = KeyCodec(KEY, PrefixScan(1), AVRO, family=1, schema_number=2)
    expected = []
    for key in KEYS:
        begins = b"\0" + encoded(first, {"name": key["name"]})
        length = len(begins).to_bytes(4, "little")
        others = b"\0\2\0" + encoded(rest, {"at": key["at"], "n": key["n"]})
        expected.append(b"\1\0" + length + begins + others)
    assert codec.encode(made).to_list() == expected
    assert codec.decode(codec.encode(made)).equals(made)


@pytest.mark.parametrize("encoder", [NoPrefix(), PrefixScan(2), RangeScan((1,)), RangeScan((2, 1))])
def test_keys_are_read_as_they_were_written(encoder):
    made = arrow(KEY, KEYS)
    codec = KeyCodec(KEY, encoder, AVRO)
    assert codec.decode(codec.encode(made)).equals(made)


def test_rows_of_an_older_schema_have_what_the_newest_has():
    older = schema_of(
        field("n", "integer"), field("gone", "string"), field("in", schema_of(field("a", "long")))
    )
    newest = schema_of(
        field("in", schema_of(field("b", "string"), field("a", "long"))), field("n", "long")
    )
    keys = Rows.from_list([b"1", b"2"])
    old = ValueCodec(older, AVRO, schema_number=0)
    new = ValueCodec(newest, AVRO, schema_number=1, older={0: older})
    rows = Rows.concat(
        [
            new.encode(arrow(newest, [{"in": {"b": "x", "a": 1}, "n": 2**40}]), keys.slice(0, 1)),
            old.encode(arrow(older, [{"n": 7, "gone": "g", "in": None}]), keys.slice(1, 2)),
        ]
    )
    found, _ = new.decode(rows, keys)
    expected = [{"in": {"b": "x", "a": 1}, "n": 2**40}, {"in": None, "n": 7}]
    assert found.to_pylist() == expected


def test_a_field_that_was_of_another_type_is_refused():
    older, newest = schema_of(field("n", "string")), schema_of(field("n", "long"))
    keys = Rows.from_list([b"1"])
    rows = ValueCodec(older, AVRO).encode(arrow(older, [{"n": "x"}]), keys)
    with pytest.raises(UnsupportedError, match="older schema"):
        ValueCodec(newest, AVRO, schema_number=1, older={0: older}).decode(rows, keys)


def test_a_schema_that_is_not_known_is_refused_by_its_number():
    keys = Rows.from_list([b"1"])
    rows = ValueCodec(KEY, AVRO, schema_number=4).encode(arrow(KEY, KEYS[:1]), keys)
    with pytest.raises(CorruptFileError, match="number 4"):
        ValueCodec(KEY, AVRO).decode(rows, keys)


def test_a_null_in_an_array_of_numbers_is_refused():
    listed = {"type": "array", "elementType": "long", "containsNull": True}
    schema = schema_of(field("a", listed))
    with pytest.raises(ValueMismatchError, match=r"a\.element is null"):
        AvroPart(schema, "a value").encode(arrow(schema, [{"a": [1, None]}]))


@pytest.mark.parametrize(
    "spark",
    [
        "byte",
        "short",
        "interval day to second",
        "interval year to month",
        {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": False},
        {"type": "array", "elementType": "void", "containsNull": True},
    ],
)
def test_what_spark_s_encoding_does_not_have_is_refused(spark):
    with pytest.raises(UnsupportedError, match="Avro encoding of state has no"):
        AvroPart(schema_of(field("x", spark)), "a value")


def test_blocks_of_an_array_are_put_together():
    listed = {"type": "array", "elementType": "long", "containsNull": False}
    part = AvroPart(schema_of(field("a", listed)), "a value")
    rows = Rows.from_list([b"\0\2" + b"\2\2" + b"\4\4\6" + b"\0"])
    assert part.decode(Spans.of(rows)).to_pylist() == [{"a": [1, 2, 3]}]


def test_wide_forms_of_arrow_are_taken_too():
    kind = pa.struct([("name", pa.large_string()), ("at", pa.int64()), ("n", pa.int32())])
    codec = KeyCodec(KEY, NoPrefix(), AVRO)
    assert codec.encode(pa.array(KEYS, kind)).to_list() == codec.encode(arrow(KEY, KEYS)).to_list()
