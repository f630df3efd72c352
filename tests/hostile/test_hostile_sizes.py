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

from statemigrate import StateReader, current, status
from statemigrate.checkpoint.stores.codecs import decompressed
from statemigrate.checkpoint.stores.codecs.lz4 import Writer
from statemigrate.checkpoint.stores.codecs.reading import PIECE
from statemigrate.checkpoint.stores.codecs.xxhash32 import xxhash32
from statemigrate.commands.writing.baseline import baseline
from statemigrate.deployment import StoredStore
from statemigrate.embedded.storage.durable import FileReference
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.versions.manifest import (
    ChangelogReference,
    Manifest,
    Pack,
    PartitionState,
)
from statemigrate.embedded.versions.mirror import Mirror
from statemigrate.embedded.versions.versions import publish_manifest
from statemigrate.errors import CheckpointError, FormatError
from statemigrate.files import parse_json
from statemigrate.formats import Avro, Struct
from statemigrate.formats.struct_format import struct_from_json
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
        lambda: current(place),
        lambda: baseline(place),
        lambda: StateReader(place).get("empty", 1),
    ):
        refused_or_read(ask)
    with pytest.raises(CheckpointError, match="no families"):
        baseline(place)


def lz4_block(content: bytes, level: int, size: int | None = None) -> bytes:
    (checksum,) = xxhash32([content], 0x9747B28C)
    data = pa.Codec("lz4_raw").compress(content, asbytes=True)
    head = struct.pack(
        "<8sBIII", b"LZ4Block", 0x20 | level, len(data), size or len(content), checksum & 0xFFFFFFF
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
