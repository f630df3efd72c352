"""The contents in the manifest of each version are those of its files, whatever led there."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.notes import NEW as NEWEST
from support.notes import OLD as OLDEST
from support.notes import family as notes_family
from support.notes import lineage, note
from support.partitions import COUNTS, as_first_release, batch, batches

from statemigrate.access import DualAccess
from statemigrate.budget import Budget, run_chunk
from statemigrate.deployment import StoredFamily
from statemigrate.embedded.content_hash import contents_of
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.replaced_values import Lookup, contents_in
from statemigrate.embedded.restore import open_at
from statemigrate.embedded.rocksdb_families import RocksFamily
from statemigrate.embedded.versions import same_contents
from statemigrate.families import Source, Span
from statemigrate.formats import Struct

FORMAT = Struct("n BIGINT")
OLD, NEW = StoredFamily("old", "base", FORMAT), StoredFamily("old@1", "1", FORMAT)
LISTS = StoredFamily("lists", "base", FORMAT)
keys = st.sampled_from([b"%02d" % number for number in range(12)])
numbers = st.integers(0, 3)
lists = st.lists(numbers, max_size=4)


def value(number):
    return {"n": number}


stores = st.sampled_from([OLD, NEW])
changes = st.one_of(
    st.tuples(st.just("put"), stores, keys, numbers),
    st.tuples(st.just("delete"), stores, keys),
    st.tuples(st.just("read_ahead_and_update"), stores, st.lists(keys, unique=True), numbers),
    st.tuples(st.just("move_what_is_scanned"), st.integers(1, 6), st.booleans(), keys),
    st.tuples(st.just("put_and_delete_many"), st.lists(keys, unique=True, min_size=1)),
    st.tuples(st.just("change_a_list"), keys, lists, st.booleans()),
    st.tuples(st.just("delete_a_list"), keys),
    st.tuples(st.just("drop")),
)


def in_files(place, state):
    """What the durable files of a state hold, read whole."""
    scratch = Path(tempfile.mkdtemp())
    try:
        database = open_at(state, place.directory, scratch / "copy")
        try:
            return contents_in(database)
        finally:
            database.close()
    finally:
        shutil.rmtree(scratch)


class Histories(RuleBasedStateMachine):
    """One partition through batches that succeed, fail, store snapshots and are restored."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="contents-"))
        self.place = PartitionPaths(0, self.root / "durable", self.root / "working")
        self.state, self.version = PartitionState(), 0
        self.model = {OLD.name: {}, NEW.name: {}, LISTS.name: {}}

    @initialize(block=st.sampled_from([1, 3, 1_024]))
    def begin(self, block):
        self.block = block
        self.open()

    def open(self):
        self.partition = Partition(self.place, self.state, self.version)
        self.families = {}
        self.now = {name: dict(each) for name, each in self.model.items()}

    def family(self, stored, kind="value") -> RocksFamily:
        if stored.name not in self.families:
            opened = self.partition.target(stored, kind)
            opened._unwritten._most = self.block
            self.families[stored.name] = opened
        return self.families[stored.name]

    @rule(
        batch=st.lists(changes, min_size=1, max_size=8),
        end=st.sampled_from(["commit", "snapshot", "restore", "fail"]),
    )
    def run(self, batch, end):
        for name, *arguments in batch:
            getattr(self, name)(*arguments)
        if end == "fail":
            self.partition.abandon()
            self.open()
        else:
            self.commit(snapshot=end == "snapshot", restores=end == "restore")

    def put(self, stored, key, number):
        self.family(stored).put(key, value(number))
        self.now[stored.name][key] = number

    def delete(self, stored, key):
        self.family(stored).delete(key)
        self.now[stored.name].pop(key, None)

    def read_ahead_and_update(self, stored, ahead, add):
        family = self.family(stored)
        family.read_ahead(sorted(ahead))
        for key in sorted(ahead):
            found = family.get(key)
            number = add if found is None else found["n"] + add
            family.put(key, value(number))
            self.now[stored.name][key] = number

    def move_what_is_scanned(self, most, writes_between, key):
        """As a backfill does, and, which it does not, with a write between reading and moving."""
        old, new = self.family(OLD), self.family(NEW)
        scan = old.scan(Span())
        while block := [entry for entry, _ in zip(scan, range(most), strict=False)]:
            moved = [each for each, _ in block]
            if writes_between:
                # Once: what the scan comes to after it may be of before.
                writes_between = False
                old.put(key, value(7))
                self.now[OLD.name][key] = 7
            if not new.contains_any(moved):
                new.put_many(moved, [each for _, each in block])
                self.now[NEW.name].update((each, found["n"]) for each, found in block)
                old.delete_many(moved)
                for each in moved:
                    self.now[OLD.name].pop(each, None)

    def put_and_delete_many(self, many):
        new = self.family(NEW)
        new.put_many(many, [value(9)] * len(many))
        new.delete_many(many[::2])
        self.now[NEW.name].update(dict.fromkeys(many, 9))
        for key in many[::2]:
            self.now[NEW.name].pop(key, None)

    def change_a_list(self, key, elements, appends):
        family = self.family(LISTS, "list")
        before = self.now[LISTS.name].get(key, [])
        if appends:
            family.append(key, map(value, elements))
        else:
            family.put(key, list(map(value, elements)))
        self.now[LISTS.name][key] = before + elements if appends else elements

    def delete_a_list(self, key):
        self.family(LISTS, "list").delete(key)
        self.now[LISTS.name].pop(key, None)

    def drop(self):
        if OLD.name in self.families:
            # As a family is dropped: by a batch that has not opened it.
            return
        self.partition.drop(OLD.name, only_if_empty=False)
        self.now[OLD.name] = {}

    def commit(self, snapshot, restores):
        self.state = self.partition.commit(snapshot=snapshot)
        self.model, self.version = self.now, self.version + 1
        # As a manifest has it.
        self.state = PartitionState.from_json(self.state.to_json())
        known = self.state.known_contents
        assert known == in_files(self.place, self.state)
        assert known == self.expected()
        if restores:
            shutil.rmtree(self.place.working)
        self.open()

    def expected(self):
        encode = FORMAT.encode
        found = {
            name: contents_of((key, encode(value(number))) for key, number in each.items())
            for name, each in self.model.items()
            if name != LISTS.name
        }
        found[LISTS.name] = contents_of(
            (key + position.to_bytes(8, "big"), encode(value(number)))
            for key, elements in self.model[LISTS.name].items()
            for position, number in enumerate(elements)
        )
        return {name: each for name, each in found.items() if each.records}

    def teardown(self):
        try:
            if hasattr(self, "partition"):
                self.partition.abandon()
        finally:
            shutil.rmtree(self.root)


TestHistories = pytest.mark.long(Histories.TestCase)
TestHistories.settings = settings(
    max_examples=10,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_two_versions_are_compared_by_their_manifests_alone(place):
    first = batch(place, PartitionState(), 0, {b"a": 1, b"b": 2}, snapshot=True)
    second = batch(place, first, 1, {b"a": 5, b"c": 3})
    third = batch(place, second, 2, {b"a": 1, b"c": 2})
    shutil.rmtree(place.directory)
    assert same_contents([first], [second]) is False
    assert same_contents([second], [third]) is False
    assert same_contents([first], [first]) is True


def test_versions_with_other_numbers_of_partitions_are_compared_too(tmp_path):
    def state(name, entries):
        place = PartitionPaths(0, tmp_path / name, tmp_path / f"{name}-working")
        return batch(place, PartitionState(), 0, entries)

    whole = state("whole", {b"a": 1, b"b": 2, b"c": 3})
    parts = [state("one", {b"b": 2}), state("two", {b"a": 1, b"c": 3}), PartitionState()]
    assert same_contents([whole], parts) is True
    assert same_contents([whole], parts[:1]) is False


def test_of_what_an_older_release_wrote_nothing_is_said_until_it_was_read_whole(place):
    states = batches(place, [{b"a": 1}, {b"b": 2}], snapshots=[1])
    before = as_first_release(states[-1])
    assert same_contents([before], [states[-1]]) is None
    unread = batch(place, before, 2, {b"c": 3})
    assert unread.contents is None
    after = batch(place, unread, 3, {b"d": 4}, snapshot=True)
    assert after.contents == in_files(place, after)
    later = batch(place, after, 4, {b"d": 5})
    assert later.contents == in_files(place, later)


def test_hashes_of_an_earlier_kind_are_unknown_until_the_state_was_read_whole(place):
    first = batch(place, PartitionState(), 0, {b"a": 1, b"b": 2}, snapshot=True)
    document = first.to_json()
    document["contents"][COUNTS.name]["hash"] = "a" * 64
    document["snapshot"]["contents"][COUNTS.name]["hash"] = "b" * 64
    earlier = PartitionState.from_json(document)
    assert earlier.contents is None
    assert earlier.snapshot.contents is None
    unread = batch(place, earlier, 1, {b"c": 3})
    assert unread.contents is None
    after = batch(place, unread, 2, {b"d": 4}, snapshot=True)
    assert after.contents == in_files(place, after)


def test_a_backfill_looks_up_no_value_that_it_has_scanned(place, monkeypatch):
    number = 10_000
    old, new = notes_family("notes", OLDEST), notes_family("notes", NEWEST)
    partition = Partition(place, PartitionState(), 0)
    target = partition.target(old, "value")
    for n in range(number):
        target.put(b"%05d" % n, note(OLDEST, "text"))
    partition = Partition(place, partition.commit(snapshot=False), 1)
    looked_up = []
    present = Lookup.present_values
    monkeypatch.setattr(
        Lookup,
        "present_values",
        lambda lookup, keys: looked_up.extend(keys) or present(lookup, keys),
    )
    source = Source(partition.source(old, "value"), lineage("notes").path(OLDEST, NEWEST))
    access = DualAccess("notes", partition.target(new, "value"), [source])
    chunk = run_chunk(access, source, partition, Budget(number, 1e9))
    after = partition.commit(snapshot=False)
    assert (chunk.migrated, after.contents[new.name].records) == (number, number)
    assert after.contents == in_files(place, after)
    assert looked_up == []


def test_a_hash_that_was_wrong_is_corrected_where_snapshot_and_files_agree(place, caplog):
    first = batch(place, PartitionState(), 0, {b"a": 1, b"b": 2})
    wrong = replace(first, contents={"counts": contents_of([(b"a", b"")])})
    second = batch(place, wrong, 1, {b"c": 3}, snapshot=True)
    assert second.contents == in_files(place, second)
    assert "another hash of counts" in caplog.text


def overtaken_by_a_write(family):
    scan = family.scan(Span())
    next(scan)
    family.put(b"9", value(100))
    family.flush()
    assert len(list(scan)) == 9
    family.delete_many([b"9"])


def deleted_twice(family):
    assert len(list(family.scan(Span()))) == 10
    family.delete_many([b"3"])
    family.delete_many([b"3"])


def absent_once(family):
    many = [b"x", b"y"]
    assert not family.contains_any(many)
    family.put_many(many, [value(1), value(2)])
    family.put_many(many, [value(3), value(4)])


def never_read(family):
    family.put(b"3", value(7))
    family.delete(b"4")


@pytest.mark.parametrize("write", [overtaken_by_a_write, deleted_twice, absent_once, never_read])
def test_what_was_read_before_is_believed_no_longer_than_it_is_true(place, write):
    state = batch(place, PartitionState(), 0, {b"%d" % number: number for number in range(10)})
    partition = Partition(place, state, 1)
    write(partition.target(COUNTS, "value"))
    after = partition.commit(snapshot=False)
    assert after.contents == in_files(place, after)


def test_a_family_that_is_dropped_has_no_contents(place):
    state = batch(place, PartitionState(), 0, {b"a": 1})
    partition = Partition(place, state, 1)
    partition.drop(COUNTS.name, only_if_empty=False)
    after = partition.commit(snapshot=False)
    assert after.contents == in_files(place, after) == {}
