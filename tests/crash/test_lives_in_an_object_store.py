"""A query on an object store ends at any request, on a machine that is lost with it, and goes on.

The store is strict: no rename, names written once, and at any request a 409 or a 503, with the
request carried out or not, and listings that lag. Each time all that is committed is read on a new
machine and compared with the model, and a query there goes on to the end.
"""

from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from support.histories import lives
from support.histories.bucket import NEW, OLD, STORES, Place
from support.histories.lives import run_at
from support.histories.model import Model
from support.histories.scenes import changes, first_values
from support.object_store import Fault, MemoryFiles, ObjectStore

from statemigrate.embedded.committed import hold
from statemigrate.embedded.layout import Layout
from statemigrate.errors import StatemigrateError
from statemigrate.files import LocalFiles

pytestmark = pytest.mark.long(weight=1 / 6)


class StoppedError(BaseException):
    """The process is no more: nothing catches it, nothing it asks is answered."""


def chosen(count, salt, every):
    return range(salt % every, count, every)


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_machine_lost_at_any_request_loses_nothing(staged, requests, places, when):
    for number in chosen(len(requests), len(when), 14):
        place = staged.copied(places / "run")
        _stop_at(place.store, len(place.store.requests) + number, when)
        with suppress(StoppedError):
            place.run()
        place.store.watch = lambda _: None
        place.lose_machine()
        place.compare()
        place.run()
        place.compare()
        assert place.version == 3


def _stop_at(store, number, when):
    """The process ends before its n-th request, or after it without having heard the answer."""
    last = number - 1 if when == "before" else number

    def watch(_):
        if len(store.requests) > last:
            raise StoppedError

    store.watch = watch


@pytest.mark.parametrize("status", [409, 503])
@pytest.mark.parametrize("done", [False, True], ids=["refused", "carried out"])
def test_one_failed_request_anywhere_changes_nothing(staged, requests, places, status, done):
    for number in chosen(len(requests), status + done, 25):
        place = staged.copied(places / "run")
        place.store.faults[len(place.store.requests) + number] = Fault(status, done)
        place.run()
        place.compare()
        assert place.version == 3


@pytest.mark.long(weight=1 / 3)
def test_a_store_that_stays_away_ends_the_query_by_name_and_it_goes_on_later(
    staged, requests, places
):
    for number in chosen(len(requests), 3, 25):
        place = staged.copied(places / "run")
        first = len(place.store.requests) + number
        place.store.faults.update({first + each: Fault(503) for each in range(4)})
        try:
            place.run()
        except StatemigrateError:
            # Not where it only failed to clean up.
            place.store.faults.clear()
            place.compare()
            place.run()
        place.store.faults.clear()
        place.compare()
        assert place.version == 3


@pytest.mark.parametrize("lag", [1, 4, 30])
def test_a_listing_that_lags_changes_nothing(staged, places, lag, monkeypatch):
    place = staged.copied(places / "run")
    place.run()
    place.lose_machine()
    place.compare()
    place.feed(changes(STORES), changes(STORES))
    # Spark's own log is not what is tested here: it needs listings that are right.
    place.store.lag = lag
    right = lives._next
    monkeypatch.setattr(lives, "_next", lambda layout: _unlagged(layout, right))
    place.run()
    place.store.lag = 0
    place.compare()
    assert place.version == 5


def test_a_checkpoint_is_copied_from_a_bucket_to_a_disk_and_back(staged, places):
    """What is packed in a bucket is taken apart on the disk, and read there too."""
    place = staged.copied(places / "run")
    place.run()
    place.compare()
    disk = LocalFiles(places / "disk")
    for name, data in MemoryFiles(place.store).content.items():
        disk.put(name, data)
    with closing(hold(Layout.over(disk))) as held:
        assert held.manifest.version == 3
        assert sum(held.counts("notes@r1").values()) > 0
    place.feed(changes(STORES))
    place.lose_machine()
    (place.root / "working").mkdir()
    run_at(Layout.over(disk), place.root, NEW)
    place.store = ObjectStore()
    for entry in disk.list(recursive=True):
        MemoryFiles(place.store).put(entry.name, disk.get(entry.name))
    place.compare()
    assert place.version == 4
    place.feed(changes(STORES))
    place.lose_machine()
    place.run()
    place.compare()
    assert place.version == 5


@pytest.mark.long(weight=1 / 3)
def test_a_batch_of_eight_partitions_makes_few_requests(places):
    place = Place(places / "counting", ObjectStore(), Model())
    deployment = replace(OLD, partitions=8, snapshot_every=10, retain=100)
    place.feed(*[first_values(STORES)] * 12)
    ended = []

    def watch(request):
        if request.verb == "create" and request.name.startswith("commits/"):
            ended.append(len(place.store.requests))

    place.store.watch = watch
    place.run(deployment)
    batches = [place.store.requests[a:b] for a, b in pairwise(ended)]
    of_engine = [[each for each in batch if each.verb != "create" or ("offsets" not in each.name
                  and "commits" not in each.name)] for batch in batches]  # fmt: skip
    counts = [len(batch) for batch in of_engine]
    # The time from Spark's log, the own epoch, the next one three times, a pack, a manifest; now
    # and then one partition's snapshot, with a request for each of RocksDB's files that it does
    # not share.
    assert min(counts) == 7
    assert sum(counts) <= 3 * 8 * len(counts)
    plain = [[each.verb for each in batch] for batch in of_engine if len(batch) == 7]
    assert {tuple(sorted(each)) for each in plain} == {("create", *["get"] * 5, "put")}


def _unlagged(layout, call):
    store = layout.files.store
    lag, store.lag = store.lag, 0
    try:
        return call(layout)
    finally:
        store.lag = lag
