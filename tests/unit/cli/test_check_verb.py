import json
import sys
from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.native.deployment_check import StoreRecord, write_record
from statemigrate.scripts.loading import load

FOLDER = Path("migrations")


def test_scripts_in_order_are_one_line(run):
    run("init")
    assert run("check").stdout == "0 scripts of 0 stores are in order\n"
    script(FOLDER, "a1")
    assert run("check").stdout == "1 script of 1 store is in order\n"
    script(FOLDER, "a2", "a1")
    script(FOLDER, "b1", store="bids")
    assert run("check").stdout == "3 scripts of 2 stores are in order\n"
    assert json.loads(run("check", "--json").stdout) == []


def test_every_finding_is_a_line_and_the_exit_code_is_one(run):
    script(FOLDER, "a1", more="# QUESTION: [red]Cents?[/red]\n")
    script(FOLDER, "b1", store="bids", without="store = 'bids'\n")
    result = run("check", code=1)
    assert result.stderr == ""
    assert result.stdout == (
        "migrations/versions/b1.py: `store` missing [SM-SCRIPT-015] "
        "(expected `revision`, `down_revision`, "
        "`store`, `old`, `new` and `upgrade`; found no `store`); next: add `store` to the script\n"
        "migrations/versions/a1.py:14: open question: [red]Cents?[/red]; next: answer it in the "
        "script, then remove the comment\n"
    )


def test_findings_can_be_read_by_machines(run):
    script(FOLDER, "a1")
    script(FOLDER, "a2", "a1", old='Struct("a INT")', upgrade="return value")
    assert json.loads(run("check", "--json", code=1).stdout) == [
        {
            "kind": "lineage",
            "code": "SM-LINEAGE-016",
            "severity": "error",
            "store": "auctions",
            "revision": "a2",
            "path": "migrations/versions/a2.py",
            "line": None,
            "summary": "`old` of migrations/versions/a2.py is not the `new` of "
            "migrations/versions/a1.py",
            "expected": "Struct('a BIGINT')",
            "found": "a: found INT, expected BIGINT\nStruct('a INT')",
            "differences": ["a: found INT, expected BIGINT"],
            "next": "copy `new` of revision a1 to `old` of a2; a further change needs a script of "
            "its own: `statemigrate new auctions -m MESSAGE`",
        }
    ]


def test_code_and_targets_are_named_in_options(run, monkeypatch):
    monkeypatch.setattr("sys.path", list(sys.path))
    script(FOLDER, "a1", new='Struct("b INT")', upgrade="return {'b': value['a'] and 1}")
    Path("pipeline_of_check_verb.py").write_text(
        "from pyspark.sql.streaming import StatefulProcessor\n\n\n"
        "class Totals(StatefulProcessor):\n"
        "    def init(self, handle):\n"
        "        handle.getValueState('auctions', 'a BIGINT')\n\n"
        "    def handleInputRows(self, key, rows, timerValues):\n"
        "        yield from ()\n\n"
        "    def close(self):\n"
        "        pass\n"
    )
    arguments = ("check", "--code", "pipeline_of_check_verb:Totals")
    assert "schema is not the one of its target revision a1" in run(*arguments, code=1).stdout
    passed = run(*arguments, "--target", "auctions=base")
    assert passed.stdout == "1 script of 1 store is in order\n"


def test_what_was_applied_is_recorded_for_checks_without_the_checkpoint(run):
    path = script(FOLDER, "a1")
    write_record("c", {"auctions": StoreRecord((), 0, {"a1": load(path).checksum})})
    assert run("check", "--checkpoint", "c", "--record").stdout == (
        "Wrote what was applied to migrations/applied.json\n1 script of 1 store is in order\n"
    )
    assert json.loads((FOLDER / "applied.json").read_text()) == {
        "format": 1,
        "applied": {"auctions": {"a1": load(path).checksum}},
    }
    script(FOLDER, "a1", upgrade="return dict(value)")
    assert "was edited after it was applied" in run("check", code=1).stdout
    # After a deployment that accepted the edit, the checkpoint says so.
    write_record("c", {"auctions": StoreRecord((), 1, {"a1": load(path).checksum})})
    assert json.loads(run("check", "--checkpoint", "c", "--record", "--json").stdout) == []
    assert run("check").stdout == "1 script of 1 store is in order\n"


def test_what_is_no_checkpoint_is_an_error(run):
    run("init")
    result = run("check", "--checkpoint", "nothing", code=1)
    assert result.stderr.startswith(
        "Error: nothing is not the checkpoint of a streaming query [SM-CHECKPOINT-001]\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--record"], "--record needs CHECKPOINT."),
        (["--target", "auctions"], "--target takes STORE=REVISION, as in auctions=base."),
        (["--target", "=base"], "--target takes STORE=REVISION, as in auctions=base."),
    ],
)
def test_misuse_exits_with_two(run, arguments, message):
    assert message in run("check", *arguments, code=2).stderr


def test_history_marks_scripts_with_open_questions(run):
    script(FOLDER, "a1", more="# QUESTION: One?\n# QUESTION: Two?\n")
    script(FOLDER, "a2", "a1", more="# QUESTION: Only one?\n")
    rows = run("history", "auctions").stdout.splitlines()[2:]
    assert [" ".join(row.split()) for row in rows] == [
        "a2 a1 head, 1 question no 2026-01-01 Change something",
        "a1 base 2 questions no 2026-01-01 Change something",
    ]
    newest = json.loads(run("history", "--json").stdout)[0]
    assert newest["questions"] == [{"line": 14, "text": "Only one?"}]


def test_only_check_refuses_open_questions(run):
    script(FOLDER, "a1", more="# QUESTION: One?\n")
    assert json.loads(run("history", "--heads", "--json").stdout)[0]["revision"] == "a1"
    run("check", code=1)
    script(FOLDER, "a1")
    run("check")
