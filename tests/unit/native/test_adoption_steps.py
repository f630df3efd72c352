"""What adopting and undoing change, and that a crash between any two steps can be mended."""

import itertools
import json
from pathlib import Path

import pytest
from support.offset_logs import checkpoint, kill_last_batch, lines, run_batch, tree

from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.native.adoption import (
    adopt,
    adopting,
    plan_adoption,
    plan_undoing,
    undo_adoption,
    undoing,
)
from statemigrate.native.adoption_files import OffsetLog

CONTROL = ['{"logOffset":7}', '{"logOffset":0}']


def do(command, root, **options):
    return command(str(root), apply=True, wait=0, **options)


def without_backup(root):
    return {name: data for name, data in tree(root).items() if not name.startswith("statemigrate")}


def backup_of(root, number=1) -> Path:
    return root / "statemigrate" / "adoption" / str(number)


def record(root, number=1):
    return json.loads((backup_of(root, number) / "record.json").read_text())


def crashed(steps, after):
    """Take so many steps and no more; False if there were not so many."""
    return len(list(itertools.islice(steps, after))) == after


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("batches", "sources"), [(1, 1), (2, 1), (12, 3)])
def test_adopting_adds_a_line_to_the_newest_files_and_nothing_else(
    tmp_path, batches, sources, killed
):
    root = checkpoint(tmp_path / "c", batches=batches, sources=sources)
    if killed:
        kill_last_batch(root)
    before = tree(root)
    done = do(adopt, root, stopped=killed)
    numbers = range(max(batches - 2, 0), batches)
    expected = dict(before)
    for number in numbers:
        expected[f"offsets/{number}"] += b"\n-"
        del expected[f"offsets/.{number}.crc"]
    assert without_backup(root) == expected
    assert done.state == "prepared"
    assert done.sources == sources
    assert [(file.path, file.added, file.removed, file.checksum) for file in done.files] == [
        (f"offsets/{number}", ("-",), (), "removed") for number in numbers
    ]


def test_the_backup_has_the_originals_and_says_what_was_done(tmp_path):
    root = checkpoint(tmp_path / "c")
    before = tree(root)
    do(adopt, root)
    kept = tree(backup_of(root) / "offsets")
    assert kept == {name: before[f"offsets/{name}"] for name in ("1", ".1.crc", "2", ".2.crc")}
    written = record(root)
    assert (written["progress"], written["sources"]) == ("adopted", 1)
    assert [each["batch"] for each in written["files"]] == [1, 2]
    assert written["since"].endswith("+00:00")


def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path):
    root = checkpoint(tmp_path / "c")
    before = tree(root)
    dry = adopt(str(root))
    assert tree(root) == before
    done = do(adopt, root)
    assert (dry.state, dry.files, dry.backup) == ("would prepare", done.files, done.backup)
    run_batch(root, 3, *CONTROL)
    before = tree(root)
    dry = undo_adoption(str(root))
    assert tree(root) == before
    done = do(undo_adoption, root)
    assert (dry.state, dry.files, dry.moved) == ("would undo", done.files, done.moved)


def test_an_adopted_query_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    do(adopt, root)
    for ran in (False, True):
        if ran:
            run_batch(root, 3, *CONTROL)
        before = tree(root)
        with pytest.raises(CheckpointError, match=r"was prepared already"):
            do(adopt, root)
        assert tree(root) == before


@pytest.mark.parametrize("sources", [1, 2])
def test_undoing_before_any_batch_restores_every_byte(tmp_path, sources):
    root = checkpoint(tmp_path / "c", sources=sources)
    before = tree(root)
    do(adopt, root)
    done = do(undo_adoption, root)
    assert without_backup(root) == before
    assert [(file.removed, file.checksum) for file in done.files] == [(("-",), "restored")] * 2


def test_a_line_break_at_the_end_is_restored_too(tmp_path):
    root = checkpoint(tmp_path / "c")
    with (root / "offsets" / "2").open("a") as file:
        file.write("\n")
    before = tree(root)
    do(adopt, root)
    assert lines(root)[2] == ['{"logOffset": 2}', "-"]
    do(undo_adoption, root)
    assert without_backup(root) == before


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_undoing_after_batches_takes_the_last_source_out(tmp_path, batches):
    root = checkpoint(tmp_path / "c")
    do(adopt, root)
    for number in range(3, 3 + batches):
        run_batch(root, number, f'{{"logOffset":{number}}}', f'{{"logOffset":{number - 3}}}')
    kept = tree(root / "sources" / "1")
    done = do(undo_adoption, root)
    newest = 2 + batches
    assert lines(root)[newest] == [f'{{"logOffset":{newest}}}']
    assert len(lines(root)[newest - 1]) == 1
    assert (root / "offsets" / f".{newest - 1}.crc").exists() == (batches == 1)
    assert not (root / "offsets" / f".{newest}.crc").exists()
    assert done.moved == "sources/1"
    assert not (root / "sources" / "1").exists()
    assert tree(backup_of(root) / "sources" / "1") == kept


def test_undone_files_are_kept_as_they_were(tmp_path):
    root = checkpoint(tmp_path / "c")
    do(adopt, root)
    run_batch(root, 3, *CONTROL)
    before = tree(root)
    do(undo_adoption, root)
    kept = tree(backup_of(root) / "undone")
    assert kept == {name: before[f"offsets/{name}"] for name in ("2", "3", ".3.crc")}


def test_adopting_again_has_a_backup_of_its_own(tmp_path):
    root = checkpoint(tmp_path / "c")
    for number in (1, 2, 3):
        do(adopt, root)
        assert record(root, number)["progress"] == "adopted"
        run_batch(root, 2 + number, *CONTROL)
        do(undo_adoption, root)
        assert record(root, number)["progress"] == "undone"
    assert lines(root)[5] == CONTROL[:1]


@pytest.mark.parametrize("adopted", [False, True])
def test_what_is_not_adopted_is_not_undone(tmp_path, adopted):
    root = checkpoint(tmp_path / "c", sources=2)
    if adopted:
        do(adopt, root)
        do(undo_adoption, root)
    before = tree(root)
    with pytest.raises(CheckpointError, match="is not prepared"):
        do(undo_adoption, root)
    assert tree(root) == before


@pytest.mark.parametrize("finish", [adopt, undo_adoption])
def test_a_crash_while_adopting_is_mended_by_either_command(tmp_path, finish):
    for after in itertools.count():
        root = checkpoint(tmp_path / f"{after}")
        before = tree(root)
        whole = crashed(adopting(plan_adoption(OffsetLog(str(root)))), after)
        if not whole:
            break
        begun = (backup_of(root) / "record.json").exists()
        if finish is undo_adoption and begun:
            do(undo_adoption, root)
            assert {k: v for k, v in without_backup(root).items() if ".crc" not in k} == {
                k: v for k, v in before.items() if ".crc" not in k
            }
        elif not begun or record(root)["progress"] != "adopted":
            do(adopt, root)
            assert lines(root) == {
                0: ['{"logOffset": 0}'],
                1: ['{"logOffset": 1}', "-"],
                2: ['{"logOffset": 2}', "-"],
            }
            assert not list((root / "offsets").glob(".[12].crc"))
            do(undo_adoption, root)
            assert without_backup(root) == before
    assert after == 9


def test_after_a_crash_the_log_is_as_before_or_says_how_to_go_on(tmp_path):
    """As long as one file has no line more, Spark refuses to start; with none it goes on."""
    for after in range(9):
        root = checkpoint(tmp_path / f"{after}")
        crashed(adopting(plan_adoption(OffsetLog(str(root)))), after)
        files = [root / "offsets" / name for name in ("1", "2")]
        for file in files:
            checksum = file.with_name(f".{file.name}.crc")
            assert not (checksum.exists() and file.read_text().endswith("-"))
        if all(len(lines(root)[number]) == 1 for number in (1, 2)):
            run_batch(root, 3, '{"logOffset":3}')
            do(adopt, root)
            assert lines(root)[3] == ['{"logOffset":3}', "-"]
            assert lines(root)[2] == ['{"logOffset": 2}', "-"]


@pytest.mark.parametrize("ran", [False, True])
def test_a_crash_while_undoing_is_mended_by_undoing_again(tmp_path, ran):
    for after in itertools.count():
        root = checkpoint(tmp_path / f"{after}")
        do(adopt, root)
        if ran:
            run_batch(root, 3, *CONTROL)
        if not crashed(undoing(plan_undoing(OffsetLog(str(root)))), after):
            break
        if record(root)["progress"] == "undoing":
            before = tree(root)
            with pytest.raises(CheckpointError, match="was not undone to its end"):
                do(adopt, root)
            assert tree(root) == before
        if record(root)["progress"] != "undone":
            do(undo_adoption, root)
        assert lines(root)[2] == ['{"logOffset": 2}']
        assert lines(root).get(3, CONTROL[:1]) == CONTROL[:1]
        assert not (root / "sources" / "1").exists()
        assert do(adopt, root).backup.endswith("/2")
    assert after > 8


def test_a_query_that_ran_on_without_the_control_source_can_be_adopted_once_more(tmp_path):
    root = checkpoint(tmp_path / "c")
    do(adopt, root)
    run_batch(root, 3, '{"logOffset":3}')
    do(adopt, root)
    assert lines(root)[3] == ['{"logOffset":3}', "-"]
    assert lines(root)[2] == ['{"logOffset": 2}', "-"]
    assert [each["batch"] for each in record(root, 2)["files"]] == [3]


def test_a_query_that_ran_on_with_the_control_source_can_be_undone_once_more(tmp_path):
    root = checkpoint(tmp_path / "c")
    do(adopt, root)
    run_batch(root, 3, *CONTROL)
    do(undo_adoption, root)
    run_batch(root, 4, *CONTROL)
    with pytest.raises(CheckpointError, match="was not undone to its end"):
        do(adopt, root)
    do(undo_adoption, root)
    assert lines(root)[3] == lines(root)[4] == CONTROL[:1]
    assert not (root / "sources" / "1").exists()
    assert {each.name for each in (backup_of(root) / "sources").iterdir()} == {"1", "1-2"}
    assert do(adopt, root).backup.endswith("/2")


def test_an_altered_record_or_copy_is_noticed(tmp_path):
    root = checkpoint(tmp_path / "c")
    do(adopt, root)
    (backup_of(root) / "offsets" / "2").write_text("v1")
    with pytest.raises(CorruptFileError, match="is not what was written"):
        do(undo_adoption, root)
    (backup_of(root) / "record.json").write_text("{}")
    with pytest.raises(CorruptFileError, match=r"record.json is not what was written"):
        do(undo_adoption, root)


def test_a_folder_that_cannot_be_written_is_an_error_that_says_how_to_go_on(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "statemigrate").write_text("not a directory")
    before = tree(root)
    with pytest.raises(CheckpointError, match="run the same command again"):
        do(adopt, root)
    assert tree(root) == before


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "offsets" / "2").chmod(0o664)
    do(adopt, root)
    assert (root / "offsets" / "2").stat().st_mode & 0o777 == 0o664
