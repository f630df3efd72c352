"""Two drivers on one bucket, and a bucket or machine that changes under a running query."""

import shutil
from copy import deepcopy

import pytest
from support.histories import lives
from support.histories.bucket import STORES, Place
from support.histories.scenes import changes
from support.object_store import MemoryFiles

from statemigrate.embedded.versions import claim
from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError


@pytest.mark.long(weight=1 / 3)
def test_of_two_drivers_on_one_bucket_the_first_is_fenced_and_nothing_is_lost(
    staged, requests, places
):
    """The second takes over while the first waits for an answer, for however long."""
    of_epochs = [n for n, each in enumerate(requests) if "epochs/" in each.name]
    for number in range(of_epochs[3], of_epochs[-1] + 1, 12):
        first = staged.copied(places / "run")
        second = Place(places / "second", first.store, first.model, first.version)
        shutil.rmtree(second.root, ignore_errors=True)
        shutil.copytree(first.root, second.root)
        second.lose_machine()
        handed = _takes_over(first, second, len(first.store.requests) + number)
        with pytest.raises(CheckpointInUseError, match="is in use"):
            first.run()
        assert set(first.outputs()) == handed[0]
        second.compare()
        assert second.version == 3
        second.feed(changes(STORES))
        second.run()
        second.compare()


def test_whoever_is_overtaken_while_its_sink_writes_leaves_the_commit_to_the_other(
    staged, places, monkeypatch
):
    """Spark's commit of the one would end the other, which runs the batch again."""
    place = staged.copied(places / "run")
    original, overtaken = lives._sink, []

    def sink(where, frame, batch):
        original(where, frame, batch)
        if not overtaken:
            overtaken.append(claim(place.layout()).number)

    monkeypatch.setattr(lives, "_sink", sink)
    with pytest.raises(CheckpointInUseError, match="is in use"):
        place.run()
    assert place.outputs().count("1") == 1
    assert "commits/1" not in MemoryFiles(place.store).content
    place.compare()
    assert place.version == 0
    place.lose_machine()
    place.run()
    place.compare()
    assert place.version == 3


def test_what_a_machine_loses_under_a_running_query_is_fetched_by_the_next_start(
    staged, places, monkeypatch
):
    """As what empties /tmp does: the checkpoint is whole, and nothing is to be restored there."""
    place = staged.copied(places / "run")
    original = lives._sink

    def sink(where, frame, batch):
        original(where, frame, batch)
        if batch == 1:
            for path in (where / "working").iterdir():
                if path.is_dir():
                    shutil.rmtree(path)

    monkeypatch.setattr(lives, "_sink", sink)
    with pytest.raises(CorruptFileError, match="is missing") as raised:
        place.run()
    assert raised.value.next_action.startswith("start the query again")
    assert raised.value.next_action.endswith("fetched again from memory://checkpoint")
    place.compare()
    assert place.version == 1
    place.run()
    place.compare()
    assert place.version == 3


def test_a_checkpoint_brought_back_under_a_running_query_gets_nothing_from_it(staged, places):
    place = staged.copied(places / "run")
    objects = deepcopy(place.store.objects)
    brought_back = []

    def watch(request):
        if request.name == "offsets/2" and not brought_back:
            brought_back.append(request)
            place.store.objects = deepcopy(objects)
            second = Place(places / "second", place.store, place.model, place.version)
            brought_back.append(claim(second.layout()).number)

    place.store.watch = watch
    with pytest.raises(CheckpointError, match="is another one than this query has started on"):
        place.run()
    assert brought_back[1] == 2
    manifests = [name for name in MemoryFiles(place.store).content if "versions/2" in name]
    assert manifests == []


def _takes_over(first, second, number):
    """What the first had handed to its sink when the second has come."""
    handed = []

    def watch(_):
        if len(first.store.requests) == number and not handed:
            handed.append(set(first.outputs()))
            second.run()

    first.store.watch = watch
    return handed
