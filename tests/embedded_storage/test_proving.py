"""A snapshot of a large state is read back a piece after each batch, and stands for nothing before.

A state of ten records is large here.
"""

import logging
import shutil

import pytest
from support.partitions import COUNTS, batch, contents

from statemigrate.embedded import snapshot_verification as module
from statemigrate.embedded import snapshot_verification as recount
from statemigrate.embedded.database import Database
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import CountedBase, Manifest, PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.restore import restored
from statemigrate.embedded.snapshot_verification import Proving
from statemigrate.errors import CheckpointError

TEN = {b"%d" % number: number for number in range(10)}


@pytest.fixture(autouse=True)
def large(monkeypatch):
    monkeypatch.setattr(recount, "_SMALL", 0)
    monkeypatch.setattr(module, "_RECORDS_A_STEP", 4)


@pytest.fixture
def layout(tmp_path):
    return Layout.of(tmp_path / "checkpoint")


@pytest.fixture
def place(layout, tmp_path):
    return PartitionPaths(0, layout.partition(0), tmp_path / "working" / "partition-0")


@pytest.fixture
def proving(layout, tmp_path):
    made = Proving(layout, tmp_path / "working")
    yield made
    made.close()


def committed(proving, version, state):
    proving.committed(Manifest(version, {}, (state,), {}, {}))


def copies(place):
    return [path.name for path in place.working.parent.glob("*-copy-*")]


def read_whole(proving):
    steps = 0
    while proving.under_way and not all(e.is_read for e in proving._readings.values()):
        proving.read()
        steps += 1
    return steps


def test_a_snapshot_becomes_the_base_once_all_of_it_was_read(place, proving):
    first = batch(place, PartitionState(), 0, TEN, snapshot=True)
    assert first.snapshot.records is None
    assert first.snapshot.contents == first.contents
    assert first.base.snapshot is None
    committed(proving, 0, first)
    second = batch(place, first, 1, {b"0": 5})
    assert proving.applied([second]) == [second]
    committed(proving, 1, second)
    assert proving.under_way == {0}
    assert copies(place) == []
    assert read_whole(proving) > 3
    third = batch(place, second, 2, {b"x": 7})
    (after,) = proving.applied([third])
    assert after.snapshot.records == {"counts": 10}
    assert after.base.snapshot == after.snapshot
    assert after.base.changelogs == after.changelogs == third.changelogs
    assert after.base.snapshot.step == first.base.changelogs[0]
    assert (after.state, after.contents) == (third.state, third.contents)
    committed(proving, 2, after)
    assert proving.under_way == frozenset()
    assert copies(place) == []
    shutil.rmtree(place.working)
    assert contents(place, after) == {**TEN, b"0": 5, b"x": 7}


def test_until_then_the_files_before_it_make_the_state(place, proving):
    first = batch(place, PartitionState(), 0, TEN, snapshot=True)
    committed(proving, 0, first)
    proving.read()
    for path in (place.directory / "files").iterdir():
        path.unlink()
    shutil.rmtree(place.working)
    assert contents(place, first) == TEN


def test_reading_takes_a_sixtyfourth_after_a_batch_and_goes_on_while_idle(place, proving):
    state = batch(place, PartitionState(), 0, {b"%d" % n: n for n in range(600)}, snapshot=True)
    committed(proving, 0, state)
    assert proving._readings[0].quota == 3
    assert read_whole(proving) <= 64
    proving.close()
    committed(proving, 0, state)
    proving.read(60_000.0)
    assert proving._readings[0].is_read


def wrong_snapshot(place, state, version, change):
    """A state whose newest snapshot was written wrong: all checksums are those of its files."""
    copy_to = Database.copy_to

    def wrong(database, directory):
        copy_to(database, directory)
        copy = Database(directory)
        column = copy.column(COUNTS.name)
        change(column)
        del column
        copy.flush()
        copy.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "copy_to", wrong)
        return batch(place, state, version, {b"x": 1}, snapshot=True)


def flip(column):
    value = bytearray(column.get(b"3"))
    value[-1] ^= 1
    column.put(b"3", bytes(value))


def lose(column):
    column.delete(b"3")


def add(column):
    column.put(b"y", COUNTS.format.encode({"n": 1}))


@pytest.mark.parametrize("change", [flip, lose, add])
def test_what_a_wrong_writer_did_to_a_snapshot_is_found_and_replaced(
    place, proving, caplog, change
):
    first = batch(place, PartitionState(), 0, TEN)
    second = wrong_snapshot(place, first, 1, change)
    committed(proving, 1, second)
    with caplog.at_level(logging.WARNING):
        proving.read(60_000.0)
    assert proving.doubtful == {0}
    assert "records of counts are other ones" in caplog.text
    assert copies(place) == []
    partition = Partition(place, second, 2)
    after = partition.commit(snapshot=False, prove=True)
    assert after.snapshot.records == {"counts": 11}
    assert after.base == CountedBase(after.snapshot)
    shutil.rmtree(place.working)
    assert contents(place, after) == {**TEN, b"x": 1}


@pytest.mark.parametrize("change", [flip, lose, add])
def test_a_restore_does_not_believe_such_a_snapshot(place, change):
    second = wrong_snapshot(place, batch(place, PartitionState(), 0, TEN), 1, change)
    shutil.rmtree(place.working)
    found = restored(second, place.directory, place.working)
    found.database.close()
    (damage,) = found.damages
    assert damage.path.endswith(second.snapshot.file.name)
    assert damage.instead == "the base is used"
    assert contents(place, second) == {**TEN, b"x": 1}


def test_a_restore_without_anything_else_names_the_family(place):
    second = wrong_snapshot(place, batch(place, PartitionState(), 0, TEN), 1, flip)
    for changelog in second.base.changelogs:
        changelog.file.within(place.directory).unlink()
    shutil.rmtree(place.working)
    with pytest.raises(CheckpointError, match=r"does not hold the records .*: counts") as raised:
        restored(second, place.directory, place.working)
    assert raised.value.data["families"] == ["counts"]


def test_a_wrong_working_copy_is_left_for_what_the_files_make(place, proving):
    first = batch(place, PartitionState(), 0, TEN)
    partition = Partition(place, first, 1)
    column = partition._database.column(COUNTS.name)
    flip(column)
    del column
    partition.target(COUNTS, "value").put(b"x", {"n": 1})
    second = partition.commit(snapshot=True)
    committed(proving, 1, second)
    proving.read(60_000.0)
    assert proving.doubtful == {0}
    partition = Partition(place, second, 2)
    with pytest.raises(CheckpointError, match="files that it replaces add up to: counts"):
        partition.commit(snapshot=False, prove=True)
    partition.abandon()
    partition = Partition(place, second, 2)
    assert [each.instead for each in partition.damages] == ["the base is used"]
    after = partition.commit(snapshot=False)
    shutil.rmtree(place.working)
    assert contents(place, after) == {**TEN, b"x": 1}


def test_a_file_that_is_altered_meanwhile_is_doubted_and_stored_anew(place, proving):
    first = batch(place, PartitionState(), 0, TEN, snapshot=True)
    for path in (place.directory / "files").iterdir():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    committed(proving, 0, first)
    proving.read(60_000.0)
    assert proving.doubtful == {0}
    after = Partition(place, first, 1).commit(snapshot=False, prove=True)
    assert after.base == CountedBase(after.snapshot)
    shutil.rmtree(place.working)
    assert contents(place, after) == TEN


def test_a_disk_that_fails_ends_nothing_and_is_tried_again_later(place, proving, monkeypatch):
    first = batch(place, PartitionState(), 0, TEN, snapshot=True)
    committed(proving, 0, first)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "laid_out", full)
        proving.read()
    assert proving.under_way == proving.doubtful == frozenset()
    committed(proving, 1, first)
    assert proving.under_way == frozenset()
    committed(proving, 64, first)
    assert proving.under_way == {0}


def test_a_batch_reads_a_snapshot_itself_where_nobody_does(place, monkeypatch):
    monkeypatch.setattr(recount, "_LONGEST", 8)
    state = batch(place, PartitionState(), 0, TEN, snapshot=True)
    bases = []
    for version in range(1, 12):
        state = batch(place, state, version, {b"0": version}, snapshot=version % 4 == 0)
        bases.append(None if state.base.snapshot is None else state.base.snapshot.file.name[:12])
    assert bases == [None] * 7 + ["000000000008"] * 4
