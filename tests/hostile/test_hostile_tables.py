"""RocksDB's own tables: what RocksDB writes is read alike, and what is damaged is named."""

import json
import tempfile
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import BlockBasedOptions, ChecksumType, DBCompressionType, Options, Rdict

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores import sorted_tables
from statemigrate.checkpoint.stores.files import (
    SharedFile,
    Snapshot,
    StoreVersion,
    written_snapshot,
)
from statemigrate.checkpoint.stores.rocksdb_state import RocksDBState
from statemigrate.checkpoint.stores.sorted_tables import SortedTable
from statemigrate.errors import UnsupportedError
from statemigrate.files import LocalFiles
from tests.support.hostile import bounded, fuzzed, refused_or_read
from tests.support.mutations import altered

WAYS = {
    "none": DBCompressionType.none(),
    "lz4": DBCompressionType.lz4(),
    "snappy": DBCompressionType.snappy(),
    "zstd": DBCompressionType.zstd(),
    "zlib": DBCompressionType.zlib(),
    "bz2": DBCompressionType.bz2(),
}
KEYS = st.binary(max_size=12) | st.binary(max_size=3).map(lambda each: b"shared-beginning-" + each)
STEPS = st.lists(
    st.dictionaries(KEYS, st.none() | st.binary(max_size=40), max_size=30), min_size=1, max_size=4
)


CHECKSUMS = {
    "crc32c": ChecksumType.crc32c(),
    "xxhash": ChecksumType.xxhash(),
    "xxhash64": ChecksumType.xxhash64(),
    "xxh3": ChecksumType.xxh3(),
}


def store_of(root: Path, steps, compression=None, checksum=None, version=5) -> StoreVersion:
    """A store whose tables RocksDB wrote: one for each step, of which None deletes a key."""
    options = Options(raw_mode=True)
    options.set_compression_type(compression or WAYS["lz4"])
    blocks = BlockBasedOptions()
    blocks.set_format_version(version)
    blocks.set_checksum_type(checksum or CHECKSUMS["xxh3"])
    options.set_block_based_table_factory(blocks)
    options.set_disable_auto_compactions(True)
    database = Rdict(str(root / "database"), options)
    for step in steps:
        for key, value in step.items():
            if value is None:
                database.delete(key)
            else:
                database.put(key, value)
        database.flush()
    database.close()
    shared = []
    folder = root / "state" / "0" / "0"
    (folder / "SSTs").mkdir(parents=True)
    for path in sorted((root / "database").glob("*.sst")):
        path.rename(folder / "SSTs" / path.name)
        size = (folder / "SSTs" / path.name).stat().st_size
        shared.append(SharedFile(f"SSTs/{path.name}", path.name, size))
    (folder / "1.zip").write_bytes(written_snapshot(Snapshot(tuple(shared)), {}))
    return StoreVersion("state/0/0", 1, "state/0/0/1.zip", ())


def left(steps):
    found = {}
    for step in steps:
        found.update(step)
    return {key: value for key, value in found.items() if value is not None}


def read(root: Path, version: StoreVersion, start=b"", stop=None) -> dict[bytes, bytes]:
    state = RocksDBState(LocalFiles(root), version, {})
    found = [
        pair
        for keys, values in state.rows(start, stop)
        for pair in zip(keys.to_list(), values.to_list(), strict=True)
    ]
    assert len({key for key, _ in found}) == len(found)
    return dict(found)


@fuzzed
@given(STEPS, KEYS, KEYS)
def test_what_is_left_of_several_tables_is_what_rocksdb_has(steps, one, other):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        version = store_of(root, steps)
        expected = left(steps)
        assert read(root, version) == expected
        start, stop = sorted((one, other))
        within = {key: value for key, value in expected.items() if start <= key < stop}
        assert read(root, version, start, stop) == within
        state = RocksDBState(LocalFiles(root), version, {})
        keys, values = state.find(Rows.from_list({one, other, *list(expected)[:2]}))
        found = dict(zip(keys.to_list(), values.to_list(), strict=True))
        assert found == {k: expected[k] for k in {one, other, *list(expected)[:2]} & {*expected}}


@pytest.mark.parametrize("way", WAYS)
def test_each_compression_of_blocks_is_read_in_ranges(tmp_path, monkeypatch, way):
    rows = {f"key-{number:06}".encode(): bytes(number % 90) for number in range(20_000)}
    changed = dict.fromkeys(list(rows)[::7], b"changed") | {b"key-000001": None}
    version = store_of(tmp_path, [rows, changed], WAYS[way])
    monkeypatch.setattr("statemigrate.checkpoint.stores.rocksdb_state._IN_RANGE", 20_000)
    assert read(tmp_path, version) == left([rows, changed])


@pytest.mark.parametrize("checksum", CHECKSUMS)
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_each_checksum_and_format_version_is_read(tmp_path, checksum, version):
    rows = {f"key-{number:06}".encode(): bytes(number % 90) for number in range(2_000)}
    stored = store_of(tmp_path, [rows], WAYS["lz4"], CHECKSUMS[checksum], version)
    assert read(tmp_path, stored) == rows


def test_a_newer_format_version_is_named(tmp_path):
    with pytest.raises(UnsupportedError) as error:
        read(tmp_path, store_of(tmp_path, [{b"k": b"v"}], version=6))
    assert error.value.code == "SM-STATE-034"


@pytest.mark.parametrize("size", [0, 24])
def test_rows_in_a_log_are_refused_and_never_left_out(tmp_path, size):
    version = store_of(tmp_path, [{b"a": b"1"}])
    path = tmp_path / version.snapshot
    with ZipFile(path) as packed:
        first, _, text = packed.read("metadata").decode().partition("\n")
    document = json.loads(text)
    log = {"localFileName": "000008.log", "dfsLogFileName": "000008-x.log", "sizeBytes": size}
    document["logFiles"] = [log]
    with ZipFile(path, "w") as packed:
        packed.writestr("metadata", f"{first}\n{json.dumps(document)}")
    if not size:
        assert read(tmp_path, version) == {b"a": b"1"}
        return
    with pytest.raises(UnsupportedError) as caught:
        read(tmp_path, version)
    assert caught.value.code == "SM-CHECKPOINT-036"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    root = tmp_path_factory.mktemp("table")
    rows = {f"key-{number:04}".encode(): b"v" * (number % 50) for number in range(400)}
    store_of(root, [rows])
    (path,) = root.rglob("*.sst")
    return path.read_bytes()


def test_a_byte_that_is_another_is_noticed_wherever_it_is_read(table):
    with_filter = set()
    for place in range(0, len(table), 7):
        data = bytearray(table)
        data[place] ^= 0x10
        try:
            opened = SortedTable(np.frombuffer(bytes(data), np.uint8), "1.sst")
            found = opened.records(opened.index.between())
        except (ValueError, IndexError, UnsupportedError):
            continue
        # Bytes of what is not read, such as the filter: the records are whole.
        with_filter.add(place)
        assert found.changes.keys.to_list() == [f"key-{n:04}".encode() for n in range(400)]
    assert len(with_filter) < len(table) / 14


@fuzzed
@given(st.data())
def test_an_altered_table_is_read_or_refused_by_name(table, tmp_path_factory, data):
    root = tmp_path_factory.mktemp("altered")
    content = data.draw(altered(table))
    folder = root / "state" / "0" / "0"
    (folder / "SSTs").mkdir(parents=True)
    (folder / "SSTs" / "1.sst").write_bytes(content)
    shared = (SharedFile("SSTs/1.sst", "1.sst", len(content)),)
    (folder / "1.zip").write_bytes(written_snapshot(Snapshot(shared), {}))
    version = StoreVersion("state/0/0", 1, "state/0/0/1.zip", ())
    with bounded():
        refused_or_read(lambda: read(root, version))


def block(*records: tuple[int, bytes, bytes]) -> bytes:
    """A block with one restart point; a record has what it shares, its own end of the key, and a
    value."""
    found = b"".join(bytes([shared, len(own), len(v)]) + own + v for shared, own, v in records)
    return found + bytes(4) + (1).to_bytes(4, "little")


TAIL = b"\1" + bytes(7)


@fuzzed
@given(altered(block((0, b"key-1" + TAIL, b"v"), (4, b"2" + TAIL, b"w"))))
def test_records_of_an_altered_block_are_within_it(content):
    # As where somebody has put the right checksum to other bytes.
    with bounded():
        try:
            found = sorted_tables._records([content])
        except (ValueError, IndexError):
            return
        assert len(found.changes.keys) == len(found.numbers)


@pytest.mark.parametrize(
    "content",
    [
        block((0, b"k" * 100 + TAIL, b""), *[(100, TAIL, b"")] * 5_000),
        block((0, b"k" * 120 + TAIL, b""), (127, b"k" + TAIL, b"")),
        block((0, b"k", b"")),
        b"\xff\xff\xff\xff",
        b"",
    ],
    ids=["too many records", "shares too much", "no number", "too many points", "nothing"],
)
def test_a_block_that_rocksdb_does_not_write_is_refused(content):
    with bounded(), pytest.raises(ValueError, match=r"record|key|point|shares|block"):
        sorted_tables._records([content])
