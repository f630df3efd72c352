"""Values of any size: a block of a changelog is bounded in bytes, and so is the memory it takes."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from statemigrate.embedded import changelog
from statemigrate.embedded.changelog import RECORD_BATCH, ChangelogWriter, messages, read_changelog

LARGE = changelog._LARGE


def written(directory, records):
    writer = ChangelogWriter(directory, 1)
    for family, key, value in records:
        writer.add(family, key, value)
    return writer.publish()


def blocks(path):
    """The sizes of a file's blocks, in bytes."""
    with path.open("rb") as file:
        found = messages(file, path.stat().st_size)
        return [len(message.data) for message in found if message.kind == RECORD_BATCH]


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, 10 * LARGE, 100 * LARGE])
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_block_has_no_more_bytes_than_it_may(tmp_path, monkeypatch, size, part):
    monkeypatch.setattr(changelog, "_BYTES_A_BLOCK", 20 * LARGE)
    monkeypatch.setattr(changelog, "_ROWS_A_BLOCK", 20)
    records = [
        ("a", bytes([n]) + os.urandom(size), None) if part == "key"
        else ("b", bytes([n]), os.urandom(size))
        for n in range(100)
    ]  # fmt: skip
    file = written(tmp_path, records)
    path = file.within(tmp_path)
    assert max(blocks(path)) <= 21 * LARGE + size + 4_096
    assert list(read_changelog(path, file)) == records


MANY = """
import json, os, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.partitions import COUNTS
from statemigrate.deployment import StoredFamily
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.families import Span
from statemigrate.formats import Avro

number, size = int(sys.argv[3]), int(sys.argv[4])
place = PartitionPaths(0, Path(sys.argv[1]) / "durable", Path(sys.argv[1]) / "working")
blobs = StoredFamily("blobs", "base", Avro({"type": "record", "name": "Blob", "fields": [
    {"name": "data", "type": "bytes"}]}))


def data_of(key):
    return key * (size // len(key)) + os.urandom(8)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


partition = Partition(place, PartitionState(), 0)
target = partition.target(blobs, "value")
target.put(b"first", {"data": b"first"})
before = peak()
for n in range(number):
    target.put(b"%08d" % n, {"data": data_of(b"%08d" % n)})
state = partition.commit(snapshot=False)
partition = Partition(PartitionPaths(0, place.directory, place.working / "anew"), state, 1)
target = partition.target(blobs, "value")
right = sum(
    target.get(b"%08d" % n)["data"][:-8] == data_of(b"%08d" % n)[:-8] for n in range(number)
)
partition.abandon()
print(json.dumps({"before": before, "peak": peak(), "right": right}))
"""


def megabytes(tmp_path, number, size):
    """What writing, committing, restoring and reading so many values takes beyond the process."""
    tests = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path), tests, str(number), str(size)],
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    found = json.loads(run.stdout)
    assert found["right"] == number
    return found["peak"] - found["before"]


def test_memory_is_bounded_by_a_block_and_not_by_the_batch(tmp_path):
    tracemalloc.start()
    try:
        values = (("f", b"%08d" % n, bytes(150_000)) for n in range(1_000))
        file = written(tmp_path, values)
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
        tracemalloc.reset_peak()
        assert sum(1 for _ in read_changelog(file.within(tmp_path), file)) == 1_000
        assert tracemalloc.get_traced_memory()[1] < 240 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("number", "size", "limit"), [(15_000, 150_000, 1_000), (22, 100_000_000, 3_000)]
)
def test_more_than_two_gibibytes_in_one_batch(tmp_path, number, size, limit):
    # Beside the blocks, RocksDB itself holds some twenty of the largest values.
    assert megabytes(tmp_path, number, size) < limit
