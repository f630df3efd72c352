"""What a partition counts, notes and drops, as the state it commits describes it."""

import errno
import shutil
from dataclasses import replace

import pytest
from support.partitions import COUNTS, batch, contents, files

from statemigrate.embedded.durable import HashingFile
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, opened
from statemigrate.errors import CheckpointError
from statemigrate.families import Span

OTHER = replace(COUNTS, name="counts@r1", revision="r1")
LISTS = replace(COUNTS, name="lists")
THREE = {b"a": 1, b"b": 2, b"c": 3}


def without(place, state, version, *keys):
    """A batch that removes keys from the source `counts`."""
    with opened(place, state, version) as partition:
        partition.target(OTHER, "value")
        source = partition.source(COUNTS, "value")
        for key in keys:
            source.delete(key)
        return partition.commit(snapshot=False)


def test_a_source_is_counted_exactly_from_batch_to_batch(place):
    state = batch(place, PartitionState(), 0, THREE)
    assert state.entries == {"counts": None}
    state = without(place, state, 1)
    assert state.entries == {"counts": 3, "counts@r1": 0}
    state = without(place, state, 2, b"a")
    assert state.entries == {"counts": 2, "counts@r1": 0}
    shutil.rmtree(place.working)
    state = without(place, state, 3, b"b", b"c")
    assert state.entries == {"counts": 0, "counts@r1": 0}


def test_a_batch_that_is_given_up_does_not_count(place):
    state = without(place, batch(place, PartitionState(), 0, THREE), 1)
    partition = Partition(place, state, 2)
    partition.source(COUNTS, "value").delete(b"a")
    partition.abandon()
    assert without(place, state, 2, b"b").entries["counts"] == 2


def test_a_family_that_was_a_target_in_between_is_counted_anew(place):
    state = without(place, batch(place, PartitionState(), 0, THREE), 1, b"a")
    state = batch(place, state, 2, {b"d": 4, b"e": 5})
    assert state.entries["counts"] is None
    assert without(place, state, 3).entries["counts"] == 4


def test_lists_are_counted_by_element(place):
    with opened(place, PartitionState(), 0) as partition:
        target = partition.target(LISTS, "list")
        target.put(b"\x01a\x00\x00", [{"n": 1}, {"n": 2}])
        target.append(b"\x01b\x00\x00", [{"n": 3}])
        state = partition.commit(snapshot=False)
    with opened(place, state, 1) as partition:
        source = partition.source(LISTS, "list")
        assert source.entries == 3
        source.delete(b"\x01a\x00\x00")
        assert not source.is_drained()
        source.delete(b"\x01b\x00\x00")
        assert source.is_drained()
        assert partition.commit(snapshot=False).entries == {"lists": 0}


def test_only_an_empty_family_is_dropped(place):
    state = without(place, batch(place, PartitionState(), 0, THREE), 1, b"a", b"b")
    with opened(place, state, 2) as partition:
        assert partition.drop("counts") is False
        state = partition.commit(snapshot=False)
    assert contents(place, state) == {b"c": 3}
    state = without(place, state, 3, b"c")
    with opened(place, state, 4) as partition:
        assert partition.drop("counts") is True
        state = partition.commit(snapshot=False)
    assert state.entries == {"counts@r1": 0}


def test_a_dropped_family_stays_dropped_however_the_state_is_restored(place, tmp_path):
    state = batch(place, PartitionState(), 0, THREE)
    with opened(place, state, 1) as partition:
        partition.source(COUNTS, "value")
        assert partition.drop("counts", only_if_empty=False)
        state = partition.commit(snapshot=False)
    assert state.entries == {}
    state = batch(place, state, 2, {b"z": 9})
    fresh = replace(place, working=tmp_path / "fresh")
    for copy in (place, fresh):
        assert contents(copy, state) == {b"z": 9}
    # Nothing noted of the dropped family counts for the one that has its name now.
    assert without(place, state, 3).entries["counts"] == 1


def test_dropping_what_is_not_there_changes_nothing(place):
    state = batch(place, PartitionState(), 0, THREE)
    with opened(place, state, 1) as partition:
        assert partition.drop("never")
        assert partition.commit(snapshot=False) == replace(state, entries={"counts": None})


def test_a_batch_without_changes_keeps_the_states_identity_and_files(place):
    state = batch(place, PartitionState(), 0, THREE)
    before = files(place.directory)
    again = batch(place, state, 1, {})
    assert again == state
    assert files(place.directory) == before


def test_the_quarantined_are_kept_by_key_until_they_are_gone(place):
    state = batch(place, PartitionState(), 0, THREE)
    with opened(place, state, 1) as partition:
        partition.source(COUNTS, "value")
        for key in (b"a", b"c"):
            partition.quarantine("counts", key, "cause")
        partition.quarantine("counts", b"a", "another cause")
        partition.set_cursor("counts", b"c")
        state = partition.commit(snapshot=False)
    assert state.quarantined == {"counts": 2}
    state = without(place, state, 2, b"a")
    assert state.quarantined == {"counts": 1}
    with opened(place, state, 3) as partition:
        assert partition.cursor("counts") == b"c"
        partition.retry_quarantined("counts")
        assert partition.cursor("counts") is None
        partition.source(COUNTS, "value")
        assert partition.commit(snapshot=False).quarantined == {}


def test_a_retry_without_anything_quarantined_keeps_the_cursor(place):
    state = batch(place, PartitionState(), 0, THREE)
    with opened(place, state, 1) as partition:
        partition.source(COUNTS, "value")
        partition.set_cursor("counts", b"a")
        partition.retry_quarantined("counts")
        assert partition.cursor("counts") == b"a"


def test_marks_of_one_family_are_not_those_of_one_whose_name_begins_alike(place):
    with opened(place, PartitionState(), 0) as partition:
        partition.target(OTHER, "value")
        partition.quarantine("counts@r1", b"k", "cause")
        partition.set_cursor("counts@r1", b"k")
        partition.target(COUNTS, "value").put(b"k", {"n": 1})
        assert partition.cursor("counts") is None
        assert partition.cursor("counts@r1") == b"k"
        assert partition.commit(snapshot=False).quarantined == {"counts@r1": 1}


def test_what_the_caller_still_holds_does_not_keep_the_copy_open(place):
    """Else every following batch would find it locked and restore a private one."""
    partition = Partition(place, PartitionState(), 0)
    target = partition.target(COUNTS, "value")
    for key, number in THREE.items():
        target.put(key, {"n": number})
    running = target.scan(Span())
    next(running)
    state = partition.commit(snapshot=False)
    following = Partition(place, state, 1)
    used = following.target(COUNTS, "value")
    assert dict(used.scan(Span())) == {key: {"n": number} for key, number in THREE.items()}
    following.abandon()
    assert sorted(path.name for path in place.working.parent.iterdir()) == [
        "durable", "working", "working-proven", "working.lock",
    ]  # fmt: skip
    del running, target


def test_a_full_disk_in_the_middle_of_a_batch_is_a_named_error_and_leaves_nothing(
    place, monkeypatch
):
    state = batch(place, PartitionState(), 0, THREE)
    before = files(place.directory)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def write_many():
        with opened(place, state, 1) as partition:
            target = partition.target(COUNTS, "value")
            for number in range(20_000):
                target.put(b"%d" % number, {"n": number})

    with monkeypatch.context() as patch:
        patch.setattr(HashingFile, "write", full)
        with pytest.raises(CheckpointError, match="No space left on device") as raised:
            write_many()
    assert raised.value.data["path"] == str(place.directory)
    assert files(place.directory) == before
    assert contents(place, state) == THREE
