"""A changelog that somebody else wrote, together with the checksum that vouches for it."""

import hashlib
import io
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.embedded.changelog import ChangelogWriter, messages, read_changelog
from statemigrate.embedded.durable import FileReference
from statemigrate.errors import CorruptFileError
from tests.support.hostile import bounded, fuzzed, refused_or_read

SCHEMA = pa.schema([("family", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
RECORDS = [("counts", b"key", b"a value"), ("counts", b"other", None), ("", b"old", None)]


def vouched(path: Path, data: bytes) -> FileReference:
    path.write_bytes(data)
    return FileReference(path.name, hashlib.sha256(data).hexdigest(), len(data))


def read(path: Path, data: bytes) -> list[tuple[str, bytes, bytes | None]]:
    reference = vouched(path, data)
    with bounded():
        return list(read_changelog(path, reference))


def stream(block: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, block.schema, options=options) as writer:
        writer.write_batch(block)
    return sink.getvalue().to_pybytes()


def block(families: list[str], keys: list[bytes], values: list[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(families, pa.string()), pa.array(keys, pa.binary()), pa.array(values)],
        schema=SCHEMA,
    )


def with_offsets(*offsets: int) -> bytes:
    """One record whose value has these offsets into seven bytes."""
    genuine = stream(block(["counts"], [b"key"], [b"a value"]))
    altered = genuine.replace(struct.pack("<2i", 0, 7), struct.pack("<2i", *offsets))
    assert altered != genuine
    return altered


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hostile.changelog"


@pytest.mark.parametrize("offsets", [(0, 60_000), (-60_000, 7), (0, 2**31 - 1), (5, 2), (-8, -1)])
def test_offsets_that_lead_out_of_the_block_are_refused(
    path: Path, offsets: tuple[int, int]
) -> None:
    with pytest.raises(CorruptFileError, match="is not a changelog"):
        read(path, with_offsets(*offsets))


def test_a_block_that_unpacks_to_more_than_it_can_is_refused(path: Path) -> None:
    bomb = stream(block(["counts"], [b"key"], [b"\0" * 400_000_000]), "zstd")
    assert len(bomb) < 50_000
    with pytest.raises(CorruptFileError, match="other than LZ4"):
        read(path, bomb)
    stated = stream(block(["counts"], [b"key"], [b"\0" * 100_000]), "lz4")
    altered = stated.replace(struct.pack("<q", 100_000), struct.pack("<q", 400_000_000))
    assert altered != stated
    with pytest.raises(CorruptFileError, match="bytes that state to be 400000000"):
        read(path, altered)


OTHER_BLOCKS: dict[str, Callable[[], bytes]] = {
    "columns in another order": lambda: stream(
        pa.record_batch({"key": [b"k"], "family": ["f"], "value": [b"v"]})
    ),
    "large offsets": lambda: stream(
        pa.record_batch(
            [pa.array(["f"]), pa.array([b"k"]), pa.array([b"v"], pa.large_binary())],
            names=["family", "key", "value"],
        )
    ),
    "a dictionary": lambda: stream(
        pa.record_batch(
            [pa.array(["f"]).dictionary_encode(), pa.array([b"k"]), pa.array([b"v"])],
            names=["family", "key", "value"],
        )
    ),
    "a missing key": lambda: stream(block(["f"], [None], [b"v"])),  # type: ignore[list-item]
    "a missing family": lambda: stream(block([None], [b"k"], [b"v"])),  # type: ignore[list-item]
    "a dropped family that is no text": lambda: stream(block([""], [b"\xff"], [None])),
    "no schema": lambda: stream(block(["f"], [b"k"], [b"v"]))[-8:],
    "nothing": lambda: b"",
    "a second stream behind it": lambda: stream(block(["f"], [b"k"], [b"v"])) * 2,
    "no end": lambda: stream(block(["f"], [b"k"], [b"v"]))[:-8],
}


@pytest.mark.parametrize("make", OTHER_BLOCKS.values(), ids=OTHER_BLOCKS)
def test_a_stream_of_another_make_is_refused(path: Path, make: Callable[[], bytes]) -> None:
    with pytest.raises(CorruptFileError, match="is not a changelog"):
        read(path, make())


@pytest.mark.parametrize("length", [2**40, 2**62, -1])
def test_a_message_that_states_to_be_longer_than_the_file_is_not_believed(
    path: Path, length: int
) -> None:
    data = stream(block(["f"], [b"k"], [b"v"]))
    message = list(messages(io.BytesIO(data), len(data)))[1]
    stated = len(message.data) - message.body
    altered = data.replace(struct.pack("<q", stated), struct.pack("<q", length))
    assert altered != data
    with pytest.raises(CorruptFileError, match="is not a changelog"):
        read(path, altered)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("genuine")
    log = ChangelogWriter(directory, 1)
    for record in RECORDS:
        log.add(*record)
    reference = log.publish()
    assert reference is not None
    return (directory / reference.name).read_bytes()


def test_a_genuine_changelog_is_read(path: Path, genuine: bytes) -> None:
    assert read(path, genuine) == RECORDS


@fuzzed
@given(st.data())
def test_altered_bytes_are_read_as_some_records_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, genuine: bytes, data: st.DataObject
) -> None:
    altered = bytearray(genuine)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(altered) - 4))
        altered[at : at + 4] = data.draw(
            st.sampled_from([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 4, b"\0" * 4])
            | st.binary(min_size=1, max_size=9)
        )
    path = tmp_path_factory.mktemp("altered") / "file"
    reference = vouched(path, bytes(altered))
    found: list[object] = []
    with bounded():
        refused_or_read(lambda: found.extend(read_changelog(path, reference)))
    # A value as long as the file can pack is the most that may come of it.
    assert sum(len(part or b"") for record in found for part in record) < 255 * len(altered)  # type: ignore[attr-defined]
