"""Versions copied to another checkpoint: whole, for themselves, and from whatever is left."""

import random

import pytest
from support.file_hashes import file_hashes
from support.object_store import MemoryFiles

from statemigrate.checkpoint.epochs import claim
from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.changed_versions import (
    contents_at,
    fork_version,
    fork_versions,
    heartbeat_line,
    removed_versions,
)
from statemigrate.embedded.committed import hold
from statemigrate.embedded.content_hash import contents_of
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CorruptFileError, UnsupportedError
from statemigrate.files import LocalFiles
from statemigrate.formats import Struct
from statemigrate.processor.keys import TupleKeyCodec

KEY = Struct("k BIGINT").struct_type()
FAMILY = StoredFamily("counts", "base", Struct("n BIGINT"))
STORES = {"counts": StoredStore("value", (FAMILY,))}
PARTITIONS = 2


class Written:
    """A checkpoint with some random versions; ``at`` has by version the records of partitions."""

    def __init__(self, root, files, seed, versions=8):
        drawn = random.Random(seed)
        self.layout = Layout(root / "checkpoint", None if isinstance(files, str) else files)
        self.files, self.at = self.layout.files, []
        mirror, states = Mirror(self.layout), (PartitionState(),) * PARTITIONS
        held = [{} for _ in range(PARTITIONS)]
        encode = TupleKeyCodec(KEY).encode
        for version in range(versions):
            made = []
            for number, state in enumerate(states):
                working = root / "working" / str(number)
                place = PartitionPaths(number, self.layout.partition(number), working)
                partition = Partition(place, state, version)
                opened = partition.target(FAMILY, "value")
                for _ in range(drawn.choice([0, 1, 30])):
                    key = encode((drawn.randrange(40),))
                    if key in held[number] and drawn.random() < 0.3:
                        opened.delete(key)
                        del held[number][key]
                    else:
                        value = {"n": drawn.randrange(1 << 40)}
                        opened.put(key, value)
                        held[number][key] = FAMILY.format.encode(value)
                made.append(partition.commit(snapshot=drawn.random() < 0.4))
            states = mirror.hand_over(version, states, made)
            manifest = Manifest(version, KEY.jsonValue(), states, STORES, {})
            publish_manifest(self.layout, manifest)
            for name in ("offsets", "commits"):
                self.files.put(f"{name}/{version}", f"v1\n{name} {version}".encode())
            self.at.append([dict(each) for each in held])
        self.files.put("metadata", b'{"id":"the query"}')


@pytest.fixture(params=["a disk", "a bucket"])
def written(request, tmp_path):
    def made(seed):
        files = "local" if request.param == "a disk" else MemoryFiles()
        return Written(tmp_path / f"of {seed}", files, seed)

    return made


def records(folder, version):
    held = hold(Layout(folder), batch=version)
    found = []
    for number in range(PARTITIONS):
        with held.partition(number) as partition:
            found.append(dict(partition.records("counts")))
    held.close()
    return found


@pytest.mark.parametrize("seed", range(2))
def test_a_copy_has_the_records_of_each_version(written, tmp_path, seed):
    checkpoint, new = written(seed), tmp_path / f"new {seed}"
    before = names(checkpoint)
    fork_versions(checkpoint.files, new, range(3, 8))
    assert names(checkpoint) == before, "the old one is only read"
    for version in range(3, 8):
        assert records(new, version) == checkpoint.at[version]
        joined = [pair for each in checkpoint.at[version] for pair in each.items()]
        found = contents_at(LocalFiles(new), version)
        assert found.get("counts", contents_of([])) == contents_of(joined)
        assert (new / f"offsets/{version}").read_bytes() == f"v1\noffsets {version}".encode()
    assert sorted(each.name for each in (new / "commits").iterdir()) == list("34567")
    assert (new / "metadata").read_bytes() == b'{"id":"the query"}'
    for each in new.rglob("*"):
        assert each.is_dir() or each.stat().st_nlink == 1, each


def names(checkpoint):
    if isinstance(checkpoint.files, LocalFiles):
        return file_hashes(checkpoint.layout.checkpoint)
    return {each.name: each.tag for each in checkpoint.files.list(recursive=True)}


@pytest.mark.parametrize("version", [0, 5, 7])
def test_a_query_of_its_own_goes_on_from_a_copy(written, tmp_path, version):
    checkpoint, new = written(1), tmp_path / "new"
    fork_version(checkpoint.files, new, version)
    layout = Layout(new)
    epoch = claim(layout.files)
    manifest = require_committed(layout, before=epoch.number)
    assert manifest.version == version
    assert (new / "metadata").read_bytes() != b'{"id":"the query"}'
    last = [] if version == 0 else [str(version - 1)]
    assert sorted(each.name for each in (new / "offsets").iterdir()) == [*last, str(version)]
    place = PartitionPaths(0, layout.partition(0), tmp_path / "own")
    partition = Partition(place, manifest.partitions[0], version + 1)
    opened = partition.target(FAMILY, "value")
    opened.put(TupleKeyCodec(KEY).encode((99,)), {"n": 1})
    state = partition.commit(snapshot=False)
    counted = len(checkpoint.at[version][0])
    assert state.contents["counts"].records == counted + 1


def refusal(action):
    try:
        action()
    except CorruptFileError as error:
        return error
    return None


@pytest.mark.long
def test_a_file_that_is_gone_or_altered_is_named(tmp_path):
    found = set()
    found = set()
    for seed in range(2):
        checkpoint = Written(tmp_path / str(seed), "local", seed)
        every = sorted((checkpoint.layout.checkpoint / "statemigrate").rglob("0000*"))
        drawn = random.Random(seed)
        for each in drawn.sample(every, 15):
            data = each.read_bytes()
            each.unlink() if drawn.random() < 0.5 else each.write_bytes(data[:-1] + b"?")
            new = tmp_path / f"new {seed} {each.name}"
            error = refusal(lambda new=new, files=checkpoint.files: fork_versions(files, new, [7]))
            # Other files may make the version, or it does not need this one.
            assert (
                error.data["path"] == str(each) if error else (records(new, 7) == checkpoint.at[7])
            )
            found.add(error is None)
            each.write_bytes(data)
    assert found == {True, False}


def test_without_its_newest_changelogs_and_snapshots_no_version_is_copied(tmp_path):
    checkpoint = Written(tmp_path, "local", 3)
    for each in (checkpoint.layout.checkpoint / "statemigrate/partitions").rglob("0000*"):
        each.unlink()
    with pytest.raises(CorruptFileError):
        fork_versions(checkpoint.files, tmp_path / "new", [7])


def test_versions_that_are_not_there_are_known(written):
    checkpoint = written(2)
    assert removed_versions(checkpoint.files, range(8)) == []
    assert removed_versions(checkpoint.files, [6, 7, 8, 9]) == [8, 9]
    checkpoint.files.delete(["statemigrate/versions/3-1.json"])
    assert removed_versions(checkpoint.files, range(2, 6)) == [3]


def test_state_of_sparks_is_not_left_out_in_silence(written):
    checkpoint = written(2)
    checkpoint.files.put("state/0/0/1.delta", b"")
    with pytest.raises(UnsupportedError) as raised:
        removed_versions(checkpoint.files, [1])
    assert raised.value.code == "SM-EMBEDDED-032"


def test_the_engines_own_source_is_the_last_one_or_has_a_name():
    assert heartbeat_line(Offsets(False, ("{}", "-", "{}"))) == "2"
    named = Offsets(True, ('statemigrate_heartbeat:{"logOffset":0}', 'orders:{"logOffset":1}'))
    assert heartbeat_line(named) == "statemigrate_heartbeat"
