"""Two operators on pages whose stores have one name: the log tells one from the other."""

import json

import pytest
from click.testing import CliRunner
from support.spark_checkpoints import aggregation

from statemigrate.cli import main
from statemigrate.commands.current import log, read_log
from statemigrate.event_log.events import Stamp
from statemigrate.event_log.log import Facts, Note, StoreRevision
from statemigrate.files import LocalFiles

ORDER = ("base", "aaaa")
OLD, NEW = StoreRevision("base", ("t",), ORDER), StoreRevision("aaaa", ("t@aaaa", "t"), ORDER)
NAMES = ("totals", "counts")


@pytest.fixture
def checkpoint(tmp_path):
    return aggregation(tmp_path / "checkpoint")


@pytest.fixture
def files(checkpoint):
    """Both begin at batch 0; one of them is migrated at batch 1, and the other goes on."""
    files = LocalFiles(checkpoint)
    for batch, (totals, counts) in enumerate([(OLD, OLD), (NEW, OLD)]):
        before = Facts({"t": OLD}, batch - 1) if batch else Facts()
        for name, revision in zip(NAMES, (totals, counts), strict=True):
            note(name, revision).start(files, batch, before)
    return files


def note(operator, revision):
    return Note(Stamp("v1", "kim", "0.1.0", "4.3.0"), {"t": revision}, operator=operator)


def told(files):
    return [
        (each.operator, each.verb, each.batch, each.change, each.revision, each.outcome)
        for each in reversed(read_log(files, 1).entries)
    ]


BEGUN = [
    ("totals", "start", 0, "first", "base", "done"),
    ("counts", "start", 0, "first", "base", "done"),
    ("totals", "start", 1, "upgrade", "aaaa", "done"),
]


def test_each_start_is_of_its_own_operator_and_none_replaces_the_others(files):
    # Of the one that went on as it was there is nothing to say, and of a restart neither.
    assert told(files) == BEGUN
    for name, revision in zip(NAMES, (NEW, OLD), strict=True):
        note(name, revision).start(files, 2, Facts({"t": revision}, 1))
    assert told(files) == BEGUN


def test_what_an_older_release_noted_without_a_name_counts_for_both(checkpoint):
    files = LocalFiles(checkpoint)
    note("", OLD).start(files, 0, Facts())
    for name in NAMES:
        note(name, OLD).start(files, 1, Facts({"t": OLD}, 0))
    assert told(files) == [(None, "start", 0, "first", "base", "done")]


def test_the_log_shows_the_operator_in_text_and_in_json(checkpoint, files):
    note("totals", OLD).done(files, "backfill", 1, {"step": "planned", "keys": "7"})
    shown = (
        CliRunner()
        .invoke(main, ["history", "--checkpoint", str(checkpoint)], catch_exceptions=False)
        .output
    )
    words = " ".join(shown.split())
    assert "start: t of operator counts at base" in words
    assert "start: t of operator totals upgrade base -> aaaa" in words
    text = CliRunner().invoke(main, ["history", "--checkpoint", str(checkpoint), "--json"]).output
    entries = json.loads(text)["entries"]
    assert [each["operator"] for each in entries] == ["totals", "totals", "counts", "totals"]
    assert all("operator" not in each["details"] for each in entries)
    assert log(checkpoint).entries[0].operator == "totals"
