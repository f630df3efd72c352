"""Nothing that a writer needs is ever removed: listings lag, clocks are wrong, zombies wake up."""

import hashlib
from dataclasses import replace
from random import Random

import pytest
from support.object_store import MemoryFiles

from statemigrate.embedded.durable import FileReference
from statemigrate.embedded.layout import PARTITIONS, Layout, file_name
from statemigrate.embedded.manifest import CountedBase, Manifest, PartitionState, SnapshotReference
from statemigrate.embedded.retention import DAY, Needs, content_names, remove_old_versions
from statemigrate.embedded.snapshots import SnapshotFile
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import StatemigrateError
from statemigrate.files.documents import sealed

FOLDER = f"{PARTITIONS}/0"


class Writer:
    """A driver of one partition, whose files are names with a few bytes."""

    def __init__(self, layout, epoch, before, random):
        self.layout, self.epoch, self.random = layout, epoch, random
        self.held = (before, before)

    def batch(self, *, snapshot=False):
        """Put the files of the next version, and then publish it."""
        before = self.held[1]
        version = before.version + 1
        state = self._snapshot(before, version) if snapshot else self._changelog(before, version)
        manifest = replace(before, version=version, partitions=(state,), epoch=self.epoch)
        publish_manifest(self.layout, manifest)
        self.held = (before, manifest)

    def attempt(self):
        """Files of the next version, by an attempt that does not get further."""
        self._put(file_name(self.held[1].version + 1, "changelog"))

    def _changelog(self, before, version):
        return before.partitions[0].followed_by(self._put(file_name(version, "changelog")), 1)

    def _snapshot(self, before, version):
        shared = sorted(contents(self.layout, before))
        self.random.shuffle(shared)
        files = [
            SnapshotFile("a.sst", FileReference(name.rpartition("/")[2], "0" * 64, 1))
            for name in shared[:1]
        ]
        made = self._put(f"files/{file_name(version, 'content')}")
        files.append(SnapshotFile("b.sst", replace(made, name=made.name.rpartition("/")[2])))
        data = sealed({"files": [each.to_json() for each in files]})
        listing = self._put(file_name(version, "snapshot"), data)
        snapshot = SnapshotReference(listing, f"state {version}", {})
        return PartitionState(f"state {version}", snapshot, base=CountedBase(snapshot))

    def _put(self, name, data=b"some bytes"):
        self.layout.files.put(f"{FOLDER}/{name}", data)
        return FileReference(name, hashlib.sha256(data).hexdigest(), len(data))


def contents(layout, manifest):
    needs = Needs.of(manifest)
    return {name for each in needs.listings for name in content_names(layout, *each)}


def needed(writer):
    names = set()
    for manifest in writer.held:
        names |= Needs.of(manifest).names | contents(writer.layout, manifest)
    return names


class Time:
    """A store's clock, which goes as it likes."""

    def __init__(self, random, jumps):
        self.now, self.random, self.jumps = 1.7e9, random, jumps

    def __call__(self):
        if self.random.random() < self.jumps:
            self.now += self.random.choice([-1, 1]) * self.random.choice([3_600, 40 * DAY])
        self.now += 10
        return self.now


def started(tmp_path, random, jumps=0.0):
    layout = Layout(tmp_path, MemoryFiles())
    layout.files.store.clock = Time(random, jumps)
    return Writer(layout, 1, Manifest(-1, {}, (PartitionState(),), {}, {}), random)


@pytest.mark.parametrize("seed", range(30))
def test_what_the_newest_versions_need_is_there_whatever_happens(tmp_path, seed):
    random = Random(seed)
    writer = started(tmp_path, random, jumps=0.2)
    store = writer.layout.files.store
    writer.batch(snapshot=True)
    zombies = []
    for _ in range(60):
        store.lag = random.choice([0, 0, 5, 50, 10_000])
        what = random.random()
        if what < 0.08:
            # Another takes over; the one before wakes up every now and then.
            zombies.append(writer)
            after = Writer(writer.layout, writer.epoch + 1, writer.held[1], random)
            after.held = writer.held if random.random() < 0.5 else (writer.held[0],) * 2
            writer = after
        elif what < 0.16:
            writer.attempt()
        elif what < 0.5:
            cleaner = random.choice([writer, *zombies])
            try:
                newest = cleaner.held[1].version
                remove_old_versions(cleaner.layout, newest, random.choice([2, 3]), cleaner.held)
            except (StatemigrateError, FileNotFoundError):
                # A listing that has what is gone: it is tried again after a later batch.
                pass
        else:
            writer.batch(snapshot=random.random() < 0.3)
        assert needed(writer) <= set(writer.layout.files.content)


@pytest.mark.parametrize("jumps", [0.0, 0.3])
def test_in_the_end_all_that_is_not_needed_is_gone(tmp_path, jumps):
    random = Random(5)
    writer = started(tmp_path, random, jumps)
    for number in range(20):
        writer.attempt()
        writer.batch(snapshot=number % 4 == 0)
        remove_old_versions(writer.layout, writer.held[1].version, 2, writer.held)
    writer.layout.files.store.clock.jumps = 0.0
    writer.layout.files.store.clock.now = 2e9
    for _ in range(3):
        writer.batch(snapshot=True)
    remove_old_versions(writer.layout, writer.held[1].version, 2, writer.held)
    left = {name for name in writer.layout.files.content if name.startswith(FOLDER)}
    assert left == needed(writer)


def test_an_attempts_files_stay_for_a_day_by_the_stores_own_clock(tmp_path):
    writer = started(tmp_path, Random(1))
    clock = writer.layout.files.store.clock
    for _ in range(3):
        writer.attempt()
        writer.batch(snapshot=True)
    attempts = {n for n in writer.layout.files.content if n.endswith("changelog")}

    def left_after(seconds):
        clock.now += seconds
        for _ in range(3):
            writer.batch(snapshot=True)
        remove_old_versions(writer.layout, writer.held[1].version, 2, writer.held)
        return attempts & set(writer.layout.files.content)

    assert left_after(0) == attempts
    assert left_after(DAY - 3_600) == attempts
    assert left_after(2 * 3_600) == set()


def test_a_file_named_by_its_hash_is_content_of_an_older_release(tmp_path):
    writer = started(tmp_path, Random(1))
    for name in ("a" * 64, "b" * 64 + ".bak", "notes"):
        writer.layout.files.put(f"{FOLDER}/files/{name}", b"content")
    writer.layout.files.put(f"{FOLDER}/{'c' * 64}", b"no content")
    writer.layout.files.store.clock.now += 2 * DAY
    for _ in range(4):
        writer.batch(snapshot=True)
    remove_old_versions(writer.layout, writer.held[1].version, 2, writer.held)
    left = {n.rpartition("/")[2][:4] for n in writer.layout.files.content if n.startswith(FOLDER)}
    assert "aaaa" not in left
    assert {"bbbb", "note", "cccc"} < left
