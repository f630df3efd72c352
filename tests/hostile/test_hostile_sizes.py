"""What a file claims to be, or becomes, beyond what it is: numbers, blocks and packs."""

import hashlib
import io
import struct
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from statemigrate import open_state, status
from statemigrate.checkpoint.codecs import decompressed
from statemigrate.checkpoint.codecs.byte_reader import PIECE
from statemigrate.checkpoint.codecs.lz4 import Writer, checksum_of
from statemigrate.checkpoint.logs.entries import CODEC
from statemigrate.checkpoint.stores.files import StoreVersion
from statemigrate.checkpoint.stores.hdfs_state import HdfsState
from statemigrate.checkpoint.stores.rocksdb_state import RocksDBState
from statemigrate.commands.new_script import baseline
from statemigrate.deployment import StoredStore
from statemigrate.embedded.durable import FileReference
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import ChangelogReference, Manifest, Pack, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CheckpointError, CorruptFileError, FormatError
from statemigrate.files import parse_json
from statemigrate.formats import Avro, Struct
from statemigrate.formats.stored_formats import struct_from_json
from statemigrate.scripts import ScriptFolder
from tests.support.hostile import bounded, refused_or_read
from tests.support.object_store import MemoryFiles

HALF = "a\ud800b"


def record(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]}


@pytest.mark.parametrize(
    "type_",
    [
        {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 0},
        {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9},
        {"type": "bytes", "logicalType": "decimal", "precision": 1001, "scale": 2},
        {"type": "fixed", "name": "F", "size": 10**12},
        {"type": "fixed", "name": "F", "size": 10**400, "logicalType": "decimal", "precision": 3},
    ],
)
def test_a_type_of_more_than_can_be_is_refused_by_its_field(type_):
    with bounded(), pytest.raises(FormatError) as caught:
        Avro(record(type_))
    assert caught.value.data["field"] == "a"


def test_the_most_digits_are_read_and_written():
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": 1000, "scale": 1000}
    format_ = Avro(record(type_))
    value = {"a": Decimal("0." + "9" * 1000)}
    assert format_.decode(format_.encode(value)) == value


@pytest.mark.parametrize("digits", [10, 5000])
@pytest.mark.parametrize("type_", ["decimal({},2)", "decimal(2,{})", "varchar({})1"])
def test_a_number_of_many_digits_in_a_type_is_refused(type_, digits):
    field = {"name": "a", "type": type_.format("9" * digits), "nullable": True}
    with pytest.raises(FormatError) as caught:
        struct_from_json({"type": "struct", "fields": [field]})
    assert caught.value.data["field"] == "a"


@pytest.mark.parametrize("name", [HALF, "\udc00", "x" * 300 + "\udfff"])
def test_half_a_character_in_a_name_is_refused(name):
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}}]
    inner = {"name": "outer", "type": {"type": "struct", "fields": fields}, "nullable": True}
    for document in (fields, [inner]):
        with pytest.raises(FormatError) as caught:
            struct_from_json({"type": "struct", "fields": document})
        assert ascii(name) == caught.value.found
    with pytest.raises(FormatError):
        Struct(f"`{name}` BIGINT")


@pytest.mark.parametrize("text", ['{"\\ud800": 1}', '[["\\udfff\\ud800"]]', f'"{HALF}"'])
def test_half_a_character_is_no_json(text):
    with pytest.raises(ValueError, match="half a character"):
        parse_json(text)
    assert parse_json('"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_a_store_without_families_is_a_named_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path / "cp")
    key = Struct("id BIGINT").to_json()["schema"]
    stores = {"empty": StoredStore("map", (), {}, key)}
    publish_manifest(layout, Manifest(1, key, (PartitionState(),), stores, {}))
    for name in ("commits/0", "commits/1", "offsets/0", "offsets/1", "metadata"):
        path = layout.checkpoint / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"id":"query"}' if name == "metadata" else "v1\\n{}\\n-")
    ScriptFolder.create("migrations")
    place = str(layout.checkpoint)
    for ask in (
        lambda: status(place),
        lambda: status(place, revisions=True),
        lambda: baseline(place),
        lambda: list(open_state(place)["empty"].entries(1)),
    ):
        refused_or_read(ask)
    with pytest.raises(CheckpointError, match="no families"):
        baseline(place)


def lz4_block(content: bytes, level: int, size: int | None = None) -> bytes:
    checksum = checksum_of(content)
    data = pa.Codec("lz4_raw").compress(content, asbytes=True)
    head = struct.pack(
        "<8sBIII", b"LZ4Block", 0x20 | level, len(data), size or len(content), checksum
    )
    return head + data


END = struct.pack("<8sBIII", b"LZ4Block", 0x10, 0, 0, 0)


def test_what_blocks_of_lz4_become_is_never_there_at_once():
    """Blocks may be larger than those of Spark, and a byte in the file makes up to 255."""
    file = lz4_block(bytes(1 << 18), 8) * 64 + END
    assert len(file) < 70_000
    pieces = [len(piece) for piece in decompressed("lz4", io.BytesIO(file))]
    assert pieces == [PIECE] * 4


def test_small_blocks_of_lz4_still_come_in_pieces():
    sink = io.BytesIO()
    writer = Writer(sink)
    content = bytes(range(256)) * (1 << 16)
    writer.write(content)
    writer.close()
    pieces = list(decompressed("lz4", io.BytesIO(sink.getvalue())))
    assert b"".join(pieces) == content
    assert {len(each) for each in pieces[:-1]} == {PIECE}


def test_a_block_of_lz4_that_cannot_be_so_large_is_refused_before_memory_is_taken():
    file = lz4_block(b"x" * 100, 15, size=1 << 25) + END
    tracemalloc.start()
    try:
        with bounded(), pytest.raises(ValueError, match="33,554,432 bytes made of"):
            list(decompressed("lz4", io.BytesIO(file)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_no_more_of_a_pack_is_read_than_the_manifest_knows(tmp_path: Path, monkeypatch):
    files = MemoryFiles.holding({})
    first, second = b"first changelog", b"second"
    references = [
        FileReference(f"00000000000{n}-x.changelog", hashlib.sha256(data).hexdigest(), len(data))
        for n, data in enumerate((first, second), start=1)
    ]
    pack = "000000000001-x.pack"
    files.put(f"statemigrate/partitions/{pack}", b"----" + first + second + bytes(5 << 20))
    read: list[int] = []
    fetch = MemoryFiles.fetch

    def counted(self: MemoryFiles, name: str, target: Path, **how: Any) -> None:
        fetch(self, name, target, **how)
        read.append(target.stat().st_size)

    monkeypatch.setattr(MemoryFiles, "fetch", counted)
    at = 4
    states = []
    for data, reference in zip((first, second), references, strict=True):
        change = ChangelogReference(reference, "state", Pack(pack, at))
        states.append(PartitionState("state", None, (change,), {}, {}))
        at += len(data)
    layout = Layout(tmp_path / "mirror", files)
    Mirror(layout).bring(states)
    assert read == [4 + len(first) + len(second)]
    found = [references[n].within(layout.partition(n)).read_bytes() for n in (0, 1)]
    assert found == [first, second]


BOUND = 60 << 20
"""Bytes of memory for any of these files."""
LAST = struct.pack(">i", -1)
"""What ends the records of a file of state."""


def peak(read: Any) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def state_of(files: Any, name: str) -> Any:
    version = StoreVersion("state/0/0", 1, None, (name,))
    conf = {CODEC: "lz4"}
    if name.endswith("changelog"):
        (found,) = RocksDBState(files, version, conf).rows()
    else:
        (found,) = HdfsState(files, version, conf).rows()
    return found


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        pytest.param("1.changelog", 12_500, marks=pytest.mark.long),
        ("1.changelog", 2_500),
        ("1.delta", 2_500),
    ],
)
def test_a_file_that_overwrites_few_keys_takes_the_memory_of_what_is_left(name, blocks):
    """3.7 MB become 400 MB, or a fifth of it: of 400,000 values of 32 keys the last are left."""
    put = struct.Struct(">i8si1008s")
    block = b"".join(put.pack(8, struct.pack(">q", key), 1008, b"") for key in range(32))
    last = [(key, b"last %d" % key) for key in range(32)]
    ends = [struct.pack(">iqi", 8, key, len(value)) + value for key, value in last]
    files = MemoryFiles.holding({})
    file = lz4_block(block, 5) * blocks + lz4_block(b"".join(ends) + LAST, 5) + END
    assert len(file) < 5 << 20
    files.put(name, file)
    found: list[Any] = []
    assert peak(lambda: found.extend(state_of(files, name))) < BOUND
    left = zip(*(each.to_list() for each in found), strict=True)
    assert dict(left) == {struct.pack(">q", key): value for key, value in last}


@pytest.mark.long
def test_very_many_small_records_take_no_more_than_large_ones():
    """Each is eight bytes in the file, and its places would be some two hundred in memory."""
    file = lz4_block(bytes(1 << 15), 5) * 192 + lz4_block(LAST, 5) + END
    files = MemoryFiles.holding({})
    files.put("1.delta", file)
    found: list[Any] = []
    assert peak(lambda: found.extend(state_of(files, "1.delta"))) < BOUND
    assert [each.to_list() for each in found] == [[b""], [b""]]


@pytest.mark.parametrize("record", [(2**31 - 1,), (8, 0, 2**31 - 1)])
@pytest.mark.parametrize("name", ["1.changelog", "1.delta"])
def test_a_record_that_claims_more_than_the_file_unpacks_to_is_not_waited_for(name, record):
    """The file does become 100 MB, all of which would belong to the record."""
    start = struct.pack(">i" if len(record) == 1 else ">iqi", *record)
    zeros = lz4_block(bytes(1 << 15), 5)
    files = MemoryFiles.holding({})
    files.put(name, lz4_block(start, 5) + zeros * 3_200 + END)

    def refused() -> None:
        with pytest.raises(CorruptFileError, match=name) as caught:
            state_of(files, name)
        assert "2,147,483,647 bytes in a file of at most" in str(caught.value.found)

    assert peak(refused) < BOUND


@pytest.mark.parametrize(("codec", "empty"), [("snappy", b"\0\0\0\1\0"), ("lzf", b"ZV\0\0\0")])
def test_very_many_blocks_of_nothing_are_passed_over(codec, empty):
    start = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 if codec == "snappy" else b""
    with bounded():
        assert b"".join(decompressed(codec, io.BytesIO(start + empty * 200_000))) == b""
