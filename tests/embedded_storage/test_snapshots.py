"""Snapshots share what has not changed, and nothing damaged or missing is ever restored."""

import shutil
from dataclasses import replace

import pytest
from support.partitions import COUNTS, batch, batches, contents, files

from statemigrate.embedded.durable import FileReference, publish_document, read_document
from statemigrate.embedded.manifest import PartitionState, SnapshotReference
from statemigrate.embedded.partition import Partition
from statemigrate.embedded.snapshots import snapshot_files, stored_files
from statemigrate.errors import CorruptFileError

MANY = {number.to_bytes(4, "big"): number for number in range(2_000)}
MORE = {number.to_bytes(4, "big"): -number for number in range(2_000, 2_500)}


def listed(place, state):
    """The files of a state's snapshot: name in the database, path of the content."""
    directory = place.directory / "files"
    found = snapshot_files(state.snapshot.file, place.directory)
    listing = place.directory / state.snapshot.file.name
    return {each.name: each.stored.within(directory) if each.stored else listing for each in found}


def test_a_snapshot_stands_for_all_changelogs_before_it(place):
    states = batches(place, [MANY, MORE, {b"k": 1}], snapshots=[1])
    assert states[1].changelogs == ()
    assert states[1].snapshot.state == states[1].state
    assert len(states[2].changelogs) == 1
    shutil.rmtree(place.working)
    for path in place.directory.glob("00000000000[01]-*.changelog"):
        path.unlink()
    assert contents(place, states[2]) == {**MANY, **MORE, b"k": 1}


def test_a_snapshot_holds_what_is_still_in_memory_too(place):
    """The write-ahead log is off: storing a snapshot must flush every family at one moment."""
    partition = Partition(place, PartitionState(), 0)
    other = replace(COUNTS, name="other")
    for family in (COUNTS, other):
        partition.target(family, "value").put(b"k", {"n": 5})
    state = partition.commit(snapshot=True)
    shutil.rmtree(place.working)
    assert contents(place, state) == {b"k": 5}
    assert contents(place, state, family=other) == {b"k": 5}


def test_unchanged_files_are_stored_once(place):
    first, second = batches(place, [MANY, MORE], snapshots=[0, 1])
    before, after = listed(place, first), listed(place, second)
    shared = {name for name in before if name.endswith(".sst")}
    assert shared
    assert shared < set(after)
    for name in shared:
        assert before[name] == after[name]
        assert (place.working / name).stat().st_ino == after[name].stat().st_ino
    # What a snapshot stores anew does not grow with the state.
    new = {path for name, path in after.items() if name.endswith(".sst")} - set(before.values())
    assert sum(path.stat().st_size for path in new) < 40_000


def test_a_batch_without_changes_stores_no_snapshot(place):
    state = batches(place, [MANY], snapshots=[0])[0]
    before = files(place.directory)
    same = Partition(place, state, 1).commit(snapshot=True)
    assert (same.state, same.snapshot) == (state.state, state.snapshot)
    assert files(place.directory) == before


def test_storing_a_snapshot_leaves_no_temporary_file(place):
    batches(place, [MANY], snapshots=[0])
    assert [name for name in files(place.directory) if ".tmp" in name] == []
    left = sorted(path.name for path in place.working.parent.iterdir())
    assert left == ["durable", "working", "working.lock"]


def test_a_restored_copy_and_the_stored_files_do_not_change_each_other(place):
    first = batches(place, [MANY], snapshots=[0])[0]
    stored = {path: path.read_bytes() for path in listed(place, first).values()}
    shutil.rmtree(place.working)
    second = batch(place, first, 1, MORE)
    third = batch(place, second, 2, {b"k": 1}, snapshot=True)
    assert {path: path.read_bytes() for path in stored} == stored
    shutil.rmtree(place.working)
    assert contents(place, first) == MANY
    assert contents(place, third) == {**MANY, **MORE, b"k": 1}


@pytest.mark.parametrize("kind", [".sst", "CURRENT", "MANIFEST", "OPTIONS"])
@pytest.mark.parametrize("how", ["missing", "cut", "bit"])
def test_one_bad_file_of_a_snapshot_fails_the_restore_every_time(place, kind, how):
    state = batches(place, [MANY], snapshots=[0])[0]
    path = next(path for name, path in listed(place, state).items() if kind in name)
    good = path.read_bytes()
    shutil.rmtree(place.working)
    path.unlink()
    if how != "missing":
        path.write_bytes(good[:-1] if how == "cut" else bytes([good[0] ^ 1]) + good[1:])
    for _ in range(2):
        with pytest.raises(CorruptFileError) as raised:
            contents(place, state)
        assert raised.value.data["path"] == str(path)
        assert "statemigrate doctor CHECKPOINT --repair" in raised.value.next_action
    path.write_bytes(good)
    assert contents(place, state) == MANY


@pytest.mark.parametrize("how", ["missing", "bit"])
def test_a_bad_listing_fails_the_restore(place, how):
    state = batches(place, [MANY], snapshots=[0])[0]
    path = place.directory / state.snapshot.file.name
    shutil.rmtree(place.working)
    data = path.read_bytes()
    path.unlink()
    if how == "bit":
        path.write_bytes(data.replace(b'"files"', b'"Files"'))
    with pytest.raises(CorruptFileError, match=path.name):
        contents(place, state)


@pytest.mark.parametrize("field", ["name", "stored"])
def test_a_listing_cannot_lead_out_of_its_directory(place, field):
    state = batches(place, [MANY], snapshots=[0])[0]
    real = snapshot_files(state.snapshot.file, place.directory)
    entries = [each.to_json() for each in real]
    next(each for each in entries if "stored" in each)[field] = "../escaped"
    forged = publish_document(place.directory / "forged.snapshot", {"files": entries})
    shutil.rmtree(place.working)
    wanted = PartitionState(state.state, SnapshotReference(forged, state.state))
    with pytest.raises(CorruptFileError, match="no plain file name"):
        contents(place, wanted)
    assert not (place.working.parent / "escaped").exists()
    assert not place.working.exists()


def test_a_reference_to_a_listing_cannot_lead_out_either(place):
    forged = SnapshotReference(FileReference("../../x", "0" * 64, 0), "state")
    with pytest.raises(CorruptFileError, match="no plain file name"):
        contents(place, PartitionState("state", forged))


@pytest.mark.parametrize("text", ["", "{", "not json"])
def test_a_lost_list_of_hashes_only_costs_hashing_again(place, text):
    state = batches(place, [MANY], snapshots=[0])[0]
    hashes = place.working / "statemigrate-hashes.json"
    known = read_document(hashes)["hashes"]
    assert known
    hashes.write_text(text)
    after = batch(place, state, 1, MORE, snapshot=True)
    assert set(read_document(hashes)["hashes"].values()) > set(known.values())
    shutil.rmtree(place.working)
    assert contents(place, after) == {**MANY, **MORE}


def test_a_list_of_hashes_that_was_altered_is_not_believed(place):
    """Else a snapshot would name, for a file that changed, the content of another one."""
    state = batches(place, [MANY], snapshots=[0])[0]
    hashes = place.working / "statemigrate-hashes.json"
    text = hashes.read_text()
    first = next(iter(read_document(hashes)["hashes"].values()))
    hashes.write_text(text.replace(first, "0" * 64))
    after = batch(place, state, 1, MORE, snapshot=True)
    found = stored_files(after.snapshot.file, place.directory)
    assert "0" * 64 not in {each.sha256 for each in found}
    shutil.rmtree(place.working)
    assert contents(place, after) == {**MANY, **MORE}
