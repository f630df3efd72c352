"""Durable files that are missing or altered: what is whole is used, and stored anew."""

import shutil

import pytest
from support.partitions import COUNTS, batch, contents

from statemigrate.embedded.chains import chains_of, older_chains
from statemigrate.embedded.database import Database
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths, opened
from statemigrate.embedded.restore import INTEGRITY_MARKER, saved_copy
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.families import Span

TEN = {b"%d" % number: number for number in range(10)}
AFTER = {**TEN, b"0": -1, b"1": -1}


@pytest.fixture
def based(place):
    """A base, a snapshot after it that was not read back, and a changelog after both."""
    first = batch(place, PartitionState(), 0, TEN, snapshot=True)
    second = batch(place, first, 1, {b"0": -1}, snapshot=True)
    state = batch(place, second, 2, {b"1": -1})
    assert [each.kind for each in chains_of(state)] == ["snapshot", "base"]
    return state


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)


DAMAGES = {"missing": lambda path: path.unlink(), "altered": flip}


def read(partition):
    return {k: v["n"] for k, v in partition.target(COUNTS, "value").scan(Span())}


def by_files_alone(place, state):
    shutil.rmtree(place.working, ignore_errors=True)
    shutil.rmtree(saved_copy(place.working), ignore_errors=True)
    return contents(place, state)


@pytest.mark.parametrize("how", DAMAGES)
def test_without_the_newest_listing_the_base_makes_every_value_and_a_whole_snapshot(
    place, based, how
):
    listing = based.snapshot.file.within(place.directory)
    DAMAGES[how](listing)
    shutil.rmtree(place.working)
    with opened(place, based, 3) as partition:
        assert read(partition) == AFTER
        assert [(each.path, each.found, each.instead) for each in partition.damages] == [
            (str(listing), how, "the base is used")
        ]
        after = partition.commit(snapshot=False)
    assert based.snapshot.file not in [each.file for each in after.all_snapshots]
    assert by_files_alone(place, after) == AFTER
    base = PartitionState(after.state, after.base.snapshot, after.base.changelogs)
    assert by_files_alone(place, base) == AFTER


@pytest.mark.parametrize("how", DAMAGES)
def test_without_the_base_the_newest_snapshot_becomes_it(place, based, how):
    DAMAGES[how](based.base.snapshot.file.within(place.directory))
    # Nobody reads the base where the newest snapshot is whole; that it is gone is seen beside it.
    state = batch(place, based, 3, dict.fromkeys(TEN, 7), snapshot=True)
    assert by_files_alone(place, state) == dict.fromkeys(TEN, 7)
    assert based.base.snapshot.file not in [each.file for each in state.all_snapshots]


def test_a_damaged_listing_has_nothing_to_share_and_stops_no_snapshot(place, based):
    flip(based.snapshot.file.within(place.directory))
    state = batch(place, based, 3, {b"2": -1}, snapshot=True)
    assert by_files_alone(place, state) == {**AFTER, b"2": -1}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("position", [0, 1])
def test_a_changelog_that_goes_beside_a_proven_copy_leaves_no_version_that_nothing_restores(
    place, how, position
):
    first = batch(place, PartitionState(), 0, TEN)
    second = batch(place, first, 1, {b"0": -1})
    DAMAGES[how](second.changelogs[position].file.within(place.directory))
    with opened(place, second, 2) as partition:
        partition.target(COUNTS, "value").put(b"1", {"n": -1})
        third = partition.commit(snapshot=False)
    if how == "missing":
        assert [each.found for each in partition.damages] == ["missing"]
        assert by_files_alone(place, third) == AFTER
        return
    # One of the same size is seen when it is read: by the next snapshot at the latest.
    fourth = batch(place, third, 3, {}, snapshot=True)
    assert by_files_alone(place, fourth) == AFTER


def test_a_batch_that_fails_beside_lost_files_leaves_the_proven_copy(place):
    state = batch(place, PartitionState(), 0, TEN)
    state.changelogs[0].file.within(place.directory).unlink()

    def fail():
        with opened(place, state, 1) as partition:
            partition.target(COUNTS, "value").put(b"0", {"n": 99})
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
    with opened(place, state, 1) as partition:
        assert read(partition) == TEN
        assert "from before a batch that failed" in partition.damages[0].instead
        after = partition.commit(snapshot=False)
    assert not saved_copy(place.working).exists()
    assert by_files_alone(place, after) == TEN


def test_what_is_kept_of_a_copy_counts_only_with_its_proof(place):
    state = batch(place, PartitionState(), 0, TEN)
    state.changelogs[0].file.within(place.directory).unlink()
    with pytest.raises(ZeroDivisionError), opened(place, state, 1):
        raise ZeroDivisionError
    flip(saved_copy(place.working) / INTEGRITY_MARKER)
    with pytest.raises(CorruptFileError) as raised:
        Partition(place, state, 1)
    assert raised.value.data["path"] == str(state.changelogs[0].file.within(place.directory))


def test_a_snapshot_of_the_only_copy_is_compared_with_it_value_by_value(place, monkeypatch):
    state = batch(place, PartitionState(), 0, TEN)
    state.changelogs[0].file.within(place.directory).unlink()
    copy_to = Database.copy_to

    def wrong(database, directory):
        copy_to(database, directory)
        copy = Database(directory)
        column = copy.column(COUNTS.name)
        column.put(b"3", COUNTS.format.encode({"n": 4}))
        del column
        copy.flush()
        copy.close()

    monkeypatch.setattr(Database, "copy_to", wrong)
    partition = Partition(place, state, 1)
    with pytest.raises(CheckpointError, match="does not hold what the working copy does"):
        partition.commit(snapshot=False)
    partition.abandon()
    monkeypatch.undo()
    assert contents(place, state) == TEN


@pytest.fixture
def layout(tmp_path):
    return Layout.of(tmp_path / "checkpoint")


def test_an_older_version_and_the_changelogs_since_make_what_the_only_snapshot_does_not(
    layout, tmp_path
):
    place = PartitionPaths(0, layout.partition(0), tmp_path / "working")
    state, values = PartitionState(), {}
    for version in range(6):
        # Each snapshot is read back, so that it alone is named from then on.
        values |= {b"%d" % number: version for number in range(10)}
        state = batch(place, state, version, dict.fromkeys(TEN, version), snapshot=version % 3 == 1)
        publish_manifest(layout, Manifest(version, {}, (state,), {}, {}))
    assert [each.kind for each in chains_of(state)] == ["snapshot"]
    state.snapshot.file.within(place.directory).unlink()
    shutil.rmtree(place.working)
    with pytest.raises(CorruptFileError):
        Partition(place, state, 6)
    with opened(place, state, 6, older=lambda: older_chains(layout, 0, state)) as partition:
        assert read(partition) == values
        assert [each.instead for each in partition.damages] == ["the older version is used"]
        after = partition.commit(snapshot=False)
    assert by_files_alone(place, after) == values


def test_what_another_history_left_is_no_older_version(layout, tmp_path):
    place = PartitionPaths(0, layout.partition(0), tmp_path / "working")
    other = batch(place, PartitionState(), 0, {b"0": 99})
    publish_manifest(layout, Manifest(0, {}, (other,), {}, {}))
    shutil.rmtree(place.working)
    first = batch(place, PartitionState(), 0, TEN)
    state = batch(place, first, 1, {b"1": -1})
    first.changelogs[0].file.within(place.directory).unlink()
    assert list(older_chains(layout, 0, state)) == []
