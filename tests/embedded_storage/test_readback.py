"""Durable files are read back while a query runs: which versions can be restored is known."""

import json
import logging
import shutil

import pytest
from support.histories import lives
from support.histories.commands import Command, to_json
from support.histories.lives import Deployment
from support.object_store import MemoryFiles
from support.partitions import batch, contents

from statemigrate.embedded import batches as driver
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import PARTITIONS, Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.partition import PartitionPaths
from statemigrate.embedded.read_back import Readback, Restorable
from statemigrate.embedded.versions import publish_manifest

TEN = {b"%d" % number: number for number in range(10)}


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)


@pytest.fixture(params=["disk", "store"])
def versions(request, tmp_path):
    """A layout with six versions of one partition, each from the one before."""
    remote = MemoryFiles() if request.param == "store" else None
    layout = Layout(tmp_path / "here", remote)
    place = PartitionPaths(0, layout.partition(0), tmp_path / "working")
    mirror, state, manifests = Mirror(layout), PartitionState(), []
    for version in range(6):
        before = state
        state = batch(place, state, version, TEN if not version else {b"0": version},
                      snapshot=version == 3)  # fmt: skip
        (state,) = mirror.hand_over(version, [before], [state])
        manifests.append(Manifest(version, {}, (state,), {}, {}))
        publish_manifest(layout, manifests[-1])
    return layout, manifests


def stored(layout, change, *names):
    """Change files of the checkpoint itself, wherever that is."""
    for name in names:
        if layout.remote is None:
            change(layout.checkpoint / name)
        else:
            path = layout.checkpoint / "aside"
            path.write_bytes(layout.files.get(name))
            change(path)
            layout.files.delete([name])
            if path.exists():
                layout.files.put(name, path)
                path.unlink()


def name_of(changelog):
    if changelog.pack is not None:
        return f"{PARTITIONS}/{changelog.pack.name}"
    return f"{PARTITIONS}/0/{changelog.file.name}"


def test_what_is_whole_is_known_to_be(versions):
    layout, _ = versions
    readback = Readback(layout)
    readback.begin()
    readback.read_all()
    assert readback.restorable == Restorable(kept=6, restorable=6, damaged=0)


@pytest.mark.parametrize("change", [flip, lambda path: path.unlink()], ids=["altered", "missing"])
def test_each_version_that_a_damaged_file_takes_away_is_known(versions, change):
    layout, manifests = versions
    # Versions 1 and 2 need it; from 3 on there is a snapshot, and what that is compared with.
    stored(layout, change, name_of(manifests[1].partitions[0].changelogs[-1]))
    readback = Readback(layout)
    readback.begin()
    readback.read_all()
    assert readback.restorable == Restorable(kept=6, restorable=4, damaged=1)
    assert [readback.is_whole(each.version) for each in manifests] == [1, 0, 0, 1, 1, 1]


def test_content_of_a_snapshot_is_read_back_too(versions):
    layout, manifests = versions
    (entry, *_) = [e for e in layout.files.list(f"{PARTITIONS}/0/files") if e.kind == "file"]
    stored(layout, flip, entry.name)
    readback = Readback(layout)
    readback.begin()
    readback.read_all()
    assert readback.lost_of(manifests[5]) == {0: frozenset({entry.base_name})}


def test_a_file_a_batch_is_read_until_all_are_and_then_over_again(versions):
    layout, manifests = versions
    readback = Readback(layout)
    readback.committed(manifests[5])
    for _ in range(3):
        readback.read(1_000)
    assert readback.restorable.damaged == 0
    stored(layout, flip, name_of(manifests[5].partitions[0].changelogs[-1]))
    for _ in range(3):
        readback.read(1_000)
    assert readback.restorable.damaged == 1


STORES = ("notes",)
DEPLOYED = Deployment(STORES, "base", snapshot_every=100, retain=10, backfill=False)


@pytest.fixture
def running(tmp_path, monkeypatch):
    """A query whose batches are to come, and what each of them says of itself."""
    for folder in ("checkpoint", "working", "input", "output"):
        (tmp_path / folder).mkdir()
    told = []
    progress = driver.batch_progress
    monkeypatch.setattr(
        driver, "batch_progress", lambda *given: told.append(progress(*given)) or told[-1]
    )
    return tmp_path, told


def feed(place, rows):
    number = len(list((place / "input").iterdir()))
    (place / "input" / str(number)).write_text(json.dumps(to_json(rows)))


def test_a_file_that_is_altered_under_a_running_query_is_found_and_the_next_version_is_whole(
    running, caplog
):
    place, _ = running
    feed(place, {key: [Command("notes", "put", (key,))] for key in range(9)})
    lives.run(str(place), DEPLOYED.to_json())
    layout = Layout.of(place / "checkpoint")
    changelog = require_committed(layout).partitions[0].changelogs[0]
    flip(changelog.file.within(layout.partition(0)))
    # Two batches without a row: the first one finds it, the second one does without.
    feed(place, {})
    feed(place, {})
    with caplog.at_level(logging.WARNING, "statemigrate.embedded"):
        lives.run(str(place), DEPLOYED.to_json())
    assert [changelog.file.name in each for each in caplog.messages].count(True) >= 1
    state = require_committed(layout).partitions[0]
    assert changelog.file.name not in [each.file.name for each in state.chain_changelogs]
    shutil.rmtree(place / "working")
    assert len(lives.look(str(place), str(place / "looked"))["entries"]) == 9


def test_a_file_that_goes_under_a_running_query_is_told_with_what_stands_in(running, caplog):
    place, told = running
    feed(place, {key: [Command("notes", "put", (key,))] for key in range(9)})
    lives.run(str(place), DEPLOYED.to_json())
    layout = Layout.of(place / "checkpoint")
    path = require_committed(layout).partitions[0].changelogs[0].file.within(layout.partition(0))
    path.unlink()
    feed(place, {1: [Command("notes", "put", (7,))]})
    with caplog.at_level(logging.WARNING, "statemigrate.embedded"):
        lives.run(str(place), DEPLOYED.to_json())
    assert told[-1].damages == (f"{path} is missing; the proven working copy has the state",)
    assert any(str(path) in each and "is missing" in each for each in caplog.messages)
    shutil.rmtree(place / "working")
    assert len(lives.look(str(place), str(place / "looked"))["entries"]) == 9


def test_a_remote_snapshot_that_is_lost_is_made_up_for_by_older_versions(tmp_path):
    layout = Layout(tmp_path / "mirror", MemoryFiles())
    place = PartitionPaths(0, layout.partition(0), tmp_path / "working")
    mirror, state = Mirror(layout), PartitionState()
    for version in range(5):
        before = state
        rows = dict.fromkeys(TEN, version)
        state = batch(place, state, version, rows, snapshot=version == 3)
        (state,) = mirror.hand_over(version, [before], [state])
        publish_manifest(layout, Manifest(version, {}, (state,), {}, {}))
    layout.files.delete([f"{PARTITIONS}/0/{state.snapshot.file.name}"])
    # Another machine.
    fresh = Layout(tmp_path / "other", layout.remote)
    found = Mirror(fresh).bring([state])
    there = PartitionPaths(0, fresh.partition(0), tmp_path / "elsewhere")
    assert contents(there, found[0]) == dict.fromkeys(TEN, 4)
