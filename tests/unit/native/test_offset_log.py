"""Which offset logs are understood, and that a refusal leaves everything as it was."""

from itertools import count
from types import SimpleNamespace

import pytest
from support.offset_logs import METADATA, checkpoint, kill_last_batch, put, run_batch, tree
from support.waiting import eventually

from statemigrate.errors import CheckpointError, CheckpointInUseError
from statemigrate.files import LocalFiles
from statemigrate.native import adoption as activity
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.adoption_files import OffsetLog, read_offsets

OFFSET = '{"logOffset":2}'


def refused(root, error=CheckpointError, command=adopt, **options):
    """The message of the refusal, dry and for good, with nothing changed."""
    before = tree(root)
    with pytest.raises(error) as dry:
        command(str(root), **options)
    with pytest.raises(error) as applied:
        command(str(root), apply=True, wait=0, **options)
    assert tree(root) == before
    assert str(dry.value) == str(applied.value)
    assert dry.value.next_action
    return str(dry.value)


@pytest.fixture
def while_watched(monkeypatch):
    """Do something in the middle of the time for which a checkpoint is watched; the times."""
    watched = []

    def during(act):
        def wait(seconds):
            watched.append(seconds)
            act()

        monkeypatch.setattr(activity, "time", SimpleNamespace(sleep=wait))
        return watched

    return during


def write_until_seen(folder):
    """A query at work: files come until the folder's time tells of one."""
    before = folder.stat().st_mtime_ns
    names = (folder / f".{number}.tmp" for number in count())
    eventually(lambda: next(names).touch() or folder.stat().st_mtime_ns != before)


def test_the_newest_two_files_are_read_on_restart_whether_committed_or_not(tmp_path):
    root = checkpoint(tmp_path / "c", batches=12, sources=2)
    assert [file.batch for file in OffsetLog(str(root)).read_on_restart()] == [10, 11]
    kill_last_batch(root)
    log = OffsetLog(str(root))
    assert (log.last_batch, log.last_commit) == (11, 10)
    assert [file.batch for file in log.read_on_restart()] == [10, 11]
    assert log.read_on_restart()[0].offsets == ('{"logOffset": 10}',) * 2


def test_what_is_no_batch_is_passed_over(tmp_path):
    root = checkpoint(tmp_path / "c", batches=2)
    for name in ("99.compact", ".3.8c2f.tmp", "..3.8c2f.tmp.crc", ".9.crc", "007", "-1", "x"):
        (root / "offsets" / name).write_text("anything")
    (root / "offsets" / "5").mkdir()
    assert OffsetLog(str(root)).last_batch == 1


def test_a_file_uri_is_a_local_path(tmp_path):
    root = checkpoint(tmp_path / "with space")
    assert OffsetLog(root.as_uri()).checkpoint == str(root)


def test_a_line_more_and_a_line_less(tmp_path):
    root = checkpoint(tmp_path / "c")
    path, files = root / "offsets" / "2", LocalFiles(root)
    file = read_offsets(files, "offsets/2")
    assert file.with_one_more() == path.read_bytes() + b"\n-"
    path.write_bytes(file.with_one_more())
    assert read_offsets(files, "offsets/2").offsets == ('{"logOffset": 2}', "-")
    assert read_offsets(files, "offsets/2").without_last() == file.data


def test_a_line_break_at_the_end_is_no_further_source(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "offsets" / "2").write_text(f"v1\n{METADATA}\n{OFFSET}\n")
    found = read_offsets(LocalFiles(root), "offsets/2")
    assert found.with_one_more() == f"v1\n{METADATA}\n{OFFSET}\n-".encode()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "nothing"),
        (f"v3\n{METADATA}\n{OFFSET}", "'v3'"),
        (f"v10\n{METADATA}\n{OFFSET}", "'v10'"),
        (f"{METADATA}\n{OFFSET}", '{"batch'),
        ("v1", "nothing"),
        (f"v1\n\n{OFFSET}", "nothing"),
        (f"v1\n{OFFSET}x\n{OFFSET}", "x"),
        ("v1\n5\n5", "'5'"),
        (f"v1\n{METADATA}", "no further line"),
        (f"v1\n{METADATA}\n{OFFSET}\n\n-", "nothing"),
        (f"v1\n{METADATA}\n{{}}\r\n-", "\\r"),
        (f"v2\n{METADATA}\n5", "'5'"),
        (f"v2\n{METADATA}", "no further line"),
        (f"v2\n{METADATA}\n:-", "':-'"),
        (f"v2\n{METADATA}\norders:{OFFSET}\nothers:", "others:"),
        (b"v1\n\xff\xfe", "utf-8"),
    ],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_another_layout_is_refused(tmp_path, content, found, batch):
    root = checkpoint(tmp_path / "c")
    path = root / "offsets" / str(batch)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = refused(root)
    assert message.startswith(
        f"{path} is not an offset file of a known layout [SM-CHECKPOINT-008]\n"
    )
    assert found in message.split("found: ")[1].split("\n")[0]


def test_a_missing_file_before_the_newest_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "offsets" / "1").unlink()
    assert "found: no such file" in refused(root)


def test_a_commit_without_its_offsets_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    put(root / "commits" / "3", "v1\n{}")
    assert "found: batch 3 in commits/, batch 2 in offsets/" in refused(root)


def test_newest_files_with_different_numbers_of_sources_are_refused(tmp_path):
    root = checkpoint(tmp_path / "c", batches=2)
    run_batch(root, 2, OFFSET, OFFSET)
    assert "found: 1 in offsets/1, 2 in offsets/2" in refused(root)


def test_files_of_a_source_that_the_log_does_not_have_are_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    put(root / "sources" / "1" / "0", "v1")
    assert "found: files of a further source in sources/1" in refused(root)


def test_the_empty_directory_of_a_start_that_failed_is_no_source(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "sources" / "1").mkdir()
    assert adopt(str(root)).sources == 1


def test_a_source_need_not_keep_any_files(tmp_path):
    root = checkpoint(tmp_path / "c", sources=2)
    for each in (root / "sources" / "1").iterdir():
        each.unlink()
    # Kafka's, for one; of files that nobody has taken it could not be told whose they are.
    for each in (root / "offsets").glob("[0-9]*"):
        lines = each.read_text().splitlines()
        each.write_text("\n".join([*lines[:-1], '{"topic":{"0":1}}']))
    assert adopt(str(root)).sources == 2


def test_what_is_not_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    assert "found: notes.txt" in refused(tmp_path / "other")
    assert "found: no such directory" in refused(tmp_path / "nothing")


def test_a_query_without_a_batch_needs_no_adoption(tmp_path):
    root = checkpoint(tmp_path / "c", batches=0)
    assert "use the backfill source from the query's first start" in refused(root)


def test_a_checkpoint_of_the_embedded_engine_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "statemigrate" / "versions").mkdir(parents=True)
    assert "the embedded engine runs its backfill by itself" in refused(root)


def test_another_machine_s_disk_is_refused():
    with pytest.raises(CheckpointError, match="no place on this machine's disks"):
        adopt("file://host/checkpoint")


@pytest.mark.parametrize("command", [adopt, undo_adoption])
def test_named_sources_need_nothing(tmp_path, command):
    root = checkpoint(tmp_path / "c")
    for number in (1, 2):
        put(root / "offsets" / str(number), f"v2\n{METADATA}\norders:{OFFSET}\nothers:-")
    before = tree(root)
    assert command(str(root), apply=True, wait=0).state == "nothing needed"
    assert tree(root) == before


def test_one_file_with_named_sources_and_one_without_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    put(root / "offsets" / "2", f"v2\n{METADATA}\n0:{OFFSET}")
    assert "found: one of each" in refused(root)


def test_a_batch_without_a_commit_needs_a_word_that_the_query_is_stopped(tmp_path):
    root = checkpoint(tmp_path / "c")
    kill_last_batch(root)
    before = tree(root)
    with pytest.raises(CheckpointInUseError, match=r"batch 2 in .* was not committed"):
        adopt(str(root), apply=True, wait=0)
    assert tree(root) == before
    assert adopt(str(root)).state == "would prepare"
    assert adopt(str(root), apply=True, wait=0, stopped=True).state == "prepared"


@pytest.mark.parametrize("folder", ["offsets", "commits", "sources/0", "state/0/1"])
def test_a_checkpoint_that_changes_is_in_use(tmp_path, folder, while_watched):
    root = checkpoint(tmp_path / "c")
    (root / folder).mkdir(parents=True, exist_ok=True)
    before = tree(root)
    while_watched(lambda: write_until_seen(root / folder))
    with pytest.raises(CheckpointInUseError, match=f"found: changes in {root / folder}"):
        adopt(str(root), apply=True, wait=0.5, stopped=True)
    for left in (root / folder).glob(".*.tmp"):
        left.unlink()
    assert tree(root) == before


def test_a_checkpoint_is_watched_for_as_long_as_asked(tmp_path, while_watched):
    watched = while_watched(lambda: None)
    adopt(str(checkpoint(tmp_path / "c")), apply=True, wait=0.3)
    assert watched == [0.3]
