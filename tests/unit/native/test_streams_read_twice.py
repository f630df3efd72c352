"""A stream that a query reads in two places has two lines in its offset log, and one folder."""

import json

import pytest

from statemigrate.checkpoint.logs.offsets import SourceLog
from statemigrate.files import LocalFiles
from statemigrate.native.chunks import ChunkFiles, chunks_of, paged_in
from statemigrate.native.control_source import control_sources, require_control_source

KAFKA = '{"topic":{"0":%d}}'


def at(number):
    return json.dumps({"logOffset": number})


def batch(root, number, *offsets, committed=True):
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    (root / "offsets").mkdir(parents=True, exist_ok=True)
    (root / "offsets" / str(number)).write_text("\n".join(["v1", metadata, *offsets]))
    if committed:
        (root / "commits").mkdir(exist_ok=True)
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def taken(root, source, operator, *numbers):
    """A backfill source's log with a chunk at each offset."""
    folder = root / "sources" / source
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        path = f"file://{root}/{chunks_of(operator)}/plan/{number}.parquet"
        entry = {"path": path, "timestamp": 1_790_000_000_000, "batchId": number}
        (folder / str(number)).write_text("\n".join(["v1", json.dumps(entry)]))


@pytest.fixture
def checkpoint(tmp_path):
    """Kafka's stream into two operators on pages: lines stream, a, stream, b; folders 0, 1, 2."""
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_text('0v1\n{"topic":{"0":0}}')
    for operator in ("a", "b"):
        ChunkFiles(LocalFiles(tmp_path), operator).create()
    return tmp_path


def test_each_control_source_has_the_line_that_its_log_has_come_to(checkpoint):
    files = LocalFiles(checkpoint)
    taken(checkpoint, "1", "a", 0, 1, 2, 3)
    taken(checkpoint, "2", "b", 0, 1)
    batch(checkpoint, 0, KAFKA % 5, at(3), KAFKA % 5, at(0))
    batch(checkpoint, 1, KAFKA % 9, at(3), KAFKA % 9, at(1), committed=False)
    a, b = (SourceLog.read(files, chunks_of(each)) for each in "ab")
    assert (a.offset, a.committed) == (3, 3)
    # What is being processed is not committed, though the stream's line is further.
    assert (b.offset, b.committed) == (1, 0)
    assert paged_in(files) == ["a", "b"]
    for each in "ab":
        require_control_source(ChunkFiles(files, each))


def test_of_two_lines_that_could_be_its_own_the_one_that_is_behind_counts(checkpoint):
    """The stream is one of files, and has come as far as the backfill source."""
    files = LocalFiles(checkpoint)
    taken(checkpoint, "2", "b", 0, 1)
    batch(checkpoint, 0, at(1), at(-1), at(1), at(0))
    batch(checkpoint, 1, at(1), at(-1), at(1), at(1), committed=False)
    assert SourceLog.read(files, chunks_of("b")).committed == 0


def test_sources_of_two_operators_are_told_by_what_they_have_taken(tmp_path):
    """Without a stream that is read twice: lines and folders stream, a, other stream, b."""
    files = LocalFiles(tmp_path)
    for source in ("0", "2"):
        (tmp_path / "sources" / source).mkdir(parents=True)
    chunks = {each: ChunkFiles(files, each) for each in "ab"}
    for each in chunks.values():
        each.create()
    taken(tmp_path, "1", "a", 0)
    (tmp_path / "sources/3").mkdir()
    batch(tmp_path, 0, at(4), at(0), at(4), "-")
    offsets = chunks["a"].offsets()
    assert control_sources(chunks["a"], offsets) == ("1",)
    # Neither of these has taken anything yet, as far as is noted.
    assert control_sources(chunks["b"], offsets) == ("0", "2", "3")
