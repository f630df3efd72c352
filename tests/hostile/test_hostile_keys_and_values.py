"""Keys and values of a store that somebody else wrote, or that a disk has damaged."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.operators.shapes import (
    NoPrefix,
    PrefixScan,
    RangeScan,
    TimestampPostfix,
    TimestampPrefix,
)
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.keys import KeyCodec, families_of
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout, summed_deletions
from statemigrate.errors import CorruptFileError
from tests.support.arrow_rows import arrow
from tests.support.hostile import bounded, check_whole, fuzzed, refused_or_read
from tests.support.unsafe_rows import field, schema_of

SCHEMA = schema_of(field("name", "string"), field("n", "integer"), field("at", "long", False))
ROWS = [{"name": "a", "n": 1, "at": -1}, {"name": None, "n": None, "at": 2**40}]
LAYOUTS = [
    RowLayout(rocksdb, avro, checksums, delimiter)
    for rocksdb, avro in ((True, False), (True, True), (False, False))
    for checksums in (False, True)
    for delimiter in (b"", b",")
]
ENCODERS = [NoPrefix(), PrefixScan(1), RangeScan((2, 1)), TimestampPrefix(), TimestampPostfix()]
# Arrow sets a gigabyte of addresses aside for itself when it first allocates.
pa.array(["allocated"])


def read(decode):
    with bounded():
        refused = refused_or_read(decode)
    assert refused is None or isinstance(refused, CorruptFileError)


@st.composite
def damaged(draw, genuine):
    """Genuine bytes of which some are others, or any bytes."""
    if draw(st.booleans()):
        return draw(st.lists(st.binary(max_size=60), max_size=4))
    rows = []
    for each in genuine:
        data = np.frombuffer(each, np.uint8).copy()
        for _ in range(draw(st.integers(0, 3))):
            data[draw(st.integers(0, data.size - 1))] = draw(st.integers(0, 255))
        rows.append(data.tobytes()[: data.size - draw(st.sampled_from([0, 0, 1, 9]))])
    return rows


@pytest.mark.parametrize("encoder", ENCODERS, ids=str)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[4]], ids=["rows", "avro"])
@fuzzed
@given(data=st.data())
def test_damaged_keys_are_refused_or_read(encoder, layout, data):
    codec = KeyCodec(SCHEMA, encoder, layout, family=3)
    keys = data.draw(damaged(codec.encode(arrow(SCHEMA, ROWS)).to_list()))
    read(lambda: check_whole(codec.decode(Rows.from_list(keys))))
    read(lambda: families_of(Rows.from_list(keys)))
    read(lambda: summed_deletions(Rows.from_list(keys)))


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@fuzzed
@given(data=st.data())
def test_damaged_values_are_refused_or_read(layout, is_list, data):
    codec = ValueCodec(SCHEMA, layout, is_list=is_list)
    keys = Rows.from_list([b"key"] * len(ROWS))
    genuine = codec.encode(arrow(SCHEMA, ROWS), keys).to_list()
    if is_list and layout.rocksdb:
        genuine = [layout.delimiter.join([genuine[0]] * 3), genuine[1]]
    values = Rows.from_list(data.draw(damaged(genuine)))
    under = Rows.from_list([b"key"] * len(values))
    read(lambda: check_whole(codec.decode(values, under)[0]))
