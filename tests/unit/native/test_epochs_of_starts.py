"""A start on Spark's own state begins an epoch; whoever is overtaken is told by whom."""

import json
import logging

import pytest
from support.object_store import MemoryFiles
from support.offset_logs import put

from statemigrate import fenced
from statemigrate.checkpoint.epochs import Fence, claim, epoch_name, newest_epoch
from statemigrate.errors import CheckpointError, CheckpointInUseError, UnsupportedError
from statemigrate.files import LocalFiles
from statemigrate.files.protocol import no_create
from statemigrate.native import deployment_check as seen_module
from statemigrate.native.deployment_check import (
    RECORD,
    ObservedCheckpoint,
    RunOnVariables,
    StoreRecord,
    begin_run,
    read_record,
)

QUERY = "11111111-2222-3333-4444-555555555555"


class WithoutConditions(MemoryFiles):
    """A store on which of two writers neither is told."""

    def create(self, name, data):
        raise no_create(self.location, "a connector of old")


def started(files, *, committed=2, begun=3):
    found = {"metadata": json.dumps({"id": QUERY}).encode()}
    found |= {f"commits/{n}": b"v1\n{}" for n in range(committed + 1)}
    found |= {f"offsets/{n}": b"v1\n{}" for n in range(begun + 1)}
    for name, data in found.items():
        files.replace(name, data)
    return files


def start(files, driver="this one", batch=2):
    seen = ObservedCheckpoint(
        files.location, QUERY, batch, f"of {driver}", lent=files, driver=driver
    )
    records = {"totals": StoreRecord(("totals",), batch)}
    begin_run(seen, RunOnVariables(seen, records, lambda name: (name,)))
    return seen


def test_a_start_begins_an_epoch_and_leaves_its_record():
    files = started(MemoryFiles())
    start(files)
    assert newest_epoch(files) == 1
    assert read_record(files)["totals"].batch == 2
    Fence(files, "this one").require_own()
    start(files, "another")
    with pytest.raises(CheckpointInUseError, match="is in use") as raised:
        Fence(files, "this one").require_newest()
    assert raised.value.found.startswith("epoch 2 of process ")


def test_all_starts_of_a_driver_are_its_own_and_a_driver_that_has_not_begun_is_not_refused():
    files = MemoryFiles()
    fence = Fence(files, "this one", after=0)
    for driver in ("another", "this one", "this one"):
        claim(files, driver)
        fence.require_newest()
    fence.require_own(begins=True)
    assert newest_epoch(files) == 3
    Fence(files, "nobody").require_newest()
    Fence(files, "nobody").require_own(begins=True)
    assert newest_epoch(files) == 4
    for _ in range(2):
        with pytest.raises(CheckpointInUseError):
            fence.require_newest()
    # Until it is started again, which comes after the other one.
    claim(files, "this one")
    fence.require_newest()


@pytest.mark.parametrize("data", [b"torn", b"\xff\x00"], ids=["no JSON", "no text"])
def test_an_epoch_that_cannot_be_read_is_another_s(data):
    files = MemoryFiles()
    mine = claim(files, "this one", leaves={"note": "mine"})
    mine.leave()
    files.put(epoch_name(2), data)
    with pytest.raises(CheckpointInUseError) as raised:
        Fence(files, "this one").require_newest()
    assert raised.value.found == "epoch 2 of another writer"
    with pytest.raises(CheckpointInUseError):
        mine.leave()
    assert files.get("note") == b"mine"


def test_a_checkpoint_that_was_removed_and_begun_anew_is_not_the_driver_s_own():
    files = MemoryFiles()
    fence = Fence(files, "this one", after=0)
    fence.require_own(begins=True)
    files.delete([epoch_name(1)])
    claim(files, "another")
    with pytest.raises(CheckpointError, match="another one than this query has started on"):
        fence.require_own()


def test_where_drivers_cannot_be_told_apart_a_query_starts_with_a_warning_and_no_sink_is_fenced(
    caplog,
):
    files = started(WithoutConditions())
    with caplog.at_level(logging.WARNING, "statemigrate.native"):
        start(files)
    assert "by Spark alone" in caplog.text
    assert read_record(files)["totals"].batch == 2
    assert RECORD in files.content
    sink = fenced(lambda *_: pytest.fail("called"), checkpoint=files)
    with pytest.raises(UnsupportedError, match="only if it is not there"):
        sink("rows", 0)


@pytest.mark.parametrize(("committed", "begun"), [(2, 4), (3, 3), (4, 4)])
def test_a_query_that_goes_on_beside_a_start_is_no_wrong_checkpoint(committed, begun):
    """`checkpoint=` is right, and nobody is to correct it."""
    files = started(MemoryFiles(), committed=committed, begun=begun)
    with pytest.raises(CheckpointInUseError) as raised:
        start(files)
    assert f"batch {committed} committed and {begun} begun" in raised.value.found
    assert newest_epoch(files) == 0


def test_tasks_that_see_the_checkpoint_compare_once_a_batch(tmp_path, monkeypatch):
    put(tmp_path / "metadata", json.dumps({"id": QUERY}))
    files = LocalFiles(tmp_path)
    seen = ObservedCheckpoint(str(tmp_path), QUERY, -1, driver="this one")
    monkeypatch.setattr(seen_module, "running", lambda: (QUERY, 7))
    # A function's driver has not begun an epoch before its first batch is written.
    seen.compare_in_task()
    claim(files, "this one")
    seen.compare_in_task()
    claim(files, "another")
    with pytest.raises(CheckpointInUseError):
        seen.compare_in_task()
