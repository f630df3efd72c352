"""What the native engine keeps in a checkpoint, in an object store with strict rules."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.object_store import Fault, MemoryFiles, ObjectStore
from support.offset_logs import checkpoint, tree

from statemigrate.errors import CheckpointInUseError, StorageError
from statemigrate.files.cached import Remembered
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.chunks import CHUNKS, ChunkFiles, PlanRecord
from statemigrate.native.deployment_check import (
    ObservedCheckpoint,
    StoreRecord,
    read_record,
    write_record,
)

PLAN = PlanRecord("p", keys=2, chunks=2, offset=-1)


@pytest.fixture
def files(tmp_path: Path) -> MemoryFiles:
    """A query's checkpoint in a bucket."""
    return bucket(checkpoint(tmp_path / "c"))


def bucket(root: Path) -> MemoryFiles:
    found = {name: data for name, data in tree(root).items() if data is not None}
    place = f"file:{root}".encode()
    return MemoryFiles.holding(
        {
            name: data.replace(place, b"memory://checkpoint")
            for name, data in found.items()
            if not name.endswith(".crc")
        }
    )


def own(files: MemoryFiles) -> dict[str, bytes]:
    """What is Spark's own."""
    return {name: data for name, data in files.content.items() if "statemigrate" not in name}


def do(command, files):
    return command(files, apply=True, wait=0)


def test_a_query_is_adopted_and_it_is_undone(files: MemoryFiles) -> None:
    before = own(files)
    done = do(adopt, files)
    assert (done.state, done.checkpoint) == ("prepared", "memory://checkpoint")
    changed = {name: before[name] + b"\n-" for name in ("offsets/1", "offsets/2")}
    assert own(files) == before | changed
    assert files.content["statemigrate/adoption/1/offsets/2"] == before["offsets/2"]
    files.put("sources/1/0", b"v1\n{}")
    assert do(undo_adoption, files).state == "undone"
    assert own(files) == before
    assert files.content["statemigrate/adoption/1/sources/1/0"] == b"v1\n{}"


@pytest.mark.parametrize("command", [adopt, undo_adoption])
@pytest.mark.parametrize("done", [False, True])
def test_a_store_that_fails_at_any_request_is_a_named_error_and_is_mended(
    files: MemoryFiles, command, done: bool
) -> None:
    if command is undo_adoption:
        do(adopt, files)
        files.put("sources/1/0", b"v1\n{}")
    before = dict(files.store.objects)
    whole = replace(files, store=ObjectStore(objects=dict(before)))
    do(command, whole)
    requests = len(whole.store.requests)
    assert requests > 20
    for number in range(requests):
        tried = replace(files, store=ObjectStore(objects=dict(before)))
        # The client asks four times, and gives up.
        tried.store.faults = {number + more: Fault(503, done) for more in range(4)}
        with pytest.raises(StorageError):
            do(command, tried)
        if finished(tried) != finished(whole):
            do(command, tried)
        assert own(tried) == own(whole)
        assert finished(tried) == finished(whole)


def finished(files: MemoryFiles) -> list[str]:
    records = (data for name, data in files.content.items() if name.endswith("record.json"))
    return [json.loads(data)["progress"] for data in records]


@pytest.mark.parametrize("status", [409, 503])
def test_one_fault_anywhere_is_not_noticed(files: MemoryFiles, status) -> None:
    before = dict(files.store.objects)
    do(adopt, files)
    for number in range(len(files.store.requests)):
        tried = replace(files, store=ObjectStore(objects=dict(before)))
        tried.store.faults = {number: Fault(status)}
        assert do(adopt, tried).state == "prepared"
        assert own(tried) == own(files)


def test_a_query_that_goes_on_is_seen(files: MemoryFiles, monkeypatch) -> None:
    slept = []

    def goes_on(seconds: float) -> None:
        slept.append(seconds)
        files.put("state/0/1/7.delta", b"x")

    monkeypatch.setattr("statemigrate.native.adoption.time.sleep", goes_on)
    with pytest.raises(CheckpointInUseError, match="memory://checkpoint/state/0/1"):
        adopt(files, apply=True, wait=5)
    assert slept == [5]


def test_chunks_are_planned_taken_and_withdrawn(files: MemoryFiles) -> None:
    chunks = ChunkFiles(files)
    assert not chunks.is_made()
    chunks.create()
    chunks.create()
    assert chunks.is_made()
    assert chunks.written() == set()
    for name in ("p/0.parquet", "p/1.parquet", "p/_SUCCESS"):
        files.put(f"{CHUNKS}/{name}", name.encode())
    chunks.write_plan(PLAN)
    chunks.write_plan(PLAN)
    assert (chunks.plan(), chunks.written()) == (PLAN, {"p/0.parquet", "p/1.parquet"})
    assert chunks.withdraw() == 2
    assert (chunks.plan(), chunks.written(), chunks.is_made()) == (None, set(), True)
    assert chunks.directory.require_query() == "2b9f2f0e-0000-4000-8000-000000000000"


def test_what_was_deployed_is_noted(files: MemoryFiles) -> None:
    assert read_record(files) == {}
    for batch in (2, 3):
        record = {"tally": StoreRecord(("tally",), batch, {"a": "b"})}
        write_record(files, record)
        assert read_record(files) == record


def test_a_look_at_a_checkpoint_asks_once_for_each_file_and_folder(files: MemoryFiles) -> None:
    write_record(files, {"tally": StoreRecord(("tally",), 2, {})})
    files.store.requests.clear()
    look = Remembered(files)
    seen = ObservedCheckpoint.at("memory://checkpoint", look)
    assert (seen.query, seen.batch) == ("2b9f2f0e-0000-4000-8000-000000000000", 2)
    for _ in range(3):
        read_record(look)
        assert ChunkFiles(look).directory.last_commit() == 2
    asked = Counter((each.verb, each.name) for each in files.store.requests)
    assert asked == {
        ("get", "metadata"): 1,
        ("list", "commits"): 1,
        ("get", "statemigrate/deployed.json"): 1,
    }
