"""The partition of a key, against a hash of one value at a time and Spark's documentation."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.hashing import MURMUR3, hash_of, partition_of
from statemigrate.errors import UnsupportedError
from tests.support.arrow_rows import arrow
from tests.support.murmur3 import hashed
from tests.support.unsafe_rows import field, leaf_types, schema_of, structs, types, values

KEYS = structs(types(leaf_types(), maps=False), most=5)


@st.composite
def keys(draw):
    schema = draw(KEYS)
    return schema, draw(st.lists(values(schema, False), max_size=6))


@given(keys())
def test_the_hash_is_that_of_one_value_at_a_time(case):
    schema, rows = case
    made = arrow(schema, rows)
    columns = [made.field(index) for index in range(len(schema["fields"]))]
    expected = [hashed(schema, each, 42) for each in rows]
    assert hash_of(columns, MURMUR3).tolist() == expected
    assert hash_of([made], MURMUR3).tolist() == expected


@given(keys(), st.integers(0, 6), st.integers(0, 6))
def test_a_slice_has_the_hashes_of_its_rows(case, start, count):
    schema, rows = case
    part = arrow(schema, rows).slice(start, count)
    assert hash_of([part], MURMUR3).tolist() == [
        hashed(schema, r, 42) for r in rows[start : start + count]
    ]


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan, np.uint64(0xFFF8000000000001).view(float)])
def test_zeros_of_both_signs_and_all_that_is_no_number_are_one_key_each(value):
    same = 0.0 if value == 0 else math.nan
    for kind, name in ((np.float32, "float"), (np.float64, "double")):
        assert hash_of([pa.array(np.array([value], kind))], MURMUR3).tolist() == [
            hashed(name, same, 42)
        ]


def test_the_hash_is_spark_s():
    # SELECT hash('Spark', array(123), 2), as the documentation of Spark SQL has it.
    columns = [
        pa.array(["Spark"]),
        pa.array([[123]], pa.list_(pa.int32())),
        pa.array([2], pa.int32()),
    ]
    assert hash_of(columns, MURMUR3).view(np.int32).tolist() == [-1321691492]


@given(st.lists(st.text(), min_size=1), st.integers(1, 300))
def test_a_partition_is_the_hash_modulo_their_number_and_never_negative(texts, partitions):
    found = partition_of([pa.array(texts)], partitions)
    signed = [hashed("string", each, 42) for each in texts]
    expected = [(each - 2**32 if each >= 2**31 else each) % partitions for each in signed]
    assert found.tolist() == expected


def test_a_map_is_no_key():
    with pytest.raises(UnsupportedError, match="map"):
        hash_of([pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))], MURMUR3)


def test_a_struct_with_a_map_is_no_key():
    kind = pa.struct([("m", pa.map_(pa.string(), pa.int64()))])
    with pytest.raises(UnsupportedError, match="map"):
        partition_of([pa.array([{"m": []}], kind)], 2)


def test_no_keys_have_no_partitions():
    schema = schema_of(field("a", {"type": "array", "elementType": "long", "containsNull": True}))
    assert partition_of([arrow(schema, [])], 5).tolist() == []
