"""A stopped query of the embedded engine is taken back at once, without Spark."""

import json

import pytest
from support.histories import lives
from support.histories.commands import Command, to_json
from support.histories.lives import Deployment
from support.histories.values import lineage

from statemigrate import rollback
from statemigrate.embedded.layout import Layout
from statemigrate.errors import CheckpointInUseError
from statemigrate.scripts import ScriptFolder

STORES = ("notes", "lists", "maps")
KEYS = 6


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A query that has brought some of its values to the newest revision, and is stopped."""
    monkeypatch.setattr(ScriptFolder, "lineages", lambda _: {s: lineage(s) for s in STORES})
    for folder in ("checkpoint", "working", "input", "output"):
        (tmp_path / folder).mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(
        '{"id":"2b9f2f0e-0000-4000-8000-000000000000"}'
    )
    verbs = {"notes": "put", "lists": "append", "maps": "put"}
    feed(tmp_path, {k: [Command(s, verbs[s], (k,)) for s in STORES] for k in range(KEYS)})
    lives.run(str(tmp_path), Deployment(STORES, "base").to_json())
    feed(tmp_path, {k: [Command(s, verbs[s], (9,)) for s in STORES] for k in range(2)})
    lives.run(str(tmp_path), Deployment(STORES, "r2", backfill=False).to_json())
    return tmp_path


def feed(place, batch):
    number = len(list((place / "input").iterdir()))
    (place / "input" / str(number)).write_text(json.dumps(to_json(batch)))


def revisions(place):
    """How many values each revision has."""
    found = {}
    for _, revision, *_ in lives.look(str(place), str(place / "looked"))["entries"]:
        found[revision] = found.get(revision, 0) + 1
    return found


def test_every_value_goes_back_and_what_is_empty_is_dropped(place):
    checkpoint = place / "checkpoint"
    before = revisions(place)
    assert before == {"base": 3 * (KEYS - 2), "r2": 6}
    planned = rollback(checkpoint, "base")
    assert (planned.step, planned.left, revisions(place)) == ("deploy", 8, before)
    done = rollback(checkpoint, "base", apply=True)
    assert (done.step, done.left) == ("done", 0)
    assert done.did[0] == "took 8 values back"
    assert set(done.did[1:]) == {f"dropped {store}@r2" for store in STORES}
    assert revisions(place) == {"base": 3 * KEYS}
    again = rollback(checkpoint, "base", apply=True)
    assert (again.step, again.did) == ("done", ())


def test_a_query_that_runs_is_left_alone(place):
    before = revisions(place)
    running = lives._locked(Layout.of(place / "checkpoint"), place / "working")
    with running, pytest.raises(CheckpointInUseError):
        rollback(place / "checkpoint", "base", apply=True)
    assert revisions(place) == before
