"""Keys and values as a store has them, against the layouts written down once more."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.logs.entries import (
    HDFS_PROVIDER,
    MERGE_OPERATOR,
    PROVIDER,
    ROCKSDB_PROVIDER,
    ROW_CHECKSUM,
)
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
from statemigrate.checkpoint.rows.wrapping import RowLayout
from statemigrate.checkpoint.stores.provider import row_layout
from statemigrate.errors import CorruptFileError, UnsupportedError, ValueMismatchError
from tests.support.unsafe_rows import field, row, schema_of, values

ROCKSDB, HDFS = RowLayout(rocksdb=True), RowLayout(rocksdb=False)
KEY = schema_of(
    field("name", "string"), field("at", "long"), field("price", "double"), field("n", "integer")
)
KEYS = st.lists(values(KEY, False), max_size=6)
KIND = pa.struct(
    [("name", pa.string()), ("at", pa.int64()), ("price", pa.float64()), ("n", pa.int32())]
)
VALUE = schema_of(field("text", "string"))
TEXTS = pa.struct([("text", pa.string())])


def part(*indices):
    fields = [KEY["fields"][index] for index in indices]
    return lambda value: (
        b"\0" + row(schema_of(*fields), {f["name"]: value[f["name"]] for f in fields})
    )


def sized(data):
    return struct.pack("<i", len(data)) + data


def check(codec, keys, expected, array=None):
    made = pa.array(keys, KIND) if array is None else array
    encoded = codec.encode(made)
    assert encoded.to_list() == [expected(key) for key in keys]
    assert codec.decode(encoded).equals(made)


@given(KEYS)
def test_the_hdfs_backed_provider_has_the_row_alone_whatever_the_encoder(keys):
    for encoder in (NoPrefix(), PrefixScan(1)):
        check(KeyCodec(KEY, encoder, HDFS), keys, lambda key: row(KEY, key))


@given(KEYS)
def test_rocksdb_has_a_version_before_the_row(keys):
    check(KeyCodec(KEY, NoPrefix(), ROCKSDB), keys, part(0, 1, 2, 3))


@given(KEYS, st.integers(1, 3), st.integers(0, 300))
def test_a_prefix_is_a_row_of_its_own_behind_the_family_and_its_length(keys, columns, family):
    first, rest = part(*range(columns)), part(*range(columns, 4))
    codec = KeyCodec(KEY, PrefixScan(columns), ROCKSDB, family)
    check(codec, keys, lambda key: struct.pack("<h", family) + sized(first(key)) + rest(key))
    assert set(families_of(codec.encode(pa.array(keys, KIND))).tolist()) <= {family}


@given(KEYS)
def test_the_columns_of_a_range_are_binaries_that_sort_as_they_do(keys):
    codec = KeyCodec(KEY, RangeScan((2, 1)), ROCKSDB)
    binaries = schema_of(field("price", "binary"), field("at", "binary"))

    def ordered(key):
        return {"price": ordered_double(key["price"]), "at": ordered_long(key["at"])}

    check(codec, keys, lambda key: sized(b"\0" + row(binaries, ordered(key))) + part(0, 3)(key))


def ordered_long(value):
    return b"\2" + bytes(8) if value is None else struct.pack(">Bq", value >= 0, value)


def ordered_double(value):
    if value is None:
        return b"\2" + bytes(8)
    bits = struct.unpack(">Q", struct.pack(">d", value))[0]
    negative = bits >> 63
    return struct.pack(">BQ", not negative, bits ^ (2**64 - 1 if negative else 0))


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_bytes_of_a_range_sort_as_its_numbers(prices):
    codec = KeyCodec(schema_of(field("price", "double")), RangeScan((0,)), ROCKSDB)
    found = codec.encode(pa.array([{"price": each} for each in prices])).to_list()
    assert [prices[i] for i in np.argsort(np.array(found, object), kind="stable")] == sorted(prices)


def test_a_range_of_all_columns_is_read_with_and_without_a_row_of_the_others():
    codec = KeyCodec(schema_of(field("at", "long")), RangeScan((0,)), ROCKSDB)
    made = pa.array([{"at": 5}, {"at": None}])
    encoded = codec.encode(made)
    assert codec.decode(encoded).equals(made)
    older = Rows.from_list([each[:-1] for each in encoded.to_list()])
    assert all(each.endswith(b"\0") for each in encoded.to_list())
    assert codec.decode(older).equals(made)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.booleans())
def test_an_event_time_sorts_before_or_behind_the_row(times, first):
    schema = schema_of(field("name", "string"), field("__event_time", "long", False))
    kind = pa.struct([("name", pa.string()), pa.field("__event_time", pa.int64(), nullable=False)])
    keys = [{"name": f"key {time}", "__event_time": time} for time in times]

    def expected(key):
        time = struct.pack(">Q", key["__event_time"] + 2**63)
        rest = b"\0" + row(schema_of(field("name", "string")), {"name": key["name"]})
        return time + rest if first else rest + time

    encoder = TimestampPrefix() if first else TimestampPostfix()
    check(KeyCodec(schema, encoder, ROCKSDB), keys, expected, pa.array(keys, kind))


def test_a_key_without_a_time_is_refused():
    schema = schema_of(field("name", "string"), field("__event_time", "long"))
    kind = pa.struct([("name", pa.string()), ("__event_time", pa.int64())])
    codec = KeyCodec(schema, TimestampPrefix(), ROCKSDB)
    with pytest.raises(ValueMismatchError, match="1 keys have no time"):
        codec.encode(pa.array([{"name": "a", "__event_time": None}], kind))


@pytest.mark.parametrize("spark", ["boolean", "string", "date", "timestamp", "decimal(9,2)"])
def test_a_type_that_spark_does_not_order_keys_by_is_refused(spark):
    with pytest.raises(UnsupportedError, match="cannot order"):
        KeyCodec(schema_of(field("by", spark)), RangeScan((0,)), ROCKSDB)


def test_a_key_of_another_family_is_refused():
    made = pa.array([{"name": "a", "at": 1, "price": None, "n": 1}], KIND)
    encoded = KeyCodec(KEY, NoPrefix(), ROCKSDB, 3).encode(made)
    with pytest.raises(CorruptFileError, match="a key"):
        KeyCodec(KEY, NoPrefix(), ROCKSDB, 4).decode(encoded)


def test_a_record_batch_of_keys_is_encoded_as_structs_are():
    made = pa.array([{"name": "a", "at": 1, "price": 2.0, "n": None}], KIND)
    batch = pa.RecordBatch.from_struct_array(made)
    for encoder in (NoPrefix(), PrefixScan(2), RangeScan((1,))):
        codec = KeyCodec(KEY, encoder, ROCKSDB)
        assert codec.encode(batch).to_list() == codec.encode(made).to_list()


@pytest.mark.parametrize("layout", [ROCKSDB, HDFS, RowLayout(True, checksums=True)])
@given(texts=st.lists(st.text() | st.none(), max_size=5))
def test_values_are_read_as_they_were_written(layout, texts):
    keys = Rows.from_list([b"key %d" % i for i in range(len(texts))])
    made = pa.array([{"text": each} for each in texts], TEXTS)
    codec = ValueCodec(VALUE, layout)
    found, owners = codec.decode(codec.encode(made, keys), keys)
    assert found.equals(made)
    assert owners.tolist() == list(range(len(texts)))


def text_rows(texts):
    return [b"\0" + row(VALUE, {"text": each}) for each in texts]


@given(texts=st.lists(st.text() | st.none(), max_size=5))
def test_an_element_of_a_list_has_the_length_of_row_and_version_before_it(texts):
    keys = Rows.from_list([b"key"] * len(texts))
    made = pa.array([{"text": each} for each in texts], TEXTS)
    encoded = ValueCodec(VALUE, ROCKSDB, is_list=True).encode(made, keys)
    assert encoded.to_list() == [sized(each) for each in text_rows(texts)]


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("delimiter", [b",", b""])
@given(lists=st.lists(st.lists(st.text() | st.none(), max_size=4), max_size=5))
def test_merged_elements_are_told_apart(checksums, delimiter, lists):
    layout = RowLayout(True, checksums=checksums, delimiter=delimiter)
    codec = ValueCodec(VALUE, layout, is_list=True)
    keys = [b"key %d" % i for i in range(len(lists))]
    merged = []
    for key, texts in zip(keys, lists, strict=True):
        made = pa.array([{"text": each} for each in texts], TEXTS)
        merged.append(
            delimiter.join(codec.encode(made, Rows.from_list([key] * len(texts))).to_list())
        )
    found, owners = codec.decode(Rows.from_list(merged), Rows.from_list(keys))
    expected = [(i, {"text": each}) for i, texts in enumerate(lists) for each in texts]
    assert list(zip(owners.tolist(), found.to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("delimiter", [b",", b""])
def test_many_lists_some_of_them_long_are_told_apart(delimiter):
    elements = [sized(each) for each in text_rows(["a", None, "ccc"])]
    counts = [1] * 200 + [0] + [3] * 100 + [5000] + [2] * 100
    merged = [delimiter.join((elements * 2000)[:count]) for count in counts]
    codec = ValueCodec(VALUE, RowLayout(True, delimiter=delimiter), is_list=True)
    keys = Rows.from_list([b"key"] * len(counts))
    found, owners = codec.decode(Rows.from_list(merged), keys)
    assert np.bincount(owners, minlength=len(counts)).tolist() == counts
    texts = ["a", None, "ccc"] * 2000
    assert found.field(0).to_pylist() == [text for count in counts for text in texts[:count]]


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("tail", [b",", b",\1", b",\xff\xff\xff\xff", b",\x05\0\0\0abcd", b";"])
def test_a_list_that_does_not_end_with_an_element_is_refused(count, tail):
    codec = ValueCodec(VALUE, RowLayout(True, delimiter=b","), is_list=True)
    lists = Rows.from_list([sized(text_rows(["a"])[0]) + tail] * count)
    with pytest.raises(CorruptFileError):
        codec.decode(lists, Rows.from_list([b"key"] * count))


def test_a_list_without_its_delimiter_is_refused():
    codec = ValueCodec(VALUE, RowLayout(True, delimiter=b","), is_list=True)
    joined = b"".join(sized(each) for each in text_rows(["a", "b"]))
    with pytest.raises(CorruptFileError):
        codec.decode(Rows.from_list([joined]), Rows.from_list([b"key"]))


@pytest.mark.parametrize(
    "layout", [RowLayout(True, checksums=True), RowLayout(False, checksums=True)]
)
def test_a_value_that_was_altered_is_refused_by_its_checksum(layout):
    codec, keys = ValueCodec(VALUE, layout), Rows.from_list([b"key"])
    data = bytearray(codec.encode(pa.array([{"text": "a"}], TEXTS), keys).row(0))
    data[-8] ^= 1
    with pytest.raises(CorruptFileError, match="checksum"):
        codec.decode(Rows.from_list([bytes(data)]), keys)
    data[-8] ^= 1
    with pytest.raises(CorruptFileError, match="checksum"):
        codec.decode(Rows.from_list([bytes(data)]), Rows.from_list([b"other"]))


def test_an_empty_value_is_no_value_but_of_a_list():
    for layout in (
        ROCKSDB,
        HDFS,
        RowLayout(True, checksums=True),
        RowLayout(False, checksums=True),
    ):
        with pytest.raises(CorruptFileError):
            ValueCodec(VALUE, layout).decode(Rows.from_list([b""]), Rows.from_list([b"key"]))


def test_the_layout_is_that_of_the_pinned_settings():
    assert row_layout({}) == RowLayout(rocksdb=False, delimiter=b",")
    conf = {PROVIDER: ROCKSDB_PROVIDER, MERGE_OPERATOR: "2", ROW_CHECKSUM: "true"}
    assert row_layout(conf) == RowLayout(rocksdb=True, checksums=True, delimiter=b"")
    with pytest.raises(UnsupportedError, match="mergeOperatorVersion=3"):
        row_layout({PROVIDER: HDFS_PROVIDER, MERGE_OPERATOR: "3"})
