"""Every verb that plans compares the scripts with those applied, and takes `accept_edited`."""

from functools import partial

import pytest
from support import checkpoints

import statemigrate
from statemigrate import open_state
from statemigrate.errors import StartupError


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """A checkpoint that another text of the script was applied to, and the folder of scripts."""
    monkeypatch.chdir(tmp_path)
    folder = checkpoints.scripts(tmp_path)
    checkpoint = checkpoints.items(tmp_path, 10, applied={checkpoints.REVISION: "0" * 64})
    return checkpoint, folder


def read(checkpoint, **options):
    with open_state(checkpoint, **options) as state:
        return dict(state["items"].entries())


VERBS = {
    "get": lambda checkpoint, **options: statemigrate.get("items", checkpoint, 3, **options),
    "export": lambda checkpoint, **options: statemigrate.export(
        "items", checkpoint, "out.jsonl", **options
    ),
    "reader": read,
    "quarantine": lambda checkpoint, **options: list(
        statemigrate.status(checkpoint, failed="items", **options)
    ),
    "retire": partial(statemigrate.backfill, retire=True),
    "backfill": statemigrate.backfill,
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_edited_script_is_refused_unless_it_is_accepted(verb, edited):
    checkpoint, folder = edited
    with pytest.raises(StartupError, match="was edited after it was applied"):
        VERBS[verb](checkpoint, migrations=folder)
    VERBS[verb](checkpoint, migrations=folder, accept_edited=[checkpoints.REVISION])


def test_what_was_accepted_is_read_with_the_script_as_it_is(edited):
    checkpoint, folder = edited
    options = {"migrations": folder, "accept_edited": [checkpoints.REVISION]}
    assert str(statemigrate.get("items", checkpoint, 3, **options)["amount"]) == "0.09"
    done = statemigrate.export("items", checkpoint, "out.jsonl", **options)
    assert (done.store, done.keys, done.batch, done.path) == ("items", 10, 0, "out.jsonl")
    moved = []
    report = statemigrate.backfill(
        checkpoint, progress=lambda *figures: moved.append(figures), **options
    )
    assert (report.migrated, dict(report.left)) == (10, {"items": 0})
    assert moved[-1] == (10, 10)
    assert statemigrate.backfill(checkpoint, **options, retire=True).dropped == ("items",)
