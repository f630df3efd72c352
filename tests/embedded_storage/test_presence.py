"""A command does not take the remote checkpoint of a query that runs."""

import pytest
from support.object_store import MemoryFiles

from statemigrate.checkpoint.epochs import newest_epoch
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.offline import stopped
from statemigrate.embedded.versions import GONE, SIGN, WriterHeartbeat, claim, publish_manifest
from statemigrate.errors import CheckpointInUseError


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def layout(tmp_path):
    """A checkpoint with a version, on a store whose clock has nothing to do with ours."""
    found = Layout(tmp_path / "mirror", MemoryFiles())
    found.files.store.clock = Clock()
    publish_manifest(found, Manifest(0, {}, (PartitionState(),), {}, {}))
    found.files.put("commits/0", b"v1")
    return found


def take(layout, tmp_path):
    with stopped(layout, working_directory=tmp_path / "working") as query:
        return query.version


def test_while_a_query_runs_it_is_refused_and_the_query_keeps_its_epoch(layout, tmp_path):
    epoch = claim(layout)
    presence = WriterHeartbeat(epoch)
    with pytest.raises(CheckpointInUseError, match="is in use") as raised:
        take(layout, tmp_path)
    assert "epoch 1, process " in raised.value.found
    epoch.require_newest()
    presence.release()
    assert take(layout, tmp_path) == 0
    with pytest.raises(CheckpointInUseError):
        epoch.require_newest()


@pytest.mark.parametrize(("seconds", "taken"), [(0, False), (GONE - 1, False), (GONE, True)])
def test_of_a_killed_query_the_sign_counts_for_two_minutes_of_the_stores(
    layout, tmp_path, seconds, taken
):
    WriterHeartbeat(claim(layout))._ended.set()
    layout.files.store.clock.now += seconds
    if taken:
        assert take(layout, tmp_path) == 0
    else:
        with pytest.raises(CheckpointInUseError):
            take(layout, tmp_path)
        assert newest_epoch(layout.files) == 1


def test_the_sign_of_another_stays(layout):
    first = WriterHeartbeat(claim(layout))
    second = WriterHeartbeat(claim(layout))
    first.release()
    assert layout.files.get(SIGN).startswith(b"epoch 2")
    second.release()
    assert layout.files.find(SIGN) is None


def test_a_sign_that_is_on_its_way_when_the_query_ends_does_not_stay(layout):
    presence = WriterHeartbeat(claim(layout))
    held = []

    def watch(request):
        if request.verb == "replace" and not held:
            held.append(request)
            presence.release()

    layout.files.store.watch = watch
    presence._give()
    assert held
    assert layout.files.find(SIGN) is None


def test_on_a_local_disk_there_is_a_lock_and_no_sign(tmp_path):
    layout = Layout.of(tmp_path / "checkpoint")
    publish_manifest(layout, Manifest(0, {}, (PartitionState(),), {}, {}))
    layout.files.put("commits/0", b"v1")
    assert take(layout, tmp_path) == 0
    assert layout.files.find(SIGN) is None
