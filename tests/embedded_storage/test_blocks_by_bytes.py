"""What the embedded engine gathers of large values is bounded by bytes, and not by their number."""

import tracemalloc
from contextlib import contextmanager
from itertools import islice

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from support.notes import NEW, OLD, family, lineage, note

from statemigrate.budget import Budget, run_chunk
from statemigrate.deployment import (
    Declared,
    DeploymentSettings,
    StoredStore,
    dual_access,
    plan_store,
)
from statemigrate.embedded import changelog
from statemigrate.embedded.changelog import RECORD_BATCH, ChangelogWriter, messages, read_changelog
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition
from statemigrate.embedded.task import Arrivals
from statemigrate.embedded.task_plan import BatchSchema
from statemigrate.errors import StorageError
from statemigrate.families import Span

NUMBER, LARGE = 607, 200_000
"""Together 120 MB, of which a block of 16 MiB has 84."""
OF_ALL = NUMBER * LARGE
KEYS = [b"%08d" % n for n in range(NUMBER)]


@contextmanager
def at_most(limit):
    """Within it Python takes no more memory, in bytes, than ``limit``."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def text(key):
    return key.decode() * (LARGE // len(key))


@pytest.fixture
def state(place):
    """As many large notes, committed at the oldest revision."""
    partition = Partition(place, PartitionState(), 0)
    target = partition.target(family("notes", OLD), "value")
    for key in KEYS:
        target.put(key, note(OLD, text(key)))
    return partition.commit(snapshot=False)


@pytest.fixture
def partition(place, state):
    opened = Partition(place, state, 1)
    yield opened
    opened.abandon()


def test_a_backfill_migrates_no_more_at_once_than_a_block_has_room_for(partition):
    settings = DeploymentSettings(targets={"notes": NEW})
    declared = Declared("notes", "value", family("notes", NEW).format.struct_type(), None, None)
    stored = StoredStore("value", (family("notes", OLD),), {}, None)
    plan = plan_store(declared, lineage(), stored, settings)
    target = partition.target(plan.target, "value")
    source = partition.source(plan.sources[0], "value")
    access = dual_access(plan, target, [source], show_key=lambda key: (key,))
    # Of a block there are the bytes and the values, old and new, and what a changelog has not yet.
    with at_most(OF_ALL * 13 // 10):
        # No time passes, so that nothing but their size makes blocks smaller.
        budget = Budget(10 * NUMBER, 1.0)
        chunk = run_chunk(access, access.sources[0], partition, budget, clock=lambda: 0.0)
    assert (chunk.migrated, chunk.quarantined, chunk.finished) == (NUMBER, 0, True)
    assert target.get(KEYS[-1]) == note(NEW, text(KEYS[-1]), ups=2)


def test_no_more_is_read_ahead_than_a_block_has_room_for_and_all_are_found(partition):
    target = partition.target(family("notes", OLD), "value")
    with at_most(OF_ALL * 2 // 3):
        target.read_ahead(KEYS)
        assert sum(target.get(key)["text"] == text(key) for key in KEYS) == NUMBER
    target.read_ahead([b"none", *KEYS[:5], b"nothing"])
    assert target.get(b"none") is None
    assert target.get(b"nothing") is None


def test_a_scan_decodes_no_more_ahead_than_a_block_has_room_for(partition):
    target = partition.target(family("notes", OLD), "value")
    with at_most(OF_ALL // 2):
        assert sum(value["text"] == text(key) for key, value in target.scan(Span())) == NUMBER
    assert OF_ALL <= target.scanned_bytes < OF_ALL * 1.01


def test_rows_that_arrive_are_taken_apart_in_slices_of_bytes():
    rows = StructType().add("k", "string").add("data", "binary")
    batch = pa.RecordBatch.from_pydict(
        {"k": [key.decode() for key in KEYS], "data": [bytes(LARGE)] * NUMBER}
    )
    schema = BatchSchema(rows, StructType().add("k", "string"), (0,), rows)
    ahead = []
    arrivals = Arrivals(iter([batch]), schema, ahead.append)
    with at_most(OF_ALL // 2):
        for key, _, found in islice(arrivals.groups(), 3):
            assert [len(row.data) for row in found] == [LARGE], key
    found = {key[0]: len(list(each)) for key, _, each in Arrivals(
        iter([batch]), schema, ahead.append).groups()}  # fmt: skip
    assert found == {key.decode(): 1 for key in KEYS}
    assert max(map(len, ahead)) <= 1 + (16 << 20) // LARGE


def test_values_that_are_written_at_once_are_in_several_blocks_of_a_changelog(tmp_path):
    writer = ChangelogWriter(tmp_path, 1)
    values = [key * (LARGE // len(key)) for key in KEYS]
    writer.add_many("notes", KEYS, values)
    file = writer.publish()
    path = file.within(tmp_path)
    with path.open("rb") as stream:
        kinds = [each.kind for each in messages(stream, path.stat().st_size)]
    assert kinds.count(RECORD_BATCH) > OF_ALL // (40 << 20)
    assert list(read_changelog(path, file)) == [
        ("notes", key, value) for key, value in zip(KEYS, values, strict=True)
    ]


def test_one_value_that_no_block_can_have_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(changelog, "_LARGEST_BLOCK", 10_000)
    monkeypatch.setattr(changelog, "_BYTES_A_BLOCK", 5_000)
    writer = ChangelogWriter(tmp_path, 1)
    with pytest.raises(StorageError, match="a value of notes is larger than one may be") as caught:
        writer.add("notes", b"key", bytes(20_000))
    assert caught.value.data["family"] == "notes"
    assert caught.value.found == "20,003 bytes"
