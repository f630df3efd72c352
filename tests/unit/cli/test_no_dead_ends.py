"""Where a user was stopped or misled, the answer says what to do, and that is true."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import checkpoints
from support.offset_logs import checkpoint as native_checkpoint

import statemigrate
from statemigrate.cli.main import OF_ALEMBIC, VERBS


def parts(result):
    """An error's parts by name."""
    first, *rest = result.stderr.splitlines()
    found = dict(line.strip().split(": ", 1) for line in rest if ": " in line)
    return {"error": first.removeprefix("Error: "), **found}


@pytest.fixture
def items(run, tmp_path):
    """A checkpoint of the embedded engine in the folder `checkpoint`, and its scripts."""
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 20)
    return run


@pytest.fixture
def no_spark(monkeypatch):
    def start():
        raise AssertionError("Spark was started")

    monkeypatch.setattr("statemigrate.cli.session.local_session", start)


def test_a_first_script_with_one_format_is_a_baseline_and_says_so(run):
    run("init")
    written = run("new", "bids", "-m", "the bids", "--to", "a INT").stdout.splitlines()
    assert written[1:] == [
        "Store bids had no script: this one records the format of --to as the one that its state "
        "has today",
        "If the state has another one: remove the script, and name that with --from",
        "Next: statemigrate history --show bids",
    ]
    run("check")
    (entry,) = statemigrate.history("bids")
    assert entry.migration.is_baseline
    later = json.loads(run("new", "bids", "-m", "more", "--to", "a INT, b INT", "--json").stdout)
    assert later["baseline"] is False
    assert "old = Struct" in Path(later["path"]).read_text()


@pytest.mark.parametrize("words", [["--from", "a INT", "--to", "a INT"], ["--to", "a INT"]])
def test_a_script_to_the_format_that_there_is_is_refused(run, words):
    run("init")
    if "--from" not in words:
        run("new", "bids", "-m", "as it is", "--to", "a INT")
    before = len(statemigrate.history())
    refused = run("new", "bids", "-m", "other", *words, code=1)
    assert "SM-SCRIPT-033" in refused.stderr
    assert len(statemigrate.history()) == before
    # Other values of one format are a change.
    written = run("new", "bids", "-m", "other values", *words[:-2]).stdout
    assert written.startswith("Wrote ")


def test_a_script_that_is_not_finished_is_found_by_its_place(run):
    run("init")
    first = json.loads(run("new", "bids", "-m", "one", "--to", "a INT", "--json").stdout)["path"]
    second = json.loads(run("new", "bids", "-m", "two", "--to", "b INT", "--json").stdout)["path"]
    for name, path in {
        "head": second,
        "bids@head": second,
        "head-1": first,
        "bids@-1": first,
        "base": first,
        "base+1": second,
    }.items():
        code = 1 if path == second else 0
        assert (
            json.loads(run("history", "--show", name, "--json", code=code).stdout)["path"] == path
        ), name
    error = parts(run("history", "--show", "bids@hed", code=1))
    assert error["error"] == "Store 'bids' has no script 'hed'. [SM-LINEAGE-025]"
    assert error["next"].endswith("; did you mean head?")
    run("new", "asks", "-m", "one", "--to", "a INT")
    error = parts(run("history", "--show", "head", code=1))
    assert error["error"] == (
        "Each store has its own 'head', and there are 2 stores. [SM-LINEAGE-024]"
    )
    assert error["expected"] == "one of asks@head, bids@head"


@pytest.mark.parametrize("names", [["--from-file", "values.jsonl"], ["checkpoint"]])
def test_what_a_dry_run_prints_as_a_key_is_what_get_takes(items, names):
    values = [json.dumps({"key": {"id": 7}, "value": {"cents": 21, "name": None}})]
    Path("values.jsonl").write_text("\n".join(values))
    Path("migrations/versions/amounts.py").write_text(
        checkpoints.SCRIPT.replace('Decimal(value["cents"])', 'Decimal(21 // (value["cents"]-21))')
    )
    result = items("dry-run", "items", *names, code=1)
    (key,) = re.findall(r"key (\S+)$", result.stdout, re.MULTILINE)
    assert key == "'[7]'"
    Path("migrations/versions/amounts.py").write_text(checkpoints.SCRIPT)
    found = json.loads(items("get", "items", "checkpoint", key.strip("'")).stdout)
    assert found == json.loads(items("get", "items", "checkpoint", "7").stdout)


CHECKPOINT = "[CHECKPOINT]"


def test_every_verb_of_one_checkpoint_takes_it_by_position_and_as_an_option(run):
    from click import Context

    from statemigrate.cli import main

    context, found = Context(main), []
    for verb in VERBS:
        command = main.get_command(context, verb)
        if any("--checkpoint" in each.opts for each in command.params):
            usage = " ".join(command.collect_usage_pieces(Context(command)))
            assert CHECKPOINT in usage, verb
            found.append(verb)
    assert {"dry-run", "get", "export", "status", "check", "history"} <= {*found}


@pytest.mark.parametrize(
    "words",
    [
        ["dry-run", "items"],
        ["status", "--failed", "items"],
        ["export", "items", "--output", "out.jsonl"],
        ["history", "items"],
        ["check"],
        ["status"],
    ],
    ids=lambda words: words[0],
)
def test_the_position_is_the_same_as_the_option(items, words):
    by_position = items(*words, "checkpoint", "--json").stdout
    by_option = items(*words, "--checkpoint", "checkpoint", "--json").stdout
    moving = r'"(taken_at|made_at|seconds|rate|committed_at|basis)": ([0-9.e-]+|"[^"]*")'
    assert re.sub(moving, "", by_position) == re.sub(moving, "", by_option)
    both = items(*words, "checkpoint", "--checkpoint", "checkpoint", code=2).stderr
    assert "Name one checkpoint: CHECKPOINT, or --checkpoint PATH." in both
    missing = items(*words, "chekpoint", code=1).stderr
    assert "chekpoint is not the checkpoint of a" in missing


def test_the_key_comes_after_the_checkpoint_unless_that_is_named_elsewhere(items, monkeypatch):
    by_option = items("get", "items", "7", "--checkpoint", "checkpoint").stdout
    assert items("get", "items", "checkpoint", "7").stdout == by_option
    assert "Name the checkpoint and a key" in items("get", "items", "7", code=2).stderr
    monkeypatch.setenv("STATEMIGRATE_CHECKPOINT", "checkpoint")
    assert items("get", "items", "7").stdout == by_option


def test_the_configuration_holds_in_folders_below(items, monkeypatch):
    Path("pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoint = "shop"\ncheckpoints = {shop = "checkpoint"}\n'
    )
    above = items("status", "--json").stdout
    Path("jobs/daily").mkdir(parents=True)
    monkeypatch.chdir("jobs/daily")
    found = json.loads(items("status", "--json").stdout)
    assert found["stores"] == json.loads(above)["stores"]
    assert found["checkpoint"] == str(Path("../../checkpoint").resolve())
    assert found["stores"][0]["head"] == checkpoints.REVISION
    Path("pyproject.toml").write_text('[tool.other]\nmigrations = "none"\n')
    assert json.loads(items("status", "--json").stdout)["left"] == found["left"]
    Path("../.git").mkdir()
    assert "Name one checkpoint" in items("status", code=2).stderr


def test_what_another_user_has_put_above_counts_for_nothing(items, monkeypatch):
    Path("statemigrate.toml").write_text('checkpoint = "checkpoint"\n')
    Path("jobs").mkdir()
    monkeypatch.chdir("jobs")
    items("status")
    kept = Path.stat

    def of_another(path, **options):
        found = list(kept(path, **options))
        if path.name == "statemigrate.toml":
            found[4] = 4242
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", of_another)
    assert "Name one checkpoint" in items("status", code=2).stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["history", "itms"], "items"),
        (["get", "itms", "checkpoint", "1"], "items"),
        (["dry-run", "itms", "checkpoint"], "items"),
        (["export", "itms", "checkpoint", "--output", "-"], "items"),
        (["history", "--show", "items@dddd00000010"], "dddd00000001"),
        (["status", "checkpoint", "--target", "items=dddd00000010"], "dddd00000001"),
        (["status", "checkpoint", "--target", "itms=base"], "items"),
        (["history", "--show", "itmes"], "items"),
    ],
    ids=" ".join,
)
def test_a_misspelt_name_gets_the_one_that_is_like_it(items, words, meant):
    assert f"; did you mean {meant}?" in parts(items(*words, code=1))["next"]


def test_a_misspelt_name_of_a_checkpoint_gets_the_one_that_is_like_it(items):
    Path("pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoints = {shop = "checkpoint", other = "elsewhere"}\n'
    )
    error = items("status", "shpo", code=1).stderr
    assert "did you mean shop?" in error


@pytest.mark.parametrize("verb", ["upgrade", "downgrade", "stamp", "merge", "revision", "branches"])
def test_alembics_verbs_say_what_to_do_instead(run, verb):
    error = run(verb, "head", code=2).stderr
    assert f"Error: No such command {verb!r}, which alembic has. {OF_ALEMBIC[verb]}." in error
    proposed = re.findall(r"`statemigrate ([a-z-]+)", OF_ALEMBIC[verb])
    assert proposed
    assert set(proposed) <= set(VERBS)


def test_without_an_editor_the_file_and_the_next_command_are_named(items, monkeypatch):
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    error = parts(items("new", "--edit", "items", code=1))
    assert error["error"] == "There is no editor to open the script with. [SM-SCRIPT-002]"
    assert error["next"].startswith(
        "change migrations/versions/amounts.py with any program, then `statemigrate history "
        "--show items`"
    )
    Path("bin").mkdir()
    nano = Path("bin/nano")
    nano.write_text('#!/bin/sh\necho "$1" >> /dev/stderr\n')
    nano.chmod(0o700)
    monkeypatch.setenv("PATH", str(Path("bin").resolve()))
    assert items("new", "--edit", "items").exit_code == 0


def test_ctrl_c_says_how_far_a_stopped_backfill_is_and_the_same_command_goes_on(items):
    code = (
        "import os, signal\n"
        "from statemigrate.embedded.offline import StoppedQuery\n"
        "whole = StoppedQuery._publish\n"
        "def publish(self, *given):\n"
        "    whole(self, *given)\n"
        "    StoppedQuery._publish = lambda *given: os.kill(os.getpid(), signal.SIGINT)\n"
        "StoppedQuery._publish = publish\n"
        "from statemigrate.cli import main\n"
        "main(['backfill', 'checkpoint'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 128 + signal.SIGINT, ran.stderr
    left = statemigrate.status("checkpoint").left
    assert left == 10
    assert ran.stderr.splitlines() == [
        "Interrupted.",
        "10 of about 20 values were migrated, and stay so; the same command goes on from there.",
    ]
    assert "Migrated 10 values; 0 are left." in items("backfill", "checkpoint").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rewrite", "--verify", "no-old", "no-new"], "no-new was not made by a rewrite"),
        (["rewrite", "--verify", "no-new"], "no-new was not made by a rewrite"),
        (
            ["rewrite", "new", "--from-tables", "nothing.parquet", "--code", "json:dumps"],
            "is not there",
        ),
        (
            ["rewrite", "new", "--from-tables", "table", "--code", "no_such_module:orders"],
            "no_such_module",
        ),
        (["rewrite", "new", "--from-tables", "table"], "nothing describes the state of the query"),
        (["rewrite", "native", "--from-tables", "table", "--code", "json:dumps"], "native"),
        (["rewrite", "no-old", "new"], "no-old is not"),
        (["fork", "no-old", "new"], "no-old"),
    ],
    ids=lambda each: " ".join(each[:3]) if isinstance(each, list) else "",
)
def test_what_does_not_exist_is_said_before_spark_starts(run, no_spark, tmp_path, words, message):
    Path("table").mkdir()
    Path("table/rows.parquet").touch()
    native_checkpoint(tmp_path / "native")
    error = parts(run(*words, code=1))
    assert message in error["error"]
    assert error["next"]


def test_an_export_goes_to_standard_output(items):
    result = items("export", "items", "checkpoint", "--output", "-")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(line["key"]["id"] for line in lines) == [*range(20)]
    assert result.stderr == "Wrote 20 keys of items, as of batch 0, to standard output\n"
    items("export", "items", "checkpoint", "--output", "out.jsonl")
    assert Path("out.jsonl").read_text() == result.stdout
    as_json = items("export", "items", "checkpoint", "--output", "-", "--json")
    assert as_json.stdout == result.stdout
    assert json.loads(as_json.stderr)["path"] == "-"
