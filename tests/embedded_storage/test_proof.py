"""What a process leaves that ends at the worst moment is never taken for a version.

A killed process leaves what it wrote to the operating system: a copy of the files at that moment.
"""

import shutil
from dataclasses import replace
from itertools import chain, combinations

import pytest
from support.partitions import COUNTS, batch, batches, contents

from statemigrate.embedded.database import META, Database
from statemigrate.embedded.manifest import CountedBase, PartitionState
from statemigrate.embedded.partition import Partition, opened
from statemigrate.embedded.restore import INTEGRITY_MARKER, STATE, proven_state
from statemigrate.errors import CheckpointError, CorruptFileError

STORES = [replace(COUNTS, name=name) for name in ("a", "b", "c")]
NAMES = (META, *(store.name for store in STORES))
SUBSETS = list(chain.from_iterable(combinations(NAMES, size) for size in range(len(NAMES) + 1)))


def written(place, state, version):
    """An open batch that moves a key from store to store, and sets one in each."""
    partition = Partition(place, state, version)
    for number, store in enumerate(STORES):
        target = partition.target(store, "value")
        target.put(b"last", {"n": version})
        target.delete(b"moving")
        if number == version % len(STORES):
            target.put(b"moving", {"n": version})
    return partition


def everything(place, state):
    return {store.name: contents(place, state, family=store) for store in STORES}


def expected(version):
    return {
        store.name: {b"last": version, **({b"moving": version} if version % 3 == number else {})}
        for number, store in enumerate(STORES)
    }


@pytest.mark.parametrize("flushed", SUBSETS, ids="+".join)
@pytest.mark.parametrize("snapshot", [False, True])
def test_no_order_of_flushes_makes_a_killed_commit_a_version(
    place, tmp_path, monkeypatch, flushed, snapshot
):
    before = written(place, PartitionState(), 0).commit(snapshot=snapshot)
    killed = tmp_path / "killed"
    end = Database.close

    def killed_in_between(self, *_):
        for name in flushed:
            self.column(name).flush()
        shutil.copytree(self.path, killed)
        end(self)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "flush", lambda _: None, raising=False)
        patch.setattr(Database, "close", killed_in_between)
        after = written(place, before, 1).commit(snapshot=False)
    for state, version in ((before, 0), (after, 1)):
        here = replace(place, working=tmp_path / f"copy-{version}")
        shutil.copytree(killed, here.working)
        assert everything(here, state) == expected(version)


def test_a_copy_is_unproven_from_before_the_first_write_until_the_last(place):
    state = batches(place, [{b"a": 1}])[0]
    assert proven_state(place.working) == state.state
    with opened(place, state, 1) as partition:
        assert not (place.working / INTEGRITY_MARKER).exists()
        partition.target(COUNTS, "value").put(b"a", {"n": 2})
        after = partition.commit(snapshot=True)
    assert proven_state(place.working) == after.state


def test_a_proof_is_nothing_beside_other_files(place):
    """As after a loss of power that brought a removed proof back."""
    state = batches(place, [{b"a": 1}])[0]
    proof = (place.working / INTEGRITY_MARKER).read_bytes()
    database = Database(place.working)
    database.column(COUNTS.name).put(b"a", COUNTS.format.encode({"n": 99}))
    database.close()
    (place.working / INTEGRITY_MARKER).write_bytes(proof)
    assert proven_state(place.working) is None
    assert contents(place, state) == {b"a": 1}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"sha256":"","body":{}}'])
def test_a_damaged_proof_is_none(place, damage):
    state = batches(place, [{b"a": 1}])[0]
    (place.working / INTEGRITY_MARKER).write_bytes(damage)
    assert proven_state(place.working) is None
    assert contents(place, state) == {b"a": 1}


@pytest.mark.parametrize("kind", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_copy_that_lost_or_changed_a_file_is_made_anew(place, kind):
    state = batches(place, [{b"a": 1}])[0]
    for path in place.working.glob(kind):
        path.write_bytes(path.read_bytes()[:-1])
    assert proven_state(place.working) is None
    assert contents(place, state) == {b"a": 1}
    state = batch(place, state, 1, {b"a": 2})
    next(place.working.glob(kind)).unlink()
    assert contents(place, state) == {b"a": 2}


def test_a_process_killed_while_it_removes_a_copy_leaves_nothing_that_counts(place, monkeypatch):
    first, second = batches(place, [{b"a": 1}, {b"a": 2}])

    def killed(path):
        assert not (path / INTEGRITY_MARKER).exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            Partition(place, first, 1)
    assert contents(place, second) == {b"a": 2}


def test_a_copy_that_cannot_be_removed_is_not_built_upon(place, monkeypatch):
    first, _ = batches(place, [{b"a": 1}, {b"b": 2}])

    def fails(path, **_):
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fails)
        with pytest.raises(CheckpointError, match="Operation not permitted"):
            Partition(place, first, 1)
    assert contents(place, first) == {b"a": 1}


def test_a_snapshot_that_holds_another_state_than_it_is_said_to_is_refused(place):
    first, second = batches(place, [{b"a": 1}, {b"a": 2}], snapshots=[0, 1])
    shutil.rmtree(place.working)
    listing = replace(first.snapshot, state=second.state)
    wrong = replace(second, snapshot=listing, base=CountedBase(listing))
    with pytest.raises(CorruptFileError, match="another state"):
        contents(place, wrong)
    database = Database(place.working)
    assert database.column(META).get(STATE) == first.state.encode()
    database.close()
