"""What Spark keeps of state, with something wrong in it: read, or refused by name."""

import io
import json
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.codecs import compressing
from statemigrate.checkpoint.logs.entries import parse_commit, parse_entry
from statemigrate.checkpoint.operators.metadata import parse_operator, parse_properties
from statemigrate.checkpoint.operators.schemas import FamilySchema, parse_schemas, written_v3
from statemigrate.checkpoint.operators.shapes import NoPrefix, PrefixScan, RangeScan
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.changelog import (
    LineageItem,
    SparkChangelogWriter,
    fold,
    read_changelog,
)
from statemigrate.checkpoint.stores.files import read_snapshot
from statemigrate.checkpoint.stores.hdfs_state import SnapshotWriter, read_state_file
from tests.support.hostile import bounded, fuzzed, refused_or_read
from tests.support.mutations import altered, mutated

ENTRY = {"batchWatermarkMs": 0, "batchTimestampMs": 5, "conf": {"a": "b"}}
COMMIT = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": [["a"], ["b"]]}}
STORE = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}
OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "dedupe"},
    "stateStoreInfo": [{**STORE, "stateSchemaFilePaths": ["file:/c/state/0/_stateSchema/a/0_b"]}],
    "operatorPropertiesJson": '{"stateVariables":[]}',
}
SNAPSHOT = {
    "sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": "1-x.sst", "sizeBytes": 3}],
    "numKeys": 1,
    "columnFamilyMapping": {"n": 2},
    "columnFamilyTypeMap": {"n": False},
}
STRUCT = {
    "type": "struct",
    "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}],
}
SCHEMAS = written_v3(
    [
        FamilySchema("a", STRUCT, STRUCT, NoPrefix()),
        FamilySchema("b", STRUCT, STRUCT, PrefixScan(1), STRUCT),
        FamilySchema("$ttl_b", STRUCT, STRUCT, RangeScan((0,))),
    ]
)


def changelog(codec: str) -> bytes:
    sink = io.BytesIO()
    writer = SparkChangelogWriter(sink, codec, 4, [LineageItem(3, "a-b")])
    writer.put(Rows.from_list([b"k", b"l"]), Rows.from_list([b"v", b""]))
    writer.merge(Rows.from_list([b"k"]), Rows.from_list([b"w" * 300]))
    writer.delete(Rows.from_list([b"l"]))
    writer.close()
    return sink.getvalue()


def state_file(codec: str) -> bytes:
    sink = io.BytesIO()
    writer = SnapshotWriter(sink, codec)
    writer.put(Rows.from_list([b"k" * 40, b"l"]), Rows.from_list([b"v" * 500, b""]))
    writer.close()
    return sink.getvalue()


def compressed(data: bytes) -> bytes:
    sink = io.BytesIO()
    out = compressing("zstd", sink)
    out.write(data)
    out.close()
    return sink.getvalue()


def zipped(document: object) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", f"v1\n{json.dumps(document)}")
    return sink.getvalue()


def versioned(version: str, *more: str) -> Callable[[object], bytes]:
    return lambda document: "\n".join([version, json.dumps(document), *more]).encode()


def folded(data: bytes, codec: str) -> object:
    found = read_changelog(io.BytesIO(data), codec, "4_x.changelog")
    return [rows.to_list() for rows in fold(found.changes)]


def operator(data: bytes) -> object:
    entry = parse_operator(data, "0")
    return entry.data, parse_properties(entry, "0")


PLAIN = b"\0\2v2\1\0\0\0\1k\0\0\0\2vw\x10\0\0\0\1k\xff\xff\xff\xff\0"
CASES: dict[str, tuple[st.SearchStrategy[bytes], Callable[[bytes], object]]] = {
    "an entry": (
        mutated(ENTRY).map(versioned("v1", "-")) | altered(versioned("v1", "-")(ENTRY)),
        lambda data: parse_entry(data, "offsets/1").data,
    ),
    "a commit": (
        mutated(COMMIT).map(versioned("v2")) | altered(versioned("v2")(COMMIT)),
        lambda data: parse_commit(data, "commits/1").data,
    ),
    "an operator": (
        mutated(OPERATOR).map(versioned("v2")) | altered(versioned("v2")(OPERATOR)),
        operator,
    ),
    "schemas": (altered(SCHEMAS), lambda data: parse_schemas(data, "0_a")),
    "a snapshot": (
        mutated(SNAPSHOT).map(zipped) | altered(zipped(SNAPSHOT)),
        lambda data: read_snapshot(io.BytesIO(data), "1.zip"),
    ),
    "records": (altered(PLAIN).map(compressed), lambda data: folded(data, "zstd")),
    **{
        f"a changelog in {codec}": (
            altered(changelog(codec)),
            lambda data, codec=codec: folded(data, codec),
        )
        for codec in ("lz4", "lzf", "snappy", "zstd")
    },
    **{
        f"a state file in {codec}": (
            altered(state_file(codec)),
            lambda data, codec=codec: list(read_state_file(io.BytesIO(data), codec, "1.delta")),
        )
        for codec in ("lz4", "lzf", "snappy", "zstd")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_with_something_wrong_is_read_or_refused_by_name(case: str) -> None:
    made, read = CASES[case]

    @fuzzed
    @given(made)
    def run(data: bytes) -> None:
        with bounded():
            refused_or_read(lambda: read(data))

    run()


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
@pytest.mark.parametrize("codec", ["lz4", "lzf", "snappy", "zstd"])
def test_a_length_that_nothing_follows_takes_no_memory(codec, size):
    sink = io.BytesIO()
    out = compressing(codec, sink)
    out.write(size + b"k")
    out.close()
    with bounded():
        refused_or_read(
            lambda: list(read_state_file(io.BytesIO(sink.getvalue()), codec, "1.delta"))
        )


def test_a_block_that_says_it_is_large_takes_no_memory():
    header = b"LZ4Block\x2f" + (2**31 - 1).to_bytes(4, "little") * 2 + bytes(4)
    with bounded():
        refused_or_read(lambda: list(read_state_file(io.BytesIO(header), "lz4", "1.delta")))
    block = b"\xff\xff\xff\xff\x07" + bytes(20)
    data = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + len(block).to_bytes(4) + block
    with bounded():
        refused_or_read(lambda: list(read_state_file(io.BytesIO(data), "snappy", "1.delta")))
