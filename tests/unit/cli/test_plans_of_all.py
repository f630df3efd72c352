"""`plan` over the checkpoints that a project names, and its page."""

import json
from pathlib import Path

import pytest
from support.spark_checkpoints import aggregation, variables

from statemigrate import NamedCheckpoint, plan, plan_page
from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.shape import describe
from statemigrate.commands.plan_costs import costs_of
from statemigrate.files.open import open_files


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    aggregation(tmp_path / "first")
    variables(tmp_path / "second")

    def write(text):
        Path("statemigrate.toml").write_text(f"[checkpoints]\n{text}\n")

    return write


def test_every_checkpoint_has_a_plan_or_an_error_and_what_cannot_be_read_comes_first(project):
    named = [NamedCheckpoint("one", "first"), NamedCheckpoint("gone", "nowhere")]
    found = plan(checkpoints=named, migrations=None)
    assert [each.checkpoint.name for each in found.by_need] == ["gone", "one"]
    assert [each.plan is None for each in found.by_need] == [True, False]
    assert found.asks
    assert found.by_need[0].error.code == "SM-CHECKPOINT-003"


def test_the_command_plans_for_all_and_exits_with_1_if_one_cannot_be_read(project, run):
    project('one = "first"\ntwo = "second"\ngone = "nowhere"')
    ran = run("--json", "plan", "--all", code=1)
    found = json.loads(ran.stdout)["checkpoints"]
    assert [(each["name"], each["error"] is None) for each in found] == [
        ("gone", False),
        ("one", True),
        ("two", True),
    ]
    assert "SM-CHECKPOINT-003" in run("plan", "--all", code=1).stderr
    ran = run("plan", "--all", "--match", "[ot]*")
    assert ran.stdout.count("nothing to do") == 2


def test_a_batch_that_is_begun_and_not_committed_is_named(project, run):
    project("")
    assert plan("first", migrations=None).open_batch is None
    Path("first/offsets/4").write_bytes(Path("first/offsets/3").read_bytes())
    found = plan("first", migrations=None)
    assert (found.batch, found.open_batch) == (3, 4)
    assert "batch 4 is begun" in run("plan", "first").stdout
    assert json.loads(run("--json", "plan", "first").stdout)["open_batch"] == 4
    assert "batch 4" in plan_page(found)


def test_all_takes_neither_a_checkpoint_nor_code(project, run):
    project('one = "first"')
    assert "pyproject.toml" in run("plan", "first", "--all", code=2).stderr
    assert "pyproject.toml" in run("plan", "--all", "--code", "a:b", code=2).stderr
    assert "--all" in run("plan", "first", "--match", "o*", code=2).stderr


def test_the_query_of_a_named_checkpoint_is_its_code(project, run):
    project('one = {path = "first", query = "no_such_module:orders"}')
    for words in (["plan", "one"], ["plan", "--all"]):
        ran = run(*words, code=1)
        assert "no_such_module" in ran.stderr
        assert "SM-CODE-" in ran.stderr


def test_a_page_shows_each_checkpoint_and_no_text_of_theirs_as_markup(project, run):
    project('one = "first"\ngone = "nowhere"\n"<b>two</b>" = "second"')
    run("plan", "--all", "--html", "plan.html", code=1)
    text = Path("plan.html").read_text()
    assert "1 of 3 checkpoints need something first" in text
    assert "&lt;b&gt;two&lt;/b&gt;" in text
    assert "<b>two" not in text
    assert "nothing to do" in text


def test_a_page_of_no_change_is_good(project):
    found = plan(checkpoints=[NamedCheckpoint("one", "first")], migrations=None)
    assert "The code can start as it is." in plan_page(found)


def test_times_are_from_the_rows_that_snapshots_count_or_from_the_size_of_files(project):
    for folder, is_counted in (("first", False), ("second", True)):
        files = open_files(folder)
        found = costs_of(files, describe(files, CheckpointDirectory(files).require_commit()))
        assert found.is_counted is is_counted
        assert found.rows == (2 if is_counted else pytest.approx(8, abs=8))
        assert found.rewrite > found.backfill
