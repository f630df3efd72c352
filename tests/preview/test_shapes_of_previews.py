"""Previews of what is unusual: killed ones, copies, odd names, and commands as users give them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import deployed_processors
import previewed_code as code
import pytest
from click.testing import CliRunner
from previewed_query import Query, fields, named
from support.file_hashes import file_hashes

from statemigrate.cli import main
from statemigrate.commands.preview_page import preview_junit, preview_page
from statemigrate.errors import StatemigrateError
from statemigrate.preview.workspace import workspace

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def sums(spark, tmp_path_factory):
    return Query(spark, tmp_path_factory.mktemp("sums"), code.sums, "update", batches=3)


def test_null_in_place_of_zero_is_found_on_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("previewed_query.events", zeros)
    query = Query(spark, tmp_path, code.sums, "update", batches=3)
    wrong = query.preview(code.sums_with_null_for_zero, batches=2)
    assert fields(wrong) == {("aggregation-0", "sum"), ("output", "total")}
    found = wrong.batches[-1].stores[0].examples
    assert {(each.before["sum"], each.after["sum"]) for each in found} == {(0, None)}


def zeros(batch):
    for k, v in ((f"nothing-{batch}", 0), ("something", 1)):
        yield json.dumps({"k": k, "v": v, "id": batch, "at": "2026-01-01T00:00:00Z"})


def test_names_of_any_characters_are_previewed_and_written_as_text(spark, tmp_path):
    query = Query(spark, tmp_path, code.by_odd_names, "update", batches=3)
    assert query.preview(code.by_odd_names, batches=2).unexpected == ()
    wrong = query.preview(code.by_odd_names_doubled, batches=2)
    assert fields(wrong) == {("aggregation-0", "sum"), ("output", "x.y")}
    page = preview_page(wrong)
    assert "'<b>" not in page
    assert "<script" not in page
    cases = ET.fromstring(preview_junit(wrong)).iter("testcase")  # noqa: S314 - written here
    failed = {case.get("name") for case in cases if case.find("failure") is not None}
    assert failed == {"aggregation-0 is as expected", "output is as expected"}


def test_a_copied_checkpoint_is_previewed_as_the_first(spark, tmp_path):
    query = Query(spark, tmp_path / "first", code.processed, "update", batches=3)
    shutil.copytree(query.checkpoint, tmp_path / "copy")
    shutil.move(query.checkpoint, tmp_path / "gone")
    query.checkpoint = tmp_path / "copy"
    assert query.preview(code.processed, batches=2).unexpected == ()


def test_a_processor_that_was_made_for_a_checkpoint_on_import_is_refused(sums):
    # It needs the session.
    import deployed_on_import

    with pytest.raises(StatemigrateError) as raised:
        sums.preview(deployed_on_import.totals, old=False)
    assert raised.value.code == "SM-PREVIEW-013"
    assert deployed_on_import.CHECKPOINT in str(raised.value)


def test_a_marked_class_works_on_a_copy_of_the_checkpoint_that_it_names(spark, tmp_path):
    query = Query(spark, tmp_path, code.processed, "update", batches=3)
    found = query.preview(code.on_a_named_checkpoint, batches=2)
    assert (found.path, found.noise, found.unexpected) == ("as it is", (), ())
    assert not Path(deployed_processors.CHECKPOINT).exists()


def test_a_folder_that_is_in_use_stays_and_an_abandoned_one_goes(tmp_path):
    with workspace("preview-", tmp_path) as first:
        abandoned = tmp_path / "preview-abandoned"
        shutil.copytree(first, abandoned)
        with workspace("preview-", tmp_path) as second:
            assert {each.name for each in tmp_path.iterdir()} == {first.name, second.name}
    assert list(tmp_path.iterdir()) == []


def test_a_preview_that_is_killed_leaves_nothing_for_long(sums, tmp_path):
    before = file_hashes(sums.checkpoint)
    arguments = ["preview", str(sums.checkpoint), "--code", sums.name, "--old-code", sums.name]
    command = [sys.executable, "-m", "statemigrate", *arguments, "--output-mode", "update"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    folder = Path(__file__).parent
    run = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while not list(tmp_path.glob("statemigrate-preview-*/control-0/commits/*")):
            assert run.poll() is None, "it ended before it ran a batch"
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait(60)
    assert file_hashes(sums.checkpoint) == before
    with workspace("statemigrate-preview-", tmp_path):
        pass
    assert list(tmp_path.glob("statemigrate-preview-*")) == []


def command(*arguments):
    return CliRunner().invoke(main, ["preview", *map(str, arguments)])


@pytest.fixture
def in_project(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_exits_with_0_1_and_2_and_writes_what_it_is_asked_for(sums, in_project):
    modes = ("--output-mode", "update", "--batches", "2")
    wrong = (sums.checkpoint, "--code", named(code.sums_with_null_for_zero), *modes)
    right = command(sums.checkpoint, "--code", sums.name, *modes, "--json")
    assert right.exit_code == 0, right.output
    assert json.loads(right.stdout)["expected"] is True
    files = ("--html", "page.html", "--junit", "junit.xml")
    other = named(code.sums_of_another_field)
    differing = command(sums.checkpoint, "--code", other, *modes, "--markdown", *files)
    assert differing.exit_code == 1, differing.output
    assert "| 0 | 0 | 14 | sum 14 |" in differing.stdout
    assert "<html" in (in_project / "page.html").read_text()
    suites = ET.parse(in_project / "junit.xml").getroot()  # noqa: S314 - written here
    assert suites.get("failures") == "1"
    assert (in_project / "page.html").stat().st_mode & 0o077 == 0
    assert command(*wrong, "--max-bytes", "10").exit_code == 2
    assert command(*wrong, "--save", "saved", "--old-code", sums.name).exit_code == 2
    assert command(*wrong, "--source", "nothing").exit_code == 2


def test_the_command_saves_a_bundle_and_previews_it(sums, in_project):
    modes = ("--output-mode", "update")
    saved = command(sums.checkpoint, "--code", sums.name, *modes, "--batches", "2", "--save", "b")
    assert saved.exit_code == 0, saved.output
    assert command("b", "--code", sums.name, *modes).exit_code == 0
    assert command("b", "--code", named(code.sums_of_another_field), *modes).exit_code == 1
    (in_project / "b" / "manifest.json").unlink()
    cut = command("b", "--code", sums.name, *modes)
    assert cut.exit_code == 1
    assert "SM-PREVIEW-021" in cut.output
