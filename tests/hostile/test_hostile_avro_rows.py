"""Rows as Avro that somebody else wrote, or that a disk has damaged."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.avro_encoding import AvroPart
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.wrapping import Spans
from statemigrate.errors import CorruptFileError
from tests.support.avro_rows import avro_types, encoded
from tests.support.hostile import bounded, check_whole, fuzzed, refused_or_read
from tests.support.unsafe_rows import field, schema_of, structs, values

SCHEMAS = structs(avro_types(), most=5)
# Arrow sets a gigabyte of addresses aside for itself when it first allocates.
pa.array(["allocated"])


def read(schema, rows):
    part, spans = AvroPart(schema, "a value"), Spans.of(Rows.from_list(rows))
    with bounded():
        refused = refused_or_read(lambda: check_whole(part.decode(spans)))
    assert refused is None or isinstance(refused, CorruptFileError)
    return refused


@st.composite
def damaged(draw):
    schema = draw(SCHEMAS)
    rows = draw(st.lists(values(schema, False), min_size=1, max_size=4))
    whole = [b"\0" + encoded(schema, each) for each in rows]
    at = draw(st.integers(0, len(whole) - 1))
    data = np.frombuffer(whole[at], np.uint8).copy()
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    whole[at] = data.tobytes()[: len(data) - draw(st.sampled_from([0, 0, 1, 2]))]
    return schema, whole


@fuzzed
@given(damaged())
def test_damaged_rows_are_refused_or_read(case):
    read(*case)


@fuzzed
@given(SCHEMAS, st.lists(st.binary(max_size=100).map(lambda data: b"\0" + data), max_size=4))
def test_any_bytes_are_refused_or_read(schema, rows):
    read(schema, rows)


LISTED = {"type": "array", "elementType": "string", "containsNull": False}


@pytest.mark.parametrize(
    ("spark", "data"),
    [
        ("long", b"\2"),
        ("long", b"\2" + b"\x80" * 10 + b"\1"),
        ("long", b"\2\2\2"),
        ("long", b"\4\2"),
        ("integer", b"\2" + b"\xff" * 5 + b"\1"),
        ("string", b"\2\1"),
        ("string", b"\2\x80\x80\x80\x80\x80\x80\x80\x80\x40"),
        ("decimal(3,1)", b"\2\x7f\xff"),
        (LISTED, b"\2\1\2\0"),
        (LISTED, b"\2\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        (LISTED, b"\2\4\2a\2b"),
    ],
)
def test_what_does_not_end_or_fit_is_refused(spark, data):
    assert read(schema_of(field("x", spark)), [b"\0" + data, b"\0" + data]) is not None
