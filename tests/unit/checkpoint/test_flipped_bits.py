"""Row checksums: a bit that is another one in a file of state is an error, or changes nothing.

The files have what hides damage best: records that later ones replace or delete, and deletions.
"""

import io
import zipfile

import pytest
from support.arrow_rows import arrow
from support.spark_checkpoints import struct

from statemigrate.checkpoint.codecs import compressing
from statemigrate.checkpoint.logs.entries import (
    CODEC,
    HDFS_PROVIDER,
    MERGE_OPERATOR,
    PROVIDER,
    ROCKSDB_PROVIDER,
    ROW_CHECKSUM,
)
from statemigrate.checkpoint.operators.shapes import NoPrefix
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout, with_deletion_checksums
from statemigrate.checkpoint.stores.changelog import (
    DELETE,
    MERGE,
    PUT,
    deletions,
    end_of_records,
    records,
)
from statemigrate.checkpoint.stores.files import (
    SharedFile,
    Snapshot,
    StoreVersion,
    check_archive,
    read_snapshot,
    written_snapshot,
)
from statemigrate.checkpoint.stores.hdfs_state import HdfsState
from statemigrate.checkpoint.stores.rocksdb_state import RocksDBState
from statemigrate.errors import CorruptFileError, UnsupportedError
from statemigrate.files import LocalFiles

KEY, VALUE = struct(k="integer"), struct(n="long")
FAMILY = 2
HISTORY = [(PUT, 1, 10), (PUT, 2, 20), (DELETE, 1, None), (PUT, 2, 30)]
LEFT = {2: [30]}
LIST = [(PUT, 1, 10), (MERGE, 1, 20), (DELETE, 1, None), (PUT, 1, 30), (MERGE, 1, 40)]
LEFT_OF_LIST = {1: [30, 40]}


class Store:
    """A store whose only file of changes can be replaced."""

    def __init__(self, folder, layout, *, is_list=False, codec="zstd"):
        self.layout, self.codec = layout, codec
        self._files = LocalFiles(folder)
        self.path = folder / ("1.changelog" if layout.rocksdb else "1.delta")
        family = FAMILY if layout.rocksdb else None
        self._keys = KeyCodec(KEY, NoPrefix(), layout, family)
        self._values = ValueCodec(VALUE, layout, is_list=is_list)
        self._conf = {
            PROVIDER: ROCKSDB_PROVIDER if layout.rocksdb else HDFS_PROVIDER,
            CODEC: codec,
            MERGE_OPERATOR: "2",
            ROW_CHECKSUM: str(layout.checksums).lower(),
        }

    def content(self, history):
        """The file's bytes, not compressed."""
        typed = self.layout.rocksdb
        parts = [b"\0\2v2"] if typed else []
        for kind, key, number in history:
            keys = self._keys.encode(arrow(KEY, [{"k": key}]))
            if kind == DELETE:
                keys = with_deletion_checksums(keys) if self.layout.checksums else keys
                rows = deletions(keys, typed=typed)
            else:
                values = self._values.encode(arrow(VALUE, [{"n": number}]), keys)
                rows = records(kind, keys, values, typed=typed)
            parts += rows.to_list()
        return b"".join([*parts, end_of_records(typed=typed)])

    def compressed(self, content):
        sink = io.BytesIO()
        out = compressing(self.codec, sink)
        out.write(content)
        out.close()
        return sink.getvalue()

    def read(self, data):
        """What is in the store with this file, as Python values."""
        self.path.write_bytes(data)
        version = StoreVersion("", 1, None, (self.path.name,))
        if self.layout.rocksdb:
            found = list(RocksDBState(self._files, version, self._conf).rows())
        else:
            found = list(HdfsState(self._files, version, self._conf).rows())
        if not found:
            return {}
        keys, values = (Rows.concat(each) for each in zip(*found, strict=True))
        decoded, owners = self._values.decode(values, keys)
        found_keys = self._keys.decode(keys).field("k").to_pylist()
        left = {}
        for owner, value in zip(owners.tolist(), decoded.to_pylist(), strict=True):
            left.setdefault(found_keys[owner], []).append(value["n"])
        return left


def unnoticed(store, data, expected, *, compress=True):
    """The bits of ``data`` that lead to other values, and to no error, when they are others."""
    found = []
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            left = store.read(store.compressed(bytes(flipped)) if compress else bytes(flipped))
        except (CorruptFileError, UnsupportedError):
            continue
        if left != expected:
            found.append((bit, left))
    return found


ROCKSDB, HDFS = RowLayout(True, checksums=True), RowLayout(False, checksums=True)


@pytest.mark.parametrize("layout", [ROCKSDB, HDFS], ids=["changelog", "delta"])
def test_no_flipped_bit_of_a_record_goes_unnoticed(tmp_path, layout):
    store = Store(tmp_path, layout)
    content = store.content(HISTORY)
    assert store.read(store.compressed(content)) == LEFT
    assert unnoticed(store, content, LEFT) == []


@pytest.mark.long
@pytest.mark.parametrize("layout", [ROCKSDB, HDFS], ids=["changelog", "delta"])
@pytest.mark.parametrize("codec", ["lz4", "lzf", "snappy", "zstd"])
def test_no_flipped_bit_of_a_compressed_file_goes_unnoticed(tmp_path, layout, codec):
    store = Store(tmp_path, layout, codec=codec)
    data = store.compressed(store.content(HISTORY))
    assert unnoticed(store, data, LEFT, compress=False) == []


@pytest.mark.long
def test_of_a_list_only_what_a_record_does_can_change_unnoticed(tmp_path):
    """No checksum covers the byte that says whether a value replaces a list or joins it."""
    store = Store(tmp_path, ROCKSDB, is_list=True)
    content = store.content(LIST)
    assert store.read(store.compressed(content)) == LEFT_OF_LIST
    found = unnoticed(store, content, LEFT_OF_LIST)
    assert {content[bit // 8] for bit, _ in found} <= {PUT, MERGE}
    assert {content[bit // 8] ^ 1 << bit % 8 for bit, _ in found} <= {PUT, MERGE}


@pytest.mark.parametrize("layout", [ROCKSDB, HDFS], ids=["changelog", "delta"])
def test_a_deletion_of_another_key_is_named_with_its_file_and_its_record(tmp_path, layout):
    store = Store(tmp_path, layout)
    content = bytearray(store.content([(PUT, 1, 10), (PUT, 2, 20), (DELETE, 0x77, None)]))
    content[content.rindex(0x77)] = 1
    data = store.compressed(bytes(content))
    with pytest.raises(CorruptFileError, match="deletion of another key") as raised:
        store.read(data)
    error = raised.value
    assert error.data["path"].endswith(store.path.name)
    assert error.data["record"] == 3
    assert error.data["stored"] != error.data["computed"]
    assert bytes([1, 0, 0, 0]).hex() in error.found


def test_a_deletion_too_short_for_a_checksum_is_named(tmp_path):
    store = Store(tmp_path, ROCKSDB)
    short = deletions(Rows.from_list([b"abc"]), typed=True).to_list()
    with pytest.raises(CorruptFileError, match=r"1\.changelog is not a file of state"):
        store.read(store.compressed(b"\0\2v2" + short[0] + end_of_records(typed=True)))


def test_without_checksums_a_deletion_is_its_key(tmp_path):
    store = Store(tmp_path, RowLayout(False))
    assert store.read(store.compressed(store.content(HISTORY))) == LEFT


def test_a_snapshot_with_a_flipped_bit_is_read_or_refused_by_name():
    """Its list of files is compressed, so that a bit may be what the end of a block is found by."""
    whole = written_snapshot(Snapshot((SharedFile("1.sst", "000001.sst", 90),), 3), {})
    assert read_snapshot(io.BytesIO(whole), "1.zip").keys == 3
    refused = 0
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        try:
            read_snapshot(io.BytesIO(bytes(data)), "1.zip")
        except CorruptFileError:
            refused += 1
    assert refused > len(whole)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_snapshot_packed_as_spark_packs_none_is_refused_by_name(method):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("metadata", 'v1\n{"sstFiles":[],"numKeys":0}')
    for read in (read_snapshot, check_archive):
        packed.seek(0)
        with pytest.raises(CorruptFileError, match=f"packed by method {method}"):
            read(packed, "1.zip")
