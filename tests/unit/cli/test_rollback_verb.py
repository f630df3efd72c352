"""What `rollback` prints, returns and refuses before it looks at any state."""

import json
from dataclasses import replace

import pytest
from support.offset_logs import checkpoint
from support.script_files import script

from statemigrate.commands.rollback import Rollback, RollbackStore

STORE = RollbackStore("auctions", "base", "r1", {"auctions@r1": 4}, 8)
FOUND = Rollback("c", "native", 7, (STORE,), "drain", "run the query", ("planned it",))
DONE = replace(FOUND, stores=(replace(STORE, families={}, in_target=12),), step="done", did=())


@pytest.fixture
def going(monkeypatch):
    """What `rollback` is called with, each time; the second of its answers is the end."""
    calls = []

    def rollback(place, to, *, progress, **options):
        calls.append((place, to, options))
        for each in (FOUND, DONE):
            progress(each)
        return DONE if len(calls) > 1 else FOUND

    monkeypatch.setattr("statemigrate.commands.rollback.rollback", rollback)
    return calls


def test_the_exit_code_is_0_once_every_value_is_back(run, going):
    words = ("rollback", "c", "--to", "base", "--apply", "--undo")
    assert run(*words, code=1).stdout.splitlines() == [
        "c: native, batch 7",
        "store      back to   written now   back   left",
        "auctions   base      r1            8      4   ",
        "Done: planned it.",
        "Next: run the query",
    ]
    assert "Every value is back.\nNext: run the query\n" in run(*words).stdout
    place, to, options = going[0]
    assert (place, to, options["undo"], options["apply"]) == ("c", "base", True, True)
    assert options["timeout"] == 0


def test_json_has_the_parts_and_their_sums(run, going):
    found = json.loads(run("rollback", "c", "--to", "base", "--json", code=1).stdout)
    assert (found["step"], found["left"], found["is_done"], found["batch"]) == (
        "drain",
        4,
        False,
        7,
    )
    assert found["stores"][0]["families"] == {"auctions@r1": 4}


def test_each_look_is_a_line(run, going):
    words = ("rollback", "c", "--to", "auctions=r1", "--apply", "--watch", "--timeout", "3")
    lines = run(*words, code=1).stdout.splitlines()
    assert lines[:2] == ["batch 7: 4 values left", "batch 7: 0 values left"]
    assert going[0][1:] == ({"auctions": "r1"}, going[0][2])
    assert going[0][2]["timeout"] == 3


@pytest.mark.parametrize(
    "words",
    [[], ["--to", "a", "--to", "b"], ["--to", "a=b", "--to", "a=c"], ["--to", "=b"],
     ["--to", "base", "--watch"]],
)  # fmt: skip
def test_words_that_say_nothing_are_bad_usage(run, going, words):
    run("rollback", "c", *words, code=2)
    assert not going


@pytest.mark.parametrize(
    ("to", "summary"),
    [
        ("r9", "'r9' is a revision of no store of the scripts"),
        ("auctions=r9", "Store 'auctions' has no revision 'r9'."),
        ("bids=base", "A target is named for bids, which has no scripts, or broken ones."),
    ],
)
def test_an_unknown_revision_is_said_before_spark_starts(run, tmp_path, monkeypatch, to, summary):
    monkeypatch.setattr("statemigrate.cli.session.local_session", lambda: pytest.fail("started"))
    script(tmp_path / "migrations", "r1")
    root = checkpoint(tmp_path / "c")
    error = json.loads(run("rollback", str(root), "--to", to, "--json", code=1).stderr)["error"]
    assert (error["kind"], error["summary"]) == ("LineageError", summary)
