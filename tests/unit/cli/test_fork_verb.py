"""`fork` on the command line."""

import json

import pytest
from support.spark_checkpoints import QUERY, aggregation


@pytest.fixture
def old(tmp_path):
    return aggregation(tmp_path / "old")


def test_it_says_what_it_has_made(run, old, tmp_path):
    text = run("fork", str(old), str(tmp_path / "new")).stdout
    size = sum(each.stat().st_size for each in (tmp_path / "new").rglob("*") if each.is_file())
    assert text == (
        f"{tmp_path}/new has the state after batch 3\n"
        f"  20 files, {size:,} bytes; query {QUERY}\n"
        "Next: start the query there; never two that write to one sink under one query id\n"
    )


def test_it_says_what_is_not_in_it(run, old, tmp_path):
    (old / "commits/3").unlink()
    (old / "mine").mkdir()
    lines = run("fork", str(old), str(tmp_path / "new")).stdout.splitlines()
    assert lines[2:4] == [
        f"  batch 3, which {old} has begun, is not in it",
        "  not carried over: mine: no part of a checkpoint",
    ]


def test_for_machines(run, old, tmp_path):
    done = json.loads(
        run("fork", str(old), str(tmp_path / "new"), "--at-batch", "1", "--new-id", "--json").stdout
    )
    assert (done["batch"], done["files"], done["uncommitted"]) == (1, 14, None)
    assert done["query_id"] != QUERY


def test_a_place_in_use_ends_it_with_an_error(run, old, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new/metadata").touch()
    assert "is in use" in run("fork", str(old), str(tmp_path / "new"), code=1).stderr
