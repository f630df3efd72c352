"""The public names: every verb a function, one order of arguments, a path of any kind."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.offset_logs import checkpoint

import statemigrate
from statemigrate.cli.main import VERBS
from statemigrate.errors import StatemigrateError
from statemigrate.state.opening import engine_of

SUBJECTS = {
    "old",
    "new",
    "store",
    "checkpoint",
    "message",
    "path",
    "file",
    "key",
    "revision",
    "code",
}
SHARED = {
    "migrations": "migrations",
    "targets": None,
    "accept_edited": (),
    "operator": None,
    "spark": None,
}
FUNCTIONS = [
    "adopt", "autogenerate", "backfill", "backfill_status", "baseline", "check", "dry_run",
    "dry_run_file", "export", "fork", "get", "heads", "history", "init", "new", "pause_backfill",
    "quarantine", "record_applied", "retire", "show", "status", "undo_adoption",
]  # fmt: skip


def parameters(name):
    return inspect.signature(getattr(statemigrate, name)).parameters


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "demo"])
def test_a_verb_is_a_function_of_the_same_name(verb):
    # A room of the package has the name of the verb.
    name = "rewrite_checkpoint" if verb == "rewrite" else verb.replace("-", "_")
    function = getattr(statemigrate, name)
    assert inspect.isfunction(function)
    assert len(inspect.getdoc(function).splitlines()) > 1


@pytest.mark.parametrize("name", statemigrate.__all__)
def test_a_public_name_is_there_and_documented(name):
    found = getattr(statemigrate, name)
    assert inspect.getdoc(found)
    assert name in Path("docs/reference/python.md").read_text()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_subject_comes_first_and_the_rest_goes_by_keyword(name):
    found = parameters(name).values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    by_position = [each.name for each in found if each.kind in kinds]
    assert set(by_position) <= SUBJECTS
    if {"store", "checkpoint"} <= set(by_position):
        assert by_position[:2] == ["store", "checkpoint"]


@pytest.mark.parametrize("name", [*FUNCTIONS, "StateReader"])
def test_what_several_verbs_take_has_one_default(name):
    for each in parameters(name).values():
        if each.name in SHARED:
            assert each.kind is inspect.Parameter.KEYWORD_ONLY
            assert each.default == SHARED[each.name]
        assert each.name not in ("tick", "version", "reference")


PLACES = ("checkpoint", "migrations", "path", "working_directory")
TAKING = [*FUNCTIONS, "BackfillListener", "EmbeddedOptions", "EmbeddedQuery", "NativeMetrics",
          "StateReader", "migrated", "with_backfill"]  # fmt: skip


@pytest.mark.parametrize("name", TAKING)
def test_a_place_is_a_text_or_a_path(name):
    for each in parameters(name).values():
        if each.name in PLACES:
            # A `Place` is one of both, or what a test has in memory.
            assert str(each.annotation).startswith(("str | Path", "Place"))


def test_a_path_serves_where_a_text_does(tmp_path):
    root = checkpoint(tmp_path / "c")
    assert statemigrate.adopt(root) == statemigrate.adopt(str(root))
    assert statemigrate.adopt(root, apply=True, wait=0).state == "adopted"
    assert statemigrate.undo_adoption(root).state == "would undo"
    folder = tmp_path / "migrations"
    statemigrate.init(migrations=folder)
    assert statemigrate.check(checkpoint=root, migrations=folder).passed
    assert statemigrate.pause_backfill(root) == 0
    with pytest.raises(StatemigrateError, match="is not the checkpoint of a stateful query"):
        engine_of(tmp_path)


def test_scripts_are_written_and_listed_without_the_command_line(tmp_path):
    folder = tmp_path / "scripts"
    assert statemigrate.init(migrations=folder) == folder / "versions"
    was = statemigrate.Struct("a INT")
    written = statemigrate.new("bids", "as is", new=was, baseline=True, migrations=folder)
    assert (written.store, written.is_baseline, written.questions) == ("bids", True, ())
    (entry,) = statemigrate.history("bids", migrations=folder)
    assert (entry.path, entry.is_head) == (str(written.path), True)
    assert statemigrate.heads(migrations=folder) == (entry,)
    assert statemigrate.show("bids@head", migrations=folder).revision == entry.revision


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import statemigrate, sys; statemigrate.history; statemigrate.StatemigrateError;"
        "print(sorted({'pyspark', 'rocksdict', 'alembic', 'sqlalchemy', 'click', 'fastavro'}"
        " & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert ran.stdout.strip() == "[]"
