"""The log of a query of the embedded engine, and what `current` reads of its state."""

import json
import shutil

import pytest
from click.testing import CliRunner
from tally import (
    AMOUNTS,
    CENTS,
    FAMILIES,
    NESTED,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    NestedTally,
    batch,
)

from statemigrate import backfill, migrated, status
from statemigrate.cli import main
from statemigrate.commands.backfill import retire
from statemigrate.commands.current import log
from statemigrate.errors import StorageError
from statemigrate.event_log.events import CODE_VERSION
from statemigrate.event_log.log import LOG

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def release(monkeypatch):
    """Which version of the code a deployment is of."""

    def be(version):
        monkeypatch.setenv(CODE_VERSION, version)

    be("release-1")
    return be


def told(pipeline):
    """Oldest first: what each entry says that is not of this moment."""
    return [
        (each.verb, each.batch, each.before, each.revision, each.outcome, each.code)
        for each in reversed(log(pipeline.checkpoint).entries)
    ]


def test_a_life_of_deployments_is_told_in_order(pipeline, scripts, release):
    folder = scripts.write()
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(CentsTally())
    pipeline.feed(batch("second", range(5)))
    pipeline.deploy(CentsTally())
    release("release-2")
    pipeline.feed(batch("third", range(5)))
    pipeline.deploy(migrated(AmountsTally(), migrations=folder))
    found = log(pipeline.checkpoint)
    retired = [each for each in found.entries if each.verb == "retire"]
    assert [(each.families, each.details) for each in retired] == [
        ((FAMILIES[AMOUNTS],), {"dropped": FAMILIES[CENTS]})
    ]
    assert told(pipeline) == [
        ("start", 0, None, CENTS, "done", "release-1"),
        ("start", 2, CENTS, AMOUNTS, "done", "release-2"),
        ("retire", retired[0].batch, AMOUNTS, AMOUNTS, "done", "release-2"),
    ]
    assert (found.since, found.damaged) == (found.entries[-1].time, ())
    (store,) = status(pipeline.checkpoint, migrations=folder, revisions=True).stores
    upgrade = found.entries[1]
    assert (store.revision, store.older, store.is_head) == (AMOUNTS, (), True)
    assert (store.since, store.code, store.by) == (upgrade.time, "release-2", upgrade.by)
    assert (store.message, store.noted, store.differs) == ("Change amounts", AMOUNTS, False)


def test_what_commands_do_is_told_too(pipeline, scripts):
    folder = scripts.write()
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(CentsTally())
    backfill(pipeline.checkpoint, migrations=folder)
    retire(pipeline.checkpoint, migrations=folder)
    # Nothing is left to do, and so there is nothing to tell.
    backfill(pipeline.checkpoint, migrations=folder)
    retire(pipeline.checkpoint, migrations=folder)
    entries = log(pipeline.checkpoint).entries
    assert [(each.verb, each.revision, each.details) for each in entries] == [
        ("retire", AMOUNTS, {"dropped": FAMILIES[CENTS]}),
        ("backfill", AMOUNTS, {"migrated": "30", "quarantined": "0"}),
        ("start", CENTS, {}),
    ]


def test_where_the_log_cannot_be_written_commands_change_nothing(pipeline, scripts):
    folder = scripts.write()
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(CentsTally())
    shutil.rmtree(pipeline.checkpoint / LOG)
    (pipeline.checkpoint / LOG).write_text("")
    before = pipeline.stored
    for command in (backfill, retire):
        with pytest.raises(StorageError, match="cannot be written"):
            command(pipeline.checkpoint, migrations=folder)
    assert pipeline.stored == before


@pytest.mark.long(weight=1 / 3)
def test_a_start_whose_first_batch_fails_is_not_said_to_have_upgraded(pipeline, scripts, release):
    folder = scripts.write(nested=NESTED_SCRIPT)
    older = {"tally": AMOUNTS}
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(migrated(AmountsTally(), migrations=folder, targets=older))
    release("release-2")

    class Failing(NestedTally):
        def handleInputRows(self, key, rows, timer_values):
            raise RuntimeError("not today")

    pipeline.feed(batch("second", range(5)))
    with pytest.raises(Exception, match="not today"):
        pipeline.deploy(migrated(Failing(), migrations=folder))
    assert told(pipeline)[-1] == ("start", 1, AMOUNTS, NESTED, "no batch yet", "release-2")
    (store,) = status(pipeline.checkpoint, migrations=folder, revisions=True).stores
    assert (store.revision, store.code, store.differs) == (AMOUNTS, "release-1", False)
    release("release-1")
    pipeline.deploy(migrated(AmountsTally(), migrations=folder, targets=older))
    assert told(pipeline)[-2:] == [
        ("start", 1, AMOUNTS, NESTED, "no batch", "release-2"),
        ("start", 1, NESTED, AMOUNTS, "done", "release-1"),
    ]


@pytest.mark.long(weight=1 / 3)
def test_state_from_before_there_was_a_log_is_found(pipeline, scripts, release):
    folder = scripts.write()
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(CentsTally())
    for name in (pipeline.checkpoint / LOG).iterdir():
        name.unlink()
    (store,) = status(pipeline.checkpoint, migrations=folder, revisions=True).stores
    assert (store.revision, store.since, store.noted) == (CENTS, None, None)
    pipeline.feed(batch("second", range(5)))
    pipeline.deploy(migrated(AmountsTally(), migrations=folder))
    assert told(pipeline)[:2] == [
        ("found", 0, None, CENTS, "done", None),
        ("start", 1, CENTS, AMOUNTS, "done", "release-1"),
    ]


def test_without_the_right_to_write_the_log_no_batch_runs(pipeline, scripts):
    (pipeline.checkpoint / LOG).parent.mkdir(parents=True)
    # A file where the folder should be: what is run as root may write anywhere.
    (pipeline.checkpoint / LOG).write_text("")
    pipeline.feed(batch("first", range(3)))
    with pytest.raises(StorageError, match="cannot be written"):
        pipeline.deploy(CentsTally())
    assert not (pipeline.checkpoint / "commits").exists()
    (pipeline.checkpoint / LOG).unlink()
    pipeline.deploy(CentsTally())
    assert told(pipeline) == [("start", 0, None, CENTS, "done", "release-1")]


@pytest.mark.long
def test_both_are_commands_for_people_and_machines(pipeline, scripts, monkeypatch):
    folder = scripts.write()
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(CentsTally())
    backfill(pipeline.checkpoint, migrations=folder)

    def run(*words):
        command = ["--migrations", str(folder), *words, str(pipeline.checkpoint)]
        return CliRunner().invoke(main, command)

    monkeypatch.setenv("COLUMNS", "80")
    shown = run("status", "--revisions")
    assert shown.exit_code == 0, shown.output
    assert "(head)" in shown.output
    assert f"{CENTS}  " in shown.output
    document = json.loads(run("status", "--revisions", "--json").stdout)
    assert document["stores"][0]["revision"] == AMOUNTS
    lines = run("history", "--checkpoint").output.splitlines()
    assert f"backfill: tally upgrade {CENTS} -> {AMOUNTS}, 1 older family" in lines[1]
    assert f"start: tally at {CENTS}" in lines[2]
    entries = json.loads(run("history", "--json", "--checkpoint").stdout)["entries"]
    assert [each["verb"] for each in entries] == ["backfill", "start"]
    for name in (pipeline.checkpoint / LOG).iterdir():
        name.write_text("{}")
    assert run("history", "--checkpoint").exit_code == 1
