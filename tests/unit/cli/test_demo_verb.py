"""`demo` as a user meets it, up to where Spark would start."""

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from statemigrate.cli.demo_command import DemoView
from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.stage import BatchOutcome, Crash
from statemigrate.demo.story import (
    ActBegun,
    BatchDone,
    Finished,
    Killed,
    PlainBatchDone,
    Previewed,
    Refused,
    Rewritten,
)
from statemigrate.demo.verdict import (
    BatchTimes,
    Figures,
    KeyComparison,
    MigrationFigures,
    PreviewedChange,
    PreviewFigures,
    RewriteFigures,
    RewritingFigures,
)
from statemigrate.errors import CheckpointError

EQUAL = KeyComparison(1000, 0, 0, 0, 0)
GOOD = Figures(
    options=DemoOptions(3000, 1000),
    crash=Crash(5, 4, 2),
    rerun_batch=5,
    before=BatchTimes(5, 1250, 900.0, 900.0),
    after=BatchTimes(7, 1750, 1000.0, 950.0),
    migration=MigrationFigures(700, 200, 500, 0, ("auctions",)),
    state=EQUAL,
    output=EQUAL,
    seconds={"all": 50.0},
)
REWRITING = RewritingFigures(1500, 1000, 500, 0, (300, 400, 300), 2.5, ())
REWRITTEN = RewriteFigures(
    options=DemoOptions(3000, 1000, 2, engine="rewrite"),
    crash=Crash(6, 2, 1),
    rerun_batch=6,
    last_batch=8,
    first_batch=9,
    refused=True,
    before=BatchTimes(6, 1500, 900.0, None),
    after=BatchTimes(3, 750, 800.0, None),
    rewriting=REWRITING,
    state=EQUAL,
    output=EQUAL,
    seconds={"all": 50.0},
)


def batch(number, touched, backfilled, left, retired=(), alone=79.6):
    return BatchOutcome(number, 250, left, touched, backfilled, 100.0, alone, retired)


def drawn(*steps, quiet=False):
    text = io.StringIO()
    with DemoView(Console(file=text, width=200), quiet=quiet) as view:
        for step in steps:
            view.show(step)
    return text.getvalue()


def test_a_cluster_is_not_for_the_embedded_engine(run):
    output = run("demo", "--engine", "embedded", "--master", "spark://host:7077", code=2).output
    assert "keeps its state on one machine" in output
    assert "--engine native" in output


def test_sizes_that_show_nothing_are_bad_usage(run):
    output = run("demo", "--events", "1000", "--keys", "1000", code=2).output
    assert "1000 events are too few for 1000 keys" in output
    assert "--events 3000" in output


def test_without_java_nothing_is_started(run, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    output = run("demo", "--directory", "kept", code=1).output
    assert "Spark needs Java 17 or newer" in output
    assert not (tmp_path / "kept").exists()


@pytest.fixture
def java(tmp_path, monkeypatch):
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("option", ["--keep", "--directory"])
def test_a_directory_in_use_is_refused(run, tmp_path, option):
    output = run("demo", option, str(tmp_path), code=1).output
    assert "a new or an empty directory" in output
    assert "--keep FOLDER" in output


def ended(options, folder, settings):
    entities = pa.table({"entity": ["person-1", "auction-30", "auction-4"]})
    pq.write_table(entities, folder.expected)
    return GOOD


@pytest.mark.usefixtures("java")
def test_what_is_kept_is_a_project_with_commands_to_type_in_it(run, tmp_path, monkeypatch):
    monkeypatch.setattr("statemigrate.cli.demo_command._run", ended)
    output = run("demo", "--keep", "--partitions", "2").output
    assert output.splitlines() == [
        "Kept in statemigrate-demo. Next:",
        "  cd statemigrate-demo",
        "  statemigrate status",
        "  statemigrate get auctions auction-30",
        "  statemigrate history auctions",
    ]
    monkeypatch.chdir("statemigrate-demo")
    assert {each.name for each in Path().iterdir()} >= {"pyproject.toml", "migrations", "output"}
    assert sorted(each.name for each in Path("jobs").iterdir()) == [
        "after.py",
        "before.py",
        "native.py",
    ]
    assert "Group item and price" in run("history", "auctions").output


@pytest.mark.usefixtures("java")
def test_what_is_not_kept_leaves_the_word_that_it_could_be(run, tmp_path, monkeypatch):
    monkeypatch.setattr("statemigrate.cli.demo_command._run", ended)
    places = []
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: places.append(tmp_path / "x") or places[0])
    assert "--keep leaves checkpoint, scripts and sink" in run("demo").output
    assert not places[0].exists()


def test_the_help_says_what_the_run_shows(run):
    output = run("demo", "--help").output
    assert "300000" in output
    assert "compared with a batch computation over all events" in " ".join(output.split())


def test_a_batch_is_a_line_with_its_figures():
    text = drawn(
        ActBegun("Act 2", "what happens"),
        BatchDone(batch(5, 131, 683, 1234), migrating=True),
        BatchDone(batch(6, 0, 0, 0, ("auctions",)), migrating=True),
        BatchDone(batch(7, 0, 0, 0, alone=None), migrating=True),
    )
    lines = text.splitlines()
    assert lines[1:3] == ["Act 2", "what happens"]
    assert lines[4].split() == ["5", "250", "1,234", "131", "683", "100", "80"]
    assert lines[6].split() == ["dropped:", "auctions"]
    assert lines[7].split()[-1] == "-"
    assert max(map(len, lines)) <= 80


def test_the_kill_says_how_far_the_batch_was():
    assert "SIGKILL in batch 5: 2 of 4 partitions" in drawn(Killed(Crash(5, 4, 2)))


def test_a_good_end_says_so_with_its_figures():
    text = drawn(Finished(GOOD))
    assert "Every key is right" in text
    assert "migrated by touch 200, by backfill 500, left 0; families dropped: auctions." in text


def test_machines_get_nothing_but_the_figures():
    assert drawn(ActBegun("Act 1", "text"), Finished(GOOD), quiet=True) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"state": replace(EQUAL, missing=1)},
        {"output": replace(EQUAL, differing=1, counted_twice=1)},
        {"output": replace(EQUAL, unexpected=1)},
        {"state": replace(EQUAL, keys=0)},
        {"rerun_batch": 6},
        {"migration": replace(GOOD.migration, left=1)},
        {"migration": replace(GOOD.migration, backfilled=501)},
        {"migration": replace(GOOD.migration, retired=())},
    ],
)
def test_any_difference_is_no_good_end(change):
    figures = replace(GOOD, **change)
    assert GOOD.is_good
    assert not figures.is_good
    assert figures.to_json()["equal"] is False
    assert "The outcome is not what it must be." in drawn(Finished(figures))


def test_examples_of_differences_are_shown():
    wrong = replace(EQUAL, missing=1, examples=("auction-7: expected (1,), found None",))
    text = drawn(Finished(replace(GOOD, state=wrong)))
    assert "state: auction-7: expected (1,), found None" in text
    assert "DIFFERENT" in text


def test_a_rewrite_is_told_from_its_refusal_to_its_rows():
    error = CheckpointError(
        "SM-CHECKPOINT-003", "batch 6 is not committed", next_action="let the query finish it"
    )
    text = drawn(
        PlainBatchDone(batch(5, 0, 0, 0)), Refused(error), Rewritten(REWRITING), Finished(REWRITTEN)
    )
    assert text.splitlines()[1].split() == ["5", "250", "100"]
    assert "statemigrate rewrite: batch 6 is not committed" in text
    assert "Next: let the query finish it" in text
    assert "300 400 300" in text
    assert "1,500 read = 1,000 written + 500 merged + 0 dropped; verify found no difference" in text
    assert "no value was lost, none was counted twice." in text


@pytest.mark.parametrize(
    "change",
    [
        {"state": replace(EQUAL, missing=1)},
        {"output": replace(EQUAL, differing=1)},
        {"rerun_batch": 7},
        {"first_batch": 8},
        {"refused": False},
        {"rewriting": replace(REWRITING, written=999)},
        {"rewriting": replace(REWRITING, problems=("old aggregation-0: ...",))},
        {"rewriting": replace(REWRITING, written=1500, merged=0)},
    ],
)
def test_any_difference_is_no_good_end_of_a_rewrite(change):
    figures = replace(REWRITTEN, **change)
    assert REWRITTEN.is_good
    assert figures.to_json()["equal"] is False
    assert "The outcome is not what it must be." in drawn(Finished(figures))


CHANGE = PreviewedChange(
    batches=(8, 9),
    totals=(
        {"store": "aggregation-0", "added": 0, "missing": 0, "changed": 7, "fields": {"sum": 7}},
    ),
    unexpected=("batch 8: aggregation-0.sum: 7 values differ",),
    example={"change": "changed", "key": {"entity": "auction-1"}, "before": {"sum": 1250, "n": 2},
             "after": {"sum": 1200, "n": 2}},
    unchanged=True,
)  # fmt: skip


def test_a_previewed_change_is_drawn_with_its_fields_and_an_example():
    text = drawn(Previewed(CHANGE))
    assert "over 2 batches" in text
    assert "sum 7" in text
    assert "For example auction-1: sum 1,250 -> 1,200\n" in text
    assert "not expected: batch 8: aggregation-0.sum: 7 values differ" in text
    assert "Nothing differs." in drawn(Previewed(replace(CHANGE, unexpected=(), example=None)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (replace(CHANGE, totals=()), replace(CHANGE, totals=(), unexpected=())),
        (CHANGE, CHANGE),
    ],
    ids=["the fault is not found", "the corrected code differs"],
)
def test_a_preview_that_finds_something_else_is_no_good_end(first, second):
    figures = PreviewFigures(DemoOptions(3000, 1000, engine="preview"), first, second, {"all": 1.0})
    assert not figures.is_good
    assert "The outcome is not what it must be." in drawn(Finished(figures))
