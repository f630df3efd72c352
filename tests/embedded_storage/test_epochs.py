"""One writer a checkpoint: whoever began an epoch last; all before it are fenced, however late."""

import threading

import pytest
from support.object_store import Fault, MemoryFiles

from statemigrate.checkpoint.epochs import epoch_name, newest_epoch
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.versions import (
    BARRIER,
    claim,
    manifest_name,
    publish_manifest,
    read_manifest,
    retained_versions,
)
from statemigrate.errors import (
    CheckpointError,
    CheckpointInUseError,
    CorruptFileError,
    StorageError,
)


@pytest.fixture(params=["local", "object store"])
def layout(request, tmp_path):
    place = Layout.of(tmp_path / "checkpoint")
    return place if request.param == "local" else Layout(place.checkpoint, MemoryFiles())


@pytest.fixture
def stored(tmp_path):
    """In an object store."""
    return Layout(tmp_path, MemoryFiles())


def manifest(version, epoch, state="s"):
    return Manifest(version, {}, (PartitionState(state),), {}, {}, epoch)


def test_each_start_begins_the_next_epoch(layout):
    assert [claim(layout).number for _ in range(3)] == [1, 2, 3]
    assert newest_epoch(layout.files) == 3


def test_a_writer_of_an_older_epoch_is_told_who_has_the_newer_one(layout):
    first = claim(layout)
    first.require_newest()
    second = claim(layout)
    second.require_newest()
    with pytest.raises(CheckpointInUseError, match="is in use") as raised:
        first.require_newest()
    assert raised.value.found.startswith("epoch 2 of process ")
    assert raised.value.data["path"] == layout.files.location
    with pytest.raises(CheckpointInUseError):
        first.following()
    assert second.following().number == 3


@pytest.mark.parametrize("starts", [0, 1, 4], ids="{} starts".format)
def test_a_checkpoint_begun_anew_or_brought_back_under_a_writer_is_not_its_own(layout, starts):
    """The next epoch's being missing says nothing there."""
    claim(layout)
    before = layout.files.get(epoch_name(1))
    writer = [claim(layout) for _ in range(3)][-1]
    writer.require_own()
    # As by whoever removed it, or brought back a copy that had one epoch, and starts a query.
    layout.files.delete([epoch_name(number) for number in range(1, 5)])
    if starts > 1:
        layout.files.put(epoch_name(1), before)
    others = [claim(layout) for _ in range(starts)]
    with pytest.raises(CheckpointError, match="is another one than this query") as raised:
        writer.require_own()
    assert raised.value.data["path"].endswith(epoch_name(4))
    for each in others[-1:]:
        each.require_own()


def test_of_two_that_start_at_one_moment_one_is_told(layout):
    barrier, found = threading.Barrier(4), []

    def start():
        barrier.wait()
        try:
            found.append(claim(layout).number)
        except CheckpointInUseError:
            found.append(None)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [number for number in found if number is not None]
    assert sorted(won) == list(range(1, len(won) + 1))
    assert newest_epoch(layout.files) == len(won)


@pytest.mark.parametrize("lag", [1, 3, 1000])
def test_a_listing_that_lags_hides_no_epoch(stored, lag):
    stored.files.store.lag = lag
    epochs = [claim(stored) for _ in range(4)]
    assert [each.number for each in epochs] == [1, 2, 3, 4]
    for each in epochs[:-1]:
        with pytest.raises(CheckpointInUseError):
            each.require_newest()
    epochs[-1].require_newest()


@pytest.mark.parametrize("status", [409, 503])
@pytest.mark.parametrize("done", [False, True])
def test_one_failed_request_anywhere_neither_loses_nor_doubles_an_epoch(stored, status, done):
    for number in range(12):
        claim(stored)
        files = MemoryFiles()
        files.store.faults[number] = Fault(status, done)
        place = Layout(stored.checkpoint, files)
        assert [claim(place).number for _ in range(3)] == [1, 2, 3]


def test_a_store_that_stays_away_is_a_named_error(stored):
    stored.files.store.faults.update({number: Fault(503) for number in range(40)})
    with pytest.raises(StorageError):
        claim(stored)


def test_what_an_epochs_file_says_is_not_needed_to_be_fenced_by_it(layout):
    first = claim(layout)
    layout.files.put(epoch_name(2), b"torn")
    with pytest.raises(CheckpointInUseError) as raised:
        first.require_newest()
    assert raised.value.found == "epoch 2 of another writer"


def test_the_highest_epoch_counts_whoever_was_last(layout):
    for epoch in (1, 3, 2):
        publish_manifest(layout, manifest(7, epoch, f"by {epoch}"))
    assert read_manifest(layout, 7).partitions[0].state == "by 3"
    assert retained_versions(layout) == [7]


def test_an_epoch_publishes_a_version_once(layout):
    publish_manifest(layout, manifest(7, 2, "first"))
    with pytest.raises(CheckpointInUseError, match="is there already"):
        publish_manifest(layout, manifest(7, 2, "second"))
    assert read_manifest(layout, 7).partitions[0].state == "first"


@pytest.mark.parametrize("lag", [1, 2, 1000])
def test_whoever_goes_on_finds_the_manifest_that_a_lagging_listing_hides(stored, lag):
    claim(stored)
    publish_manifest(stored, manifest(6, 1, "zombie's"))
    claim(stored)
    publish_manifest(stored, manifest(6, 2, "the last"))
    third = claim(stored)
    stored.files.store.lag = lag
    found = read_manifest(stored, 6, before=third.number)
    assert (found.epoch, found.partitions[0].state) == (2, "the last")
    if lag == 1000:
        assert retained_versions(stored) == []
        assert read_manifest(stored, 6).epoch == 2


def test_a_start_after_a_thousand_that_failed_makes_few_requests(stored):
    claim(stored)
    publish_manifest(stored, manifest(6, 1))
    last = [claim(stored) for _ in range(1000)][-1]
    before = len(stored.files.store.requests)
    assert read_manifest(stored, 6, before=last.number).epoch == 1
    assert len(stored.files.store.requests) - before < 10


def test_a_manifest_under_the_name_of_another_epoch_is_refused(layout):
    publish_manifest(layout, manifest(6, 1))
    data = layout.files.get(manifest_name(6, 1))
    layout.files.put(manifest_name(6, 2), data)
    with pytest.raises(CorruptFileError, match="for another version") as raised:
        read_manifest(layout, 6)
    assert raised.value.expected == "format 2, version 6, epoch 2"


def test_releases_without_epochs_see_state_that_is_further_than_any_batch(layout):
    """They knew names that are a number alone, and refused where the largest was too large."""
    claim(layout)
    publish_manifest(layout, manifest(6, 1))
    names = [entry.base_name for entry in layout.files.list("statemigrate/versions")]
    numbers = [int(name[:-5]) for name in names if name[:-5].isdigit()]
    assert numbers == [BARRIER]
    assert retained_versions(layout) == [6]
