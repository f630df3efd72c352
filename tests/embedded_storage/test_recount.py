"""A snapshot stands for other files only once it was read back and its records counted."""

import shutil
from dataclasses import replace

import pytest
from support.partitions import COUNTS, as_first_release, batch, batches, contents

from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import CountedBase, Manifest, PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.retention import remove_old_versions
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CheckpointError

TEN = {b"%d" % number: number for number in range(10)}


def from_base(state):
    return PartitionState(state.state, state.base.snapshot, state.base.changelogs)


def test_a_snapshot_says_how_many_records_each_family_has_in_its_files(place):
    state = batches(place, [TEN, {b"1": 0, b"x": 1}], snapshots=[1])[-1]
    assert state.snapshot.records == {"counts": 11}
    assert state.base == CountedBase(state.snapshot)


@pytest.mark.parametrize("wrong", ["one too many", "one lost"])
def test_a_wrong_working_copy_never_becomes_a_snapshot(place, wrong):
    first = batch(place, PartitionState(), 0, TEN)
    partition = Partition(place, first, 1)
    partition.target(COUNTS, "value").put(b"x", {"n": 1})
    # Past the changelog: what no durable file says.
    column = partition._database.column(COUNTS.name)
    if wrong == "one lost":
        column.delete(b"3")
    else:
        column.put(b"y", COUNTS.format.encode({"n": 1}))
    del column
    with pytest.raises(CheckpointError, match="does not hold what the files") as raised:
        partition.commit(snapshot=True)
    assert "counts: 11 records" in raised.value.expected
    assert raised.value.data["families"] == ["counts"]
    partition.abandon()
    assert contents(place, first) == TEN
    again = batch(place, first, 1, {b"x": 1}, snapshot=True)
    assert contents(place, again) == {**TEN, b"x": 1}


def test_few_writes_on_a_large_state_do_not_read_all_of_it_and_keep_what_restores_it(place):
    first = batch(place, PartitionState(), 0, TEN, snapshot=True)
    second = batch(place, first, 1, {b"0": -1}, snapshot=True)
    third = batch(place, second, 2, {b"1": -1})
    assert second.snapshot.records is None
    assert second.base.snapshot == first.snapshot
    assert third.base.written == 2
    for state in (third, from_base(third)):
        shutil.rmtree(place.working)
        assert contents(place, state) == {**TEN, b"0": -1, b"1": -1}
    fourth = batch(place, third, 3, dict.fromkeys(TEN, 0), snapshot=True)
    assert fourth.base == CountedBase(fourth.snapshot)


def test_every_sixtyfourth_changelog_at_the_latest_a_snapshot_is_read_back(place):
    state = batch(place, PartitionState(), 0, {b"%d" % n: n for n in range(1000)}, snapshot=True)
    bases = set()
    for version in range(1, 130):
        state = batch(place, state, version, {b"0": version}, snapshot=version % 8 == 0)
        bases.add(state.base.snapshot.file.name[:12])
    assert bases == {"000000000000", "000000000064", "000000000128"}


@pytest.fixture
def layout(tmp_path):
    return Layout.of(tmp_path / "checkpoint")


def published(layout, version, state):
    publish_manifest(layout, Manifest(version, {}, (state,), {}, {}))
    return state


def test_retention_keeps_what_restores_a_version_without_an_uncounted_snapshot(layout, tmp_path):
    place = PartitionPaths(0, layout.partition(0), tmp_path / "working")
    state = published(layout, 0, batch(place, PartitionState(), 0, TEN, snapshot=True))
    for version in range(1, 5):
        state = batch(place, state, version, {b"new": version}, snapshot=True)
        published(layout, version, state)
    remove_old_versions(layout, 4, retain=1)
    for each in (state, from_base(state)):
        shutil.rmtree(place.working)
        assert contents(place, each) == {**TEN, b"new": 4}


def test_what_the_first_release_stored_is_replaced_once_it_was_counted(layout, tmp_path):
    place = PartitionPaths(0, layout.partition(0), tmp_path / "working")
    old = batches(place, [TEN, {b"x": 1}], snapshots=[1])[-1]
    before = as_first_release(old)
    assert not before.base.is_counted
    assert contents(place, before) == {**TEN, b"x": 1}
    # Also where nothing changes any more.
    after = batch(place, before, 2, {}, snapshot=True)
    assert after.snapshot.records == {"counts": 11}
    shutil.rmtree(place.working)
    assert contents(place, replace(after, changelogs=())) == {**TEN, b"x": 1}
