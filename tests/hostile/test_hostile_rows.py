"""Rows of state that somebody else wrote, or that a disk has damaged."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.errors import CorruptFileError
from tests.support.hostile import bounded, check_whole, fuzzed, refused_or_read
from tests.support.unsafe_rows import (
    array,
    field,
    leaf_types,
    row,
    schema_of,
    structs,
    types,
    values,
)

SCHEMAS = structs(types(leaf_types()), most=6)
# Arrow sets a gigabyte of addresses aside for itself when it first allocates.
pa.array(["allocated"])


def read(schema, rows):
    codec = RowCodec(schema)
    with bounded():
        refused = refused_or_read(lambda: check_whole(codec.decode(Rows.from_list(rows))))
    assert refused is None or isinstance(refused, CorruptFileError)
    return refused


@st.composite
def damaged(draw):
    """A schema, and rows of it of which some bytes are others, or which are cut off."""
    schema = draw(SCHEMAS)
    rows = [row(schema, each) for each in draw(st.lists(values(schema, False), min_size=1))]
    whole = np.frombuffer(b"".join(rows), np.uint8).copy()
    for _ in range(draw(st.integers(0, 4))):
        word = draw(st.integers(0, len(whole) // 8 - 1)) * 8
        new = draw(st.binary(min_size=8, max_size=8) | st.integers(-9, 99).map(word_of))
        whole[word : word + 8] = np.frombuffer(new, np.uint8)
    ends = np.cumsum([0, *map(len, rows)])
    cut = draw(st.sampled_from([0, 0, 1, 8, 16]))
    return schema, [whole[start : max(start, end - cut)].tobytes() for start, end in pairwise(ends)]


def word_of(number):
    return number.to_bytes(8, "little", signed=True)


@fuzzed
@given(damaged())
def test_damaged_rows_are_refused_or_read(case):
    read(*case)


@fuzzed
@given(SCHEMAS, st.lists(st.binary(max_size=200), max_size=4))
def test_any_bytes_are_refused_or_read(schema, rows):
    read(schema, rows)


def pointer(place, size):
    return (place << 32 | size).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("place", "size"),
    [(16, 9), (0, 4), (8, 8), (24, 1), (2**31 - 1, 2**31 - 1), (16, 2**31), (2**32 - 16, 8)],
)
@pytest.mark.parametrize("spark", ["string", "decimal(38,2)"])
def test_a_slot_that_points_elsewhere_is_refused(place, size, spark):
    schema = schema_of(field("name", spark))
    data = bytes(8) + pointer(place, size) + b"abcdefgh"
    assert read(schema, [data, data]).data["field"] == "name"


@pytest.mark.parametrize("count", [-1, 2**31, 2**62, 100])
def test_an_array_of_more_elements_than_bytes_is_refused(count):
    listed = {"type": "array", "elementType": "byte", "containsNull": True}
    block = count.to_bytes(8, "little", signed=True) + bytes(16)
    data = bytes(8) + pointer(16, len(block)) + block
    assert read(schema_of(field("tags", listed)), [data]) is not None


def test_parts_that_share_their_bytes_do_not_make_more_of_them():
    """Each of many elements points to all the others: quadratic, if it were believed."""
    texts = {"type": "array", "elementType": "string", "containsNull": True}
    count = 60_000
    header = 8 + (count + 63) // 64 * 8
    elements = np.full(count, header + 8 * count << 32 | 1_000_000, np.int64)
    block = count.to_bytes(8, "little") + bytes(header - 8) + elements.tobytes() + bytes(1_000_000)
    data = bytes(8) + pointer(16, len(block)) + block
    assert read(schema_of(field("tags", texts)), [data]) is not None
    fields = [field(f"f{i}", "string") for i in range(3000)]
    fixed = 3000 * 8 + 47 * 8
    wide = bytes(47 * 8) + pointer(fixed, 1_000_000) * 3000 + bytes(1_000_000)
    assert read(schema_of(*fields), [wide]) is not None


def test_text_that_is_not_utf_8_is_read_as_spark_keeps_it():
    data = bytes(8) + pointer(16, 2) + b"\xff\xfe".ljust(8, b"\0")
    schema = schema_of(field("name", "string"))
    assert read(schema, [data]) is None
    found = RowCodec(schema).decode(Rows.from_list([data])).field("name")
    assert found.cast(pa.binary()).to_pylist() == [b"\xff\xfe"]


def test_a_decimal_with_more_digits_than_its_type_is_refused():
    data = bytes(8) + (1000).to_bytes(8, "little")
    assert read(schema_of(field("price", "decimal(3,1)")), [data]) is not None


def test_a_map_with_keys_without_values_is_refused():
    keyed = {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True}
    for keys, mapped in (([1, 2], [1]), ([1, None], [1, 2])):
        first, second = array("long", keys), array("long", mapped)
        block = len(first).to_bytes(8, "little") + first + second
        data = bytes(8) + pointer(16, len(block)) + block
        assert read(schema_of(field("prices", keyed)), [data]) is not None


@fuzzed
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=8)
        | st.sampled_from(["struct", "array", "map", "long", "string", "void", "decimal(9,9)"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "fields",
                        "name",
                        "nullable",
                        "metadata",
                        "elementType",
                        "containsNull",
                        "keyType",
                        "valueType",
                        "valueContainsNull",
                        "__COLLATIONS",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_refused_or_is_a_schema(document):
    text = json.loads(json.dumps(document))
    refused_or_read(lambda: RowCodec(text))
