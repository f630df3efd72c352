"""Which files a fork has, what is refused, and that nothing half-made passes for a checkpoint."""

import json
import shutil
import subprocess
import sys
from importlib import import_module

import pytest
from support.new_checkpoints import is_shut
from support.offset_logs import tree
from support.spark_checkpoints import aggregation, put, taken, variables

from statemigrate import fork
from statemigrate.checkpoint.directory import UNFINISHED
from statemigrate.checkpoint.shape import describe
from statemigrate.errors import CheckpointError, CorruptFileError, RewriteError, UnsupportedError
from statemigrate.event_log.log import LOG
from statemigrate.files import LocalFiles
from statemigrate.pages.record import PagesRecord, record_document
from statemigrate.rewrite.claims import OWNERS

FORMATS = ("aggregation", "flatMapGroupsWithState")


@pytest.fixture(params=[aggregation, variables])
def old(request, tmp_path):
    return request.param(tmp_path / "old")


@pytest.fixture
def new(tmp_path):
    return tmp_path / "new"


def names(root):
    """The files, without what the log says of how they got there."""
    files = {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}
    return {name for name in files if not name.startswith(LOG)}


def test_a_fork_has_the_files_of_its_version_and_no_others(tmp_path, new):
    fork(aggregation(tmp_path / "old"), new, at_batch=1)
    assert names(new) == {
        "metadata", "offsets/0", "offsets/1", "commits/0", "commits/1", "sources/0/0",
        "sources/0/1", "state/0/_metadata/metadata", "state/0/0/_metadata/schema",
        "state/0/0/1.delta", "state/0/0/2.delta", "state/0/1/1.delta", "state/0/1/2.delta",
    }  # fmt: skip


def test_a_fork_has_what_its_snapshot_names(tmp_path, new):
    old = variables(tmp_path / "old")
    put(old, "state/0/0/SSTs/000009-later.sst", b"of a later version")
    fork(old, new, at_batch=1)
    assert {name for name in names(new) if name.startswith("state/0/0/")} == {
        "state/0/0/1.zip", "state/0/0/SSTs/000000-x.sst", "state/0/0/2.changelog",
    }  # fmt: skip


def test_a_checkpoint_of_spark_before_4_has_no_metadata_of_operators(tmp_path, new):
    old = aggregation(tmp_path / "old")
    shutil.rmtree(old / "state/0/_metadata")
    for path in (old / "offsets").iterdir():
        formats = "".join(f', "spark.sql.streaming.{n}.stateFormatVersion": "2"' for n in FORMATS)
        path.write_text(path.read_text().replace(' "lz4"', f' "lz4"{formats}'))
    fork(old, new)
    assert names(new) == names(old) - {"offsets/0", "offsets/1", "commits/0", "commits/1"}


def test_the_old_one_is_only_read(old, new):
    before = tree(old)
    fork(old, new)
    assert tree(old) == before
    assert describe(LocalFiles(new)) == describe(LocalFiles(old))


def test_sparks_own_checksum_files_go_along_and_hadoops_do_not(old, new):
    for name in ("offsets/3.crc", "offsets/.3.crc", "state/0/_metadata/v2/0.crc"):
        put(old, name, b"{}")
    fork(old, new)
    assert {name for name in names(new) if name.endswith("crc")} == {"offsets/3.crc"}


def test_the_first_batch_may_be_forked(old, new):
    fork(old, new, at_batch=0)
    assert {name for name in names(new) if name.startswith("offsets")} == {"offsets/0"}


def test_a_batch_that_was_begun_is_left_out_and_said(old, new):
    (old / "commits/3").unlink()
    done = fork(old, new)
    assert (done.batch, done.uncommitted) == (2, 3)
    assert "sources/0/3" not in names(new)


def test_what_is_no_part_of_a_checkpoint_is_left_and_said(old, new):
    put(old, "notes/a.txt", b"mine")
    assert fork(old, new).left == ("notes: no part of a checkpoint",)


def test_state_that_was_not_found_is_not_taken_for_none(old, new):
    shutil.rmtree(old / "state")
    with pytest.raises(CheckpointError, match="has no state of any operator") as caught:
        fork(old, new)
    assert "--without-state" in caught.value.next_action
    assert not new.exists()


def test_a_query_without_state_is_forked_where_that_is_said(old, new):
    with pytest.raises(CheckpointError, match="has state") as caught:
        fork(old, new, without_state=True)
    assert caught.value.found == "operator 0"
    shutil.rmtree(old / "state")
    assert fork(old, new, without_state=True).batch == 3


def test_what_was_deployed_on_the_state_says_that_there_was_some(old, new):
    shutil.rmtree(old / "state")
    migrated(old)
    with pytest.raises(CheckpointError, match="has no state of any operator") as caught:
        fork(old, new, without_state=True)
    assert caught.value.found.endswith("was deployed with early, late")


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("state/0/1", "has other partitions than it should"),
        ("offsets/2", "offsets/2 is missing"),
        ("sources/0/1", "no longer tells which files were taken"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_written(old, new, removed, message):
    shutil.rmtree(old / removed) if (old / removed).is_dir() else (old / removed).unlink()
    with pytest.raises(CorruptFileError, match=message):
        fork(old, new)
    assert not new.exists()


@pytest.mark.parametrize("name", ["1.zip", "3.changelog", "SSTs/000001-x.sst"])
def test_a_missing_file_of_rocksdb_is_named(tmp_path, new, name):
    old = variables(tmp_path / "old")
    (old / "state/0/1" / name).unlink()
    if name == "1.zip":
        # The changelogs alone would be a store without what the snapshot had before them.
        (old / "state/0/1/1.changelog").unlink()
    with pytest.raises(CorruptFileError, match=r"missing|is not what"):
        fork(old, new)
    assert not new.exists()


def test_a_batch_that_is_not_kept_any_more_is_refused(old, new):
    for log in ("offsets", "commits"):
        (old / log / "0").unlink()
    with pytest.raises(CheckpointError, match="batch 0 is not among the commits") as caught:
        fork(old, new, at_batch=0)
    assert caught.value.found == "batches 1 to 3"


@pytest.mark.parametrize("name", ["metadata", "anything"])
def test_a_place_in_use_is_refused(old, new, name):
    put(new, name, b"x")
    with pytest.raises(RewriteError, match="is in use"):
        fork(old, new)
    assert names(new) == {name}


def test_the_same_command_again_says_that_the_fork_is_whole(old, new):
    fork(old, new)
    with pytest.raises(RewriteError) as caught:
        fork(old, new)
    assert caught.value.data["contents"] == "checkpoint"
    assert "it is whole" in caught.value.next_action


@pytest.mark.parametrize(
    ("files", "contents"),
    [
        ({"metadata": UNFINISHED + b"\n", "commits/0": b"v1"}, "unfinished"),
        ({"metadata": b'{"id":"x"}'}, "other"),
        ({"commits/0": b"v1"}, "other"),
        ({"statemigrate/control/plan.json": b"{}"}, "other"),
    ],
)
def test_what_is_in_a_place_in_use_is_data_of_the_error(old, new, files, contents):
    for name, data in files.items():
        put(new, name, data)
    with pytest.raises(RewriteError) as caught:
        fork(old, new)
    assert caught.value.data["contents"] == contents


def test_a_fork_that_was_killed_with_no_more_than_its_claim_is_made_by_the_next(old, new):
    script = (
        "import os, sys; from pathlib import Path; "
        "from statemigrate.files import LocalFiles; "
        "from statemigrate.rewrite.claims import claim; "
        "claim(LocalFiles(Path(sys.argv[1])), 'fork'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(new)], check=False)
    assert names(new) == {f"{OWNERS}/1.json"}
    assert is_shut(new)
    fork(old, new)
    assert names(new) == names(fork_of(old, new.with_name("twin")))


def fork_of(old, place):
    fork(old, place)
    return place


def test_a_place_within_the_old_one_is_refused(old):
    with pytest.raises(RewriteError, match="is within the old checkpoint"):
        fork(old, old / "state/fork")


def test_what_is_no_checkpoint_is_refused(tmp_path, new):
    put(tmp_path, "other/a", b"")
    with pytest.raises(CheckpointError, match="is not the checkpoint"):
        fork(tmp_path / "other", new)


def test_the_embedded_engines_is_refused(old, new):
    put(old, "statemigrate/versions/1-1.json", b"{}")
    with pytest.raises(UnsupportedError, match="embedded engine's"):
        fork(old, new)


def test_an_operator_that_is_not_known_is_refused(tmp_path, new):
    old = aggregation(tmp_path / "old")
    path = old / "state/0/_metadata/metadata"
    path.write_text(path.read_text().replace("stateStoreSave", "stateOfTomorrow"))
    with pytest.raises(UnsupportedError, match="stateOfTomorrow"):
        fork(old, new)
    assert not new.exists()


def test_a_compact_log_is_taken_where_it_ends_before_the_batch(old, new):
    entries = "\n".join(taken(f"file:///in/{n}", n) for n in range(2))
    put(old, "sources/0/1.compact", f"v1\n{entries}".encode())
    (old / "sources/0/0").unlink()
    (old / "sources/0/1").unlink()
    fork(old, new, at_batch=2)
    assert {n for n in names(new) if n.startswith("sources")} == {
        "sources/0/1.compact",
        "sources/0/2",
    }


def test_a_log_that_was_made_compact_since_is_refused(old, new):
    put(old, "sources/0/3.compact", b"v1")
    for number in range(3):
        (old / f"sources/0/{number}").unlink()
    with pytest.raises(CorruptFileError, match="no longer tells"):
        fork(old, new, at_batch=2)


def other_source(old, *files):
    """The offsets of a source that is no files, and what it keeps."""
    for path in (old / "offsets").iterdir():
        path.write_text(path.read_text().replace('{"logOffset":', '{"partition":'))
    shutil.rmtree(old / "sources")
    for name in files:
        put(old, f"sources/0/{name}", b"where I began")


def test_another_source_is_copied_whole(old, new):
    other_source(old, "0", "more/1")
    fork(old, new)
    assert {n for n in names(new) if n.startswith("sources")} == {"sources/0/0", "sources/0/more/1"}


def test_where_another_source_began_is_known_at_any_batch(old, new):
    other_source(old, "0")
    fork(old, new, at_batch=1)
    assert "sources/0/0" in names(new)


def test_what_another_source_has_noted_since_cannot_be_taken_back(old, new):
    other_source(old, "0", "7")
    with pytest.raises(UnsupportedError, match="cannot be taken back"):
        fork(old, new, at_batch=1)


PLAN = "statemigrate/control/plan.json"
CHUNK = "statemigrate/control/chunks/p/1.parquet"
RECORD = "statemigrate/deployed.json"


def migrated(old):
    """What the native engine leaves in a checkpoint, after batch 2."""
    put(old, PLAN, b"{}")
    put(old, CHUNK, b"keys")
    put(old, "statemigrate/control/chunks/_made", b"")
    log = f"v1\n{taken(f'file://{old}/{CHUNK}', 3)}"
    put(old, "sources/0/3", log.encode())
    stores = {
        store: {"families": [store], "batch": batch, "applied": {}}
        for store, batch in (("early", 0), ("late", 2))
    }
    put(old, RECORD, json.dumps({"format": 1, "stores": stores}).encode())
    for number, batch in ((1, 0), (2, 2)):
        record = {"format": 1, "files": [{"batch": batch, "before": "", "after": ""}]}
        put(old, f"statemigrate/adoption/{number}/record.json", json.dumps(record).encode())
        put(old, f"statemigrate/adoption/{number}/offsets/{batch}", b"as it was")


def test_what_statemigrate_keeps_goes_along_and_names_the_new_place(old, new):
    migrated(old)
    fork(old, new)
    own = {name for name in names(old) if name.startswith("statemigrate")}
    assert own <= names(new)
    assert all((new / name).read_bytes() == (old / name).read_bytes() for name in own)
    (path,) = (
        json.loads(line)["path"] for line in (new / "sources/0/3").read_text().split("\n")[1:]
    )
    assert path == f"file://{new}/{CHUNK}"


def test_what_is_of_later_batches_is_left_behind(old, new):
    migrated(old)
    done = fork(old, new, at_batch=1)
    assert {name for name in names(new) if name.startswith("statemigrate")} == {
        RECORD, "statemigrate/control/chunks/_made", "statemigrate/adoption/1/record.json",
        "statemigrate/adoption/1/offsets/0",
    }  # fmt: skip
    assert set(json.loads((new / RECORD).read_text())["stores"]) == {"early"}
    assert len(done.left) == 2


class Vanishing(LocalFiles):
    """Files of a running query, which removes one while they are copied."""

    def get(self, name, **most):
        if name == "state/0/0/_metadata/schema" and (self.root / "seen").exists():
            raise FileNotFoundError(name)
        if name == "commits/3":
            (self.root / "seen").touch()
        return super().get(name, **most)


def test_a_file_that_vanishes_is_named_and_no_checkpoint_is_left(tmp_path, new):
    old = Vanishing(aggregation(tmp_path / "old"))
    with pytest.raises(CheckpointError):
        fork(old, new)
    assert is_shut(new)


def test_who_makes_a_checkpoint_there_meanwhile_is_told_apart(old, new, monkeypatch):
    forking = import_module("statemigrate.rewrite.fork")
    original = forking._copied

    def raced(source, target, needed, progress):
        put(new, "metadata", b'{"id":"another"}')
        return original(source, target, needed, progress)

    monkeypatch.setattr(forking, "_copied", raced)
    with pytest.raises(RewriteError, match="has become a checkpoint meanwhile"):
        fork(old, new)
    assert (new / "metadata").read_bytes() == b'{"id":"another"}'


def test_progress_is_told_in_bytes(old, new):
    seen = []
    done = fork(old, new, progress=lambda copied, total: seen.append((copied, total)))
    assert seen[-1][0] == seen[-1][1] <= done.bytes
    assert [copied for copied, _ in seen] == sorted(copied for copied, _ in seen)


def test_the_record_of_pages_goes_back_to_the_batch_and_what_a_rewrite_noted_stays(old, new):
    key = {"type": "struct", "fields": []}
    first = PagesRecord(4, key, {}, "first", frozenset({"a"})).after(None, -1, 0)
    last = PagesRecord(4, key, {}, "last", frozenset({"b"})).after(first, 1, 0)
    records = {"statemigrate/pages.json": last, "statemigrate/paged/tallies.json": last}
    for name, record in records.items():
        put(old, name, record_document(record))
    written = "statemigrate/paged/tallies-written.json"
    put(old, written, b"as it was written")
    fork(old, new, at_batch=1)
    for name in records:
        assert (new / name).read_bytes() == record_document(first)
    assert (new / written).read_bytes() == b"as it was written"
