"""Of a stream's own file source, whose log is long, no more is read than tells whose it is."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from statemigrate.checkpoint.logs.offsets import SourceLog
from statemigrate.errors import CorruptFileError
from statemigrate.files import LocalFiles
from statemigrate.native.chunks import CHUNKS, ChunkFiles
from statemigrate.native.control_source import has_control_source

ENTRIES, COMPACT = 100_000, 99_989


@dataclass(frozen=True)
class Counted(LocalFiles):
    """The files of a folder, and how many bytes of which are read."""

    read: dict[str, int] = field(default_factory=dict)

    def get(self, name, **how):
        data = super().get(name, **how)
        self.read[name] = self.read.get(name, 0) + len(data)
        return data

    def fetch(self, name, target, **how):
        super().fetch(name, target, **how)
        self.read[name] = self.read.get(name, 0) + target.stat().st_size


def line(path, number):
    return json.dumps({"path": path, "timestamp": 1_790_000_000_000, "batchId": number})


def log(root, source, paths, name):
    """A file of a source's log, with a line for each path by its offset."""
    folder = root / "sources" / source
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line(path, number) for number, path in paths.items()]
    (folder / name).write_text("\n".join(["v1", *lines]))


def own(numbers):
    return {
        n: f"file:///in/part-{n:09d}-0a1b2c3d-4e5f-6789-abcd-ef0123456789.json" for n in numbers
    }


def chunk(number):
    return {number: f"file:///ck/{CHUNKS}/plan/{number}.parquet"}


def batch(root, number, *offsets):
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    for folder, text in (
        ("offsets", "\n".join(["v1", metadata, *offsets])),
        ("commits", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / str(number)).write_text(text)


@pytest.fixture
def root(tmp_path):
    """A query that has taken 100,000 files, with the backfill source, which has taken none."""
    log(tmp_path, "0", own(range(COMPACT + 1)), f"{COMPACT}.compact")
    for number in range(COMPACT + 1, ENTRIES):
        log(tmp_path, "0", own([number]), str(number))
    (tmp_path / "sources" / "1").mkdir()
    (tmp_path / CHUNKS).mkdir(parents=True)
    batch(tmp_path, 7, json.dumps({"logOffset": ENTRIES - 1}), "-")
    return tmp_path


def of_source(files, source):
    return sum(size for name, size in files.read.items() if name.startswith(f"sources/{source}/"))


def test_until_a_chunk_was_taken_one_small_file_of_the_long_log_is_read(root):
    files = Counted(root)
    assert SourceLog.read(files, CHUNKS) == SourceLog()
    assert {n for n in files.read if n.startswith("sources")} == {f"sources/0/{ENTRIES - 1}"}
    assert of_source(files, 0) < 200


def test_of_a_compact_file_that_is_alone_the_beginning_is_read(root):
    for path in (root / "sources" / "0").iterdir():
        if not path.name.endswith(".compact"):
            path.unlink()
    files = Counted(root)
    assert SourceLog.read(files, CHUNKS) == SourceLog()
    size = (root / "sources" / "0" / f"{COMPACT}.compact").stat().st_size
    assert size > 10_000_000
    assert of_source(files, 0) <= 64 << 10


def test_chunks_are_known_as_before_once_one_was_taken(root):
    log(root, "1", chunk(0), "0")
    log(root, "1", chunk(1), "1")
    batch(root, 8, json.dumps({"logOffset": ENTRIES - 1}), json.dumps({"logOffset": 0}))
    files = Counted(root)
    found = SourceLog.read(files, CHUNKS)
    assert found == SourceLog({"plan/0.parquet": 0, "plan/1.parquet": 1}, committed=0)
    assert of_source(files, 0) == 0


def test_whether_the_last_source_is_the_control_source_is_told_by_a_line_of_it(root):
    (root / "sources" / "1").rmdir()
    batch(root, 7, "3", json.dumps({"logOffset": ENTRIES - 1}))
    Path(root / "sources" / "0").rename(root / "sources" / "1")
    files = Counted(root)
    chunks = ChunkFiles(files)
    assert not has_control_source(chunks, chunks.offsets())
    assert of_source(files, 1) < 200


def test_a_line_that_is_none_is_an_error_as_before(root):
    (root / "sources" / "0" / str(ENTRIES - 1)).write_text("v1\nnothing of a log")
    with pytest.raises(CorruptFileError) as raised:
        SourceLog.read(Counted(root), CHUNKS)
    assert raised.value.data["path"].endswith(f"sources/0/{ENTRIES - 1}")
