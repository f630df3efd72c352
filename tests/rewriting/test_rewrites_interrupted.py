"""A rewrite that ends anywhere leaves no checkpoint and goes on; what it made is compared."""

import json
import re
import shutil
from pathlib import Path

import pytest
import rewritten_code as code
from rewritten_queries import Feed, rewritten, rows_of, run, session_with
from support.new_checkpoints import is_shut

from statemigrate.cli import main
from statemigrate.commands.rewrite import verify
from statemigrate.errors import CheckpointError, RewriteError
from statemigrate.files.local import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def old(spark, tmp_path_factory):
    """The checkpoint of two operators, which no test changes."""
    top = tmp_path_factory.mktemp("interrupted")
    feed = Feed(top / "input")
    feed.add(rows_of(*[(f"k{n % 7}", n, 100 + n % 50) for n in range(60)]))
    run(session_with(spark, "rocksdb"), feed, code.distinct_then_windows, top / "old", "update")
    return top / "old"


class EndedError(Exception):
    """The process ends here."""


def ending_at(monkeypatch, count):
    """End at the file of this number that is written at the driver; return the names written."""
    names = []

    def counted(method):
        def call(self, name, *args, **kwargs):
            if len(names) == count:
                raise EndedError
            names.append(name)
            return method(self, name, *args, **kwargs)

        return call

    for each in ("put", "replace", "create"):
        monkeypatch.setattr(LocalFiles, each, counted(getattr(LocalFiles, each)))
    return names


def test_wherever_it_ends_there_is_none_or_a_whole_checkpoint(spark, old, tmp_path, monkeypatch):
    new = tmp_path / "new"
    for count in range(40):
        with monkeypatch.context() as patched:
            names = ending_at(patched, count)
            try:
                made = rewritten(spark, old, new, partitions=3)
            except EndedError:
                assert is_shut(new)
                continue
        assert names[-1] == "metadata"
        break
    assert made.report.families[0].total.count > 0
    assert count > 5, "it went on from where it was, file by file"
    assert verify(old, new, spark=spark).problems == ()
    assert not (new / "statemigrate" / "rewriting.json").exists()


def test_another_plan_begins_anew_in_what_a_rewrite_has_begun(spark, old, tmp_path, monkeypatch):
    new = tmp_path / "new"
    with monkeypatch.context() as patched:
        ending_at(patched, 3)
        with pytest.raises(EndedError):
            rewritten(spark, old, new, partitions=3)
    made = rewritten(spark, old, new, partitions=2)
    assert sorted(made.report.families[0].written) == [0, 1]
    assert verify(old, new, spark=spark).problems == ()


def test_a_directory_that_is_not_ours_is_left_alone(spark, old, tmp_path):
    (tmp_path / "new" / "state").mkdir(parents=True)
    (tmp_path / "new" / "state" / "mine").touch()
    with pytest.raises(RewriteError, match="has other things in it"):
        rewritten(spark, old, tmp_path / "new")
    with pytest.raises(RewriteError, match="is the old checkpoint"):
        rewritten(spark, old, old)


def test_a_row_that_was_lost_afterwards_is_found(spark, old, tmp_path):
    new = tmp_path / "new"
    rewritten(spark, old, new, partitions=3)
    for path in (new / "state" / "1").glob("[01]/*.changelog"):
        others = new / "state" / "1" / ("1" if path.parent.name == "0" else "0") / path.name
        shutil.copy(path, others)
        break
    problems = verify(old, new, spark=spark).problems
    assert any("new deduplicate-1" in each and "not in the partition" in each for each in problems)


def test_what_no_rewrite_has_made_is_not_compared(spark, old):
    with pytest.raises(CheckpointError, match="was not made by a rewrite"):
        verify(old, old, spark=spark)


def test_the_command_line_asks_then_writes_then_compares(spark, old, tmp_path, capsys):
    new = str(tmp_path / "new")
    arguments = [str(old), new, "--code", "rewritten_code:windows_alone"]
    arguments += ["--old-code", "rewritten_code:distinct_then_windows"]
    arguments += ["--input", "events=k STRING, region STRING, v BIGINT, at TIMESTAMP"]

    def called(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return ended.value.code, capsys.readouterr()

    status, said = called("rewrite", *arguments)
    assert status == 1
    assert "? the new code has no deduplicate-1: is all of its state to go?" in said.out
    (accepted,) = re.findall(r"--accept (deduplicate-1:[0-9a-f]{6})\n", said.out)
    status, said = called("rewrite", *arguments, "--apply")
    assert (status, "1 question is open" in said.err) == (1, True)
    status, said = called("rewrite", *arguments, "--accept", "deduplicate-1", "--apply")
    assert (status, "does not say which question" in said.err) == (1, True)
    assert accepted in said.err
    assert not Path(new).exists()
    status, said = called("rewrite", *arguments, "--accept", accepted, "--apply")
    assert status == 0, said.err
    assert f"Next: `statemigrate rewrite {old} {new} --verify`" in said.out
    status, said = called("rewrite", "--verify", str(old), new)
    assert (status, "Next: start the new code on it" in said.out) == (0, True)
    status, said = called("rewrite", "--verify", str(old), new, "--json")
    assert json.loads(said.out)["problems"] == []
    status, said = called("status", new)
    assert (status, "Rewritten from" in said.out) == (0, True)
    status, said = called("rewrite", *arguments, "--start", "x=[")
    assert (status, "is no JSON" in said.err) == (2, True)


@pytest.mark.parametrize("way", ["gone", "altered"])
def test_state_that_cannot_be_loaded_is_a_problem_with_its_file(spark, old, tmp_path, way):
    new = tmp_path / "new"
    rewritten(spark, old, new, partitions=3)
    (path,) = (new / "state" / "1" / "1").glob("*.changelog")
    data = path.read_bytes()
    path.unlink()
    if way == "altered":
        path.write_bytes(data[: len(data) // 2])
    problems = verify(old, new, spark=spark).problems
    assert len(problems) == 1
    assert "new deduplicate-1: partition 1 of store default" in problems[0]
    assert str(path) in problems[0]


def test_logs_that_were_altered_afterwards_are_found(spark, old, tmp_path):
    new = tmp_path / "new"
    rewritten(spark, old, new, partitions=3)
    (log,) = (new / "sources" / "0").iterdir()
    log.unlink()
    assert any(f"sources/0/{log.name}" in each for each in verify(old, new, spark=spark).problems)
