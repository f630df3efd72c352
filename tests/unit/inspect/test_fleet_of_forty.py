"""Many checkpoints at once: facts first, what needs a person first, each next step once."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import checkpoints
from support.fleets import FORTY
from support.offset_logs import checkpoint as native_checkpoint

from statemigrate import status, status_page
from statemigrate.cli import main
from statemigrate.commands.fleet import NextStep


def test_what_needs_a_person_comes_first_and_is_counted():
    names = [each.checkpoint.name for each in FORTY.by_need]
    assert names[:3] == ["gone", "sessions", "bids-0"]
    assert names[6:11] == ["auctions-0", "auctions-1", "auctions-2", "auctions-3", "done-0"]
    assert FORTY.totals == {
        "unreadable": 1, "stuck": 1, "behind": 4, "migrating": 4, "in order": 30,
    }  # fmt: skip
    document = FORTY.to_json()
    assert [each["name"] for each in document["checkpoints"]] == names
    assert document["totals"]["in order"] == 30
    assert [(each["step"], each["count"]) for each in document["next"]] == [
        ("statemigrate dry-run tags --checkpoint /data/sessions shows why 12 fail", 1),
        ("statemigrate dry-run STORE --checkpoint /data/bids, then deploy the code for it", 4),
        ("run the query: its backfill waits to be taken", 4),
    ]
    assert document["next"][1]["stores"][0] == {"checkpoint": "bids-0", "store": "bids"}


def test_only_some_are_shown():
    some = FORTY.only({"stuck", "unreadable"})
    assert [each.checkpoint.name for each in some.looks] == ["sessions", "gone"]


def test_the_page_folds_what_is_in_order_and_says_each_step_once():
    source = status_page(FORTY)
    folded = "".join(part.split("</details>")[0] for part in source.split("<details>")[1:])
    assert folded.count("<summary>30 checkpoints are in order</summary>") == 2
    for look in FORTY.looks:
        assert (f">{look.checkpoint.name}</bdi></h2>" in folded.replace("\n", "")) is False
    assert [f"done-{n}" in folded for n in range(30)] == [True] * 30
    assert "bids-0" not in folded
    assert source.count("then deploy the code for it") == 1
    assert "<strong>4 stores:</strong> run the query: its backfill waits to be taken" in source


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoints.scripts(tmp_path)
    first = checkpoints.items(tmp_path, 6)
    lines = ["[tool.statemigrate.checkpoints]", 'gone = "nowhere"']
    for number in range(9):
        shutil.copytree(first, f"cp-{number}")
        lines.append(f'query-{number} = "cp-{number}"')
    native = native_checkpoint(tmp_path / "native")
    lines.append(f'native = "{native}"')
    Path("pyproject.toml").write_text("\n".join(lines))
    CliRunner().invoke(main, ["backfill", "query-3"])

    def run_one(*words, code):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return done.stdout

    return run_one


def test_the_table_is_in_that_order_and_next_is_said_once(run):
    lines = run("status", "--all", "--match", "[gq]*", code=1).splitlines()
    assert lines[0] == (
        "10 checkpoints: 1 cannot be read, 8 are behind their scripts, 1 is in order; "
        "an unknown number of values to migrate once the newest scripts are deployed"
    )
    rows = [line.split()[:3] for line in lines[2:13]]
    assert rows[1] == ["gone", "cannot", "be"]
    assert rows[2] == ["query-0", "items", "behind"]
    assert rows[10] == ["query-3", "items", "migrated"]
    (deploy,) = [line for line in lines if "then deploy" in line]
    assert deploy == (
        "Next: 8 stores of query-0, query-1, query-2, query-4, query-5, query-6 and 2 more: "
        "statemigrate dry-run STORE --checkpoint CHECKPOINT, then deploy the code for "
        f"{checkpoints.REVISION}, with migrated on its processor"
    )
    (reading,) = [line for line in lines if line.startswith("Next: gone")]
    assert "checkpointLocation" in reading


def test_filters_choose_what_is_looked_at_and_what_is_shown(run):
    one = run("status", "--all", "--match", "query-3", code=0)
    assert one.startswith("1 checkpoint: 1 is in order; 0 values left to migrate")
    shown = json.loads(
        run("status", "--all", "--only", "in-order", "--only", "unreadable", "--json", code=1)
    )
    assert [each["name"] for each in shown["checkpoints"]][-1] == "query-3"
    assert {each["need"] for each in shown["checkpoints"]} == {"unreadable", "in order"}
    for words in (["--match", "x"], ["--only", "behind"]):
        assert CliRunner().invoke(main, ["status", "query-1", *words]).exit_code == 2
    none = CliRunner().invoke(main, ["status", "--all", "--match", "x"])
    assert (none.exit_code, "No checkpoint has a name like x" in none.stderr) == (2, True)


def test_current_of_all_is_one_table(run):
    lines = run("status", "--revisions", "--all", "--match", "[gq]*", code=1).splitlines()
    assert lines[0].split()[:3] == ["checkpoint", "store", "revision"]
    assert [line.split()[:2] for line in lines[1:10]] == [
        [f"query-{number}", "items"] for number in range(9)
    ]
    assert sum(line.startswith("checkpoint ") for line in lines) == 1
    assert any(line.startswith("gone: nowhere is not") for line in lines)


def test_the_log_of_all_is_one_list(run, tmp_path):
    other = native_checkpoint(tmp_path / "other")
    with Path("pyproject.toml").open("a") as stream:
        stream.write(f'\nother = "{other}"\n')
    for name in ("native", "other"):
        run("backfill", "--prepare", name, "--apply", "--wait", "0", code=0)
    run("backfill", "--prepare", "native", "--undo", "--apply", "--wait", "0", code=0)
    lines = run("history", "--all", "--match", "[no]*", code=0).splitlines()
    assert lines[0].split()[:3] == ["time", "(UTC)", "checkpoint"]
    done = [line.split()[2:5] for line in lines[1:]]
    assert [each[0] for each in done] == ["native", "other", "native"]
    assert (
        len(run("history", "--all", "--match", "[no]*", "--limit", "1", code=0).splitlines()) == 2
    )
    document = json.loads(run("history", "--all", "--match", "[gno]*", "--json", code=1))
    assert [each["name"] for each in document] == ["gone", "native", "other"]
    assert document[0]["error"]["summary"].endswith(
        "nowhere is not the checkpoint of a streaming query"
    )


def test_a_word_that_is_a_name_too_stays_what_it_is(tmp_path):
    checkpoints.scripts(tmp_path)
    path = checkpoints.items(tmp_path, 6)
    named_query = {"query": path, "deploy": path}
    found = status(checkpoints=named_query, migrations=tmp_path / "migrations")
    (step,) = found.next_steps
    assert step == NextStep(
        "statemigrate dry-run STORE --checkpoint CHECKPOINT, then deploy the code for "
        f"{checkpoints.REVISION}, with migrated on its processor",
        (("query", "items"), ("deploy", "items")),
    )
