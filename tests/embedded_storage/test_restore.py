"""A working copy is used as far as its proof goes, and no further."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.partitions import COUNTS, batch, batches, contents, files

from statemigrate.deployment import StoredFamily
from statemigrate.embedded.database import META, Database
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, opened
from statemigrate.embedded.restore import STATE, UNCOMMITTED, open_at
from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError
from statemigrate.formats import Struct

FIRST, SECOND, THIRD = {b"a": 1, b"b": 1}, {b"b": 2, b"c": 2}, {b"a": 3}


def kept(place, name):
    """A copy of the working copy as it is now."""
    return shutil.copytree(place.working, place.working.with_name(name))


def put_back(place, copy):
    shutil.rmtree(place.working)
    copy.rename(place.working)


def mark_as_this_very_copy(place):
    """Leave something that only survives if the copy is used and not made anew."""
    (place.working / "mark").touch()


def is_that_very_copy(place):
    return (place.working / "mark").exists()


def test_a_copy_at_the_wanted_state_is_used_as_it_is(place):
    states = batches(place, [FIRST, SECOND])
    mark_as_this_very_copy(place)
    assert contents(place, states[-1]) == {b"a": 1, b"b": 2, b"c": 2}
    assert is_that_very_copy(place)


def test_an_older_copy_replays_what_it_lacks(place):
    first = batches(place, [FIRST])[0]
    older = kept(place, "older")
    second = batch(place, first, 1, SECOND)
    third = batch(place, second, 2, THIRD)
    put_back(place, older)
    mark_as_this_very_copy(place)
    assert contents(place, third) == {b"a": 3, b"b": 2, b"c": 2}
    assert is_that_very_copy(place)


def test_an_older_copy_needs_no_file_from_before_its_own_state(place):
    first = batches(place, [FIRST])[0]
    older = kept(place, "older")
    second = batch(place, first, 1, SECOND)
    put_back(place, older)
    (place.directory / first.changelogs[0].file.name).unlink()
    assert contents(place, second) == {b"a": 1, b"b": 2, b"c": 2}


def test_a_copy_from_before_the_last_snapshot_is_made_anew(place):
    first = batches(place, [FIRST])[0]
    older = kept(place, "older")
    second = batch(place, first, 1, SECOND, snapshot=True)
    put_back(place, older)
    mark_as_this_very_copy(place)
    assert contents(place, second) == {b"a": 1, b"b": 2, b"c": 2}
    assert not is_that_very_copy(place)


def test_a_newer_copy_is_made_anew_when_a_batch_runs_again(place):
    first, second = batches(place, [FIRST, SECOND])
    assert contents(place, first) == FIRST
    again = batch(place, first, 1, {b"z": 9})
    assert contents(place, again) == {**FIRST, b"z": 9}
    assert again.state != second.state


def test_a_copy_with_another_history_of_the_same_length_is_made_anew(place, tmp_path):
    other = replace(place, directory=tmp_path / "other")
    ours = batches(other, [FIRST, SECOND])[-1]
    shutil.rmtree(place.working)
    batches(place, [FIRST, {b"b": 7}])
    assert contents(other, ours) == {b"a": 1, b"b": 2, b"c": 2}


def test_a_batch_that_is_given_up_leaves_no_trace(place):
    states = batches(place, [FIRST])
    before = files(place.directory)

    def fail():
        with opened(place, states[0], 1) as partition:
            partition.target(COUNTS, "value").put(b"a", {"n": 99})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert files(place.directory) == before
    assert contents(place, states[0]) == FIRST


def test_a_block_that_ends_without_commit_releases_the_copy(place):
    states = batches(place, [FIRST])
    with opened(place, states[0], 1) as partition:
        partition.target(COUNTS, "value").put(b"a", {"n": 99})
    database = Database(place.working)
    assert database.column(META).get(STATE) == UNCOMMITTED
    database.close()
    assert contents(place, states[0]) == FIRST


def test_running_a_batch_again_gives_the_same_identity_and_content(place):
    first = batches(place, [FIRST])[0]
    runs = [batch(place, first, 1, SECOND) for _ in range(2)]
    assert runs[0].state == runs[1].state
    assert runs[0].changelogs[1].file.name != runs[1].changelogs[1].file.name
    assert contents(place, runs[0]) == contents(place, runs[1])


def test_two_attempts_of_one_task_at_once_give_the_same_result(place):
    first = batches(place, [FIRST])[0]
    attempts = [Partition(place, first, 1) for _ in range(3)]
    for attempt in attempts:
        attempt.target(COUNTS, "value").put(b"z", {"n": 5})
    states = [attempt.commit(snapshot=number == 1) for number, attempt in enumerate(attempts)]
    assert len({state.state for state in states}) == 1
    for state in states:
        assert contents(place, state) == {**FIRST, b"z": 5}
    assert [path.name for path in place.working.parent.iterdir() if "private" in path.name] == []


def test_an_attempt_does_not_pull_the_copy_from_under_another_one(place):
    """A second attempt, at another state, while the first still works on the shared copy."""
    first, second = batches(place, [FIRST, SECOND])
    working = Partition(place, second, 2)
    zombie = Partition(place, first, 1)
    zombie.target(COUNTS, "value").put(b"zombie", {"n": 1})
    working.target(COUNTS, "value").put(b"z", {"n": 5})
    zombie.commit(snapshot=True)
    after = working.commit(snapshot=True)
    assert contents(place, after) == {b"a": 1, b"b": 2, b"c": 2, b"z": 5}


def test_the_copy_is_held_while_it_is_made_not_only_once_it_is_open(place):
    """Between looking at a copy and replacing it another process must not be able to open it."""
    first = batches(place, [FIRST])[0]
    lock = place.working.with_name(place.working.name + ".lock").open("a+")
    fcntl.flock(lock, fcntl.LOCK_EX)
    before = files(place.working)
    attempt = Partition(place, first, 1)
    attempt.target(COUNTS, "value").put(b"z", {"n": 5})
    after = attempt.commit(snapshot=False)
    assert files(place.working) == before
    lock.close()
    assert contents(place, after) == {**FIRST, b"z": 5}


KILLED = """
import os, signal, sys, time
from pathlib import Path
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.manifest import PartitionState
sys.path.insert(0, sys.argv[2])
from support.partitions import COUNTS, batches
place = PartitionPaths(0, Path(sys.argv[1]) / "durable", Path(sys.argv[1]) / "working")
state = batches(place, [{b"a": 1, b"b": 1}])[0]
written = len(list(place.working.glob("*.sst")))
partition = Partition(place, state, 1)
if sys.argv[3] == "drop":
    partition.drop(COUNTS.name, only_if_empty=False)
else:
    # More than RocksDB keeps in memory: some of it goes to disk before the batch is committed.
    target = partition.target(COUNTS, "value")
    for number in range(60):
        target.put(b"%d" % number + os.urandom(1 << 20), {"n": number})
    deadline = time.monotonic() + 120
    while len(list(place.working.glob("*.sst"))) == written and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(list(place.working.glob("*.sst"))) > written
print(state.changelogs[0].file.name, state.changelogs[0].file.sha256,
      state.changelogs[0].file.size, state.state, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.kill
@pytest.mark.parametrize("after", ["drop", "writes"])
def test_what_a_killed_process_has_on_disk_is_not_taken_for_a_version(place, tmp_path, after):
    from statemigrate.embedded.durable import FileReference
    from statemigrate.embedded.manifest import ChangelogReference

    tests = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), tests, after],
        capture_output=True,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    name, sha256, size, state = run.stdout.decode().split()
    file = FileReference(name, sha256, int(size))
    wanted = PartitionState(state, None, (ChangelogReference(file, state),))
    assert contents(place, wanted) == {b"a": 1, b"b": 1}


def test_an_unreadable_working_copy_is_made_anew(place):
    states = batches(place, [FIRST])
    for path in place.working.glob("MANIFEST-*"):
        path.write_bytes(b"not a manifest")
    assert contents(place, states[0]) == FIRST


def test_a_damaged_block_in_the_working_copy_is_not_taken_for_a_lock(place):
    """RocksDB says "block checksum mismatch", which has the word "lock" in it."""
    big = {number.to_bytes(4, "big"): number for number in range(5000)}
    states = batches(place, [big])
    (table,) = (path for path in place.working.glob("*.sst") if path.stat().st_size > 20_000)
    data = bytearray(table.read_bytes())
    data[100:200] = bytes(100)
    table.write_bytes(data)
    with pytest.raises(CheckpointError, match="block checksum mismatch") as raised:
        contents(place, states[0])
    assert not isinstance(raised.value, CheckpointInUseError)
    # The failed batch has marked the copy; the next attempt starts from the durable files.
    assert contents(place, states[0]) == big


def test_a_missing_changelog_fails_every_time_and_leaves_no_half_restored_copy(place):
    states = batches(place, [FIRST, SECOND, THIRD])
    shutil.rmtree(place.working)
    missing = place.directory / states[-1].changelogs[1].file.name
    aside = missing.rename(missing.with_name("aside"))
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=missing.name):
            contents(place, states[-1])
    aside.rename(missing)
    assert contents(place, states[-1]) == {b"a": 3, b"b": 2, b"c": 2}


def test_a_store_may_have_any_legal_name(place):
    """Also that of the engine's own column family."""
    for name in ("meta", "STATE", "family"):
        family = StoredFamily(name, "base", Struct("n BIGINT"))
        here = replace(place, working=place.working.with_name(name))
        state = batch(here, PartitionState(), 0, FIRST, family=family)
        assert contents(here, state, family=family) == FIRST
        assert state.entries == {name: None}


def test_a_copy_that_another_process_holds_is_a_named_error(place):
    batches(place, [FIRST])
    held = Database(place.working)
    with pytest.raises(CheckpointInUseError, match="in use") as raised:
        Database(place.working)
    assert raised.value.data["path"] == str(place.working)
    held.close()


def test_restoring_in_a_fresh_place_needs_only_the_durable_files(place, tmp_path):
    states = batches(place, [FIRST, SECOND, THIRD], snapshots=[1])
    moved = replace(
        place,
        directory=Path(shutil.copytree(place.directory, tmp_path / "moved")),
        working=tmp_path / "fresh" / "copy",
    )
    assert contents(moved, states[-1]) == {b"a": 3, b"b": 2, b"c": 2}
    assert os.listdir(moved.working.parent)  # noqa: PTH208
    database = open_at(states[-1], moved.directory, moved.working)
    database.close()
