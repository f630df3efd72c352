import json

import pytest
from support.offset_logs import checkpoint, kill_last_batch, run_batch, tree

CONTROL = ['{"logOffset":3}', '{"logOffset":0}']


@pytest.fixture
def root(tmp_path):
    return checkpoint(tmp_path / "c")


def test_a_dry_run_prints_what_would_change_and_changes_nothing(run, root):
    before = tree(root)
    assert run("backfill", "--prepare", str(root)).stdout == (
        f"Dry run: would make room for the backfill source in {root}\n"
        "  sources without it: 1\n"
        "  offsets/1: add the line -; remove its checksum file\n"
        "  offsets/2: add the line -; remove its checksum file\n"
        f"  originals are kept in {root}/statemigrate/adoption/1\n"
        f"Next: stop the query, then `statemigrate backfill {root} --prepare --apply`\n"
    )
    assert tree(root) == before


def test_applied_and_undone(run, root):
    text = run("backfill", "--prepare", str(root), "--apply", "--wait", "0").stdout
    assert text.startswith(f"Made room for the backfill source in {root}\n")
    assert text.endswith(
        "Next: start the query with its operator declared by stateful, or with with_backfill "
        "around its stream\n"
        "An older release, which has no backfill source, starts again only after "
        f"`statemigrate backfill {root} --prepare --undo --apply`; once values are migrated, after "
        f"`statemigrate rollback {root} --to base --undo`\n"
    )
    run_batch(root, 3, *CONTROL)
    assert run("backfill", "--prepare", str(root), "--undo").stdout == (
        f"Dry run: would take the backfill source out of {root}\n"
        "  sources without it: 1\n"
        "  offsets/2: remove the last line -; restore its checksum file\n"
        '  offsets/3: remove the last line {"logOffset":0}; remove its checksum file\n'
        f"  sources/1: move it to the originals\n"
        f"  originals are kept in {root}/statemigrate/adoption/1\n"
        f"Next: stop the query, then `statemigrate backfill {root} --prepare --undo --apply`\n"
    )
    text = run("backfill", "--prepare", str(root), "--undo", "--apply", "--wait", "0").stdout
    assert text.startswith(f"Took the backfill source out of {root}\n")
    assert text.endswith("Next: start the query without the backfill source\n")


def test_json_has_the_same(run, root):
    document = json.loads(run("backfill", "--prepare", str(root), "--json").stdout)
    assert document == {
        "checkpoint": str(root),
        "state": "would prepare",
        "sources": 1,
        "files": [
            {"path": f"offsets/{number}", "added": ["-"], "removed": [], "checksum": "removed"}
            for number in (1, 2)
        ],
        "moved": None,
        "backup": f"{root}/statemigrate/adoption/1",
        "relocated": [],
        "moved_from": [],
        "uncommitted": False,
    }


def test_named_sources_need_nothing(run, root):
    for number in (1, 2):
        (root / "offsets" / str(number)).write_text('v2\n{}\nrows:{"logOffset":1}')
    assert run("backfill", "--prepare", str(root), "--apply").stdout == (
        f"Nothing to do: the offset log of {root} keeps its sources by name\n"
        "Next: start the query with stateful or with_backfill; without them only while "
        f"`statemigrate backfill {root} --prepare --undo` does not refuse that\n"
    )


def test_what_is_said_to_be_next_is_what_then_works(run, root):
    kill_last_batch(root)
    for undo in ([], ["--undo"]):
        line = run("backfill", "--prepare", str(root), *undo).stdout.splitlines()[-1]
        command = line.partition("`statemigrate ")[2].partition("`")[0].split()
        assert command == ["backfill", str(root), "--prepare", *undo, "--apply", "--stopped"]
        run(*command, "--wait", "0")


def test_what_a_refusal_names_to_take_it_out_takes_it_out(run, root):
    run("backfill", "--prepare", str(root), "--apply", "--wait", "0")
    error = run("backfill", "--prepare", str(root), "--apply", "--wait", "0", code=1).stderr
    command = error.rpartition("`statemigrate ")[2].partition("`")[0].split()
    assert run(*command, "--wait", "0").stdout.startswith(f"Took the backfill source out of {root}")


def test_a_refusal_exits_with_one(run, root):
    kill_last_batch(root)
    before = tree(root)
    error = run("backfill", "--prepare", str(root), "--apply", "--wait", "0", code=1).stderr
    assert "found: a batch that is being processed now, or that was killed" in error
    assert "--stopped" in error
    assert tree(root) == before
    run("backfill", "--prepare", str(root), "--apply", "--wait", "0", "--stopped")
    error = json.loads(run("backfill", "--prepare", str(root), "--json", code=1).stderr)["error"]
    assert error["kind"] == "CheckpointError"
    assert "was prepared already" in error["summary"]
