"""The public names: every verb a function, one order of arguments, a path of any kind."""

import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support import checkpoints
from support.offset_logs import checkpoint

import statemigrate
from statemigrate.cli import main
from statemigrate.cli.main import VERBS
from statemigrate.errors import StatemigrateError
from statemigrate.state.open import engine_of

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


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_a_function_of_the_same_name(verb):
    function = getattr(statemigrate, verb.replace("-", "_"))
    assert inspect.isfunction(function)
    assert len(inspect.getdoc(function).splitlines()) > 1


# What only the command line has: how a result is printed, drawn again, or written to a file, and
# which of several checkpoints are meant, that a function is given.
SHOWING = {
    "json", "debug", "values", "help", "html", "junit", "watch", "interval", "check_heads",
    "match", "only", "markdown", "sarif",
}  # fmt: skip
# By option what the function calls it; of `quarantine` the values are what is returned.
NAMES = {
    "every": "checkpoints",
    "budget_ms": "pace",
    "keys_per_chunk": "pace",
    "file": "from_file",
    "reference": "autogenerate",
    "message": "message",
    "provider": "conf",
    "no_pages": "pages",
    "paged_operator": "paged",
    "kept": "folder",
    "words": "key",
}
OWN = {
    ("doctor", "master"): {"spark"},
    ("new", "checkpoint"): {"from_checkpoint"},
    ("lock", "file"): {"file"},
    ("backfill", "keys_per_chunk"): {"keys_per_chunk"},
    ("quarantine", "path"): set(),
    ("verify", "places"): {"old", "new"},
}
RECORDS = {
    "target": statemigrate.NewCode,
    "options": statemigrate.RewriteOptions,
    "answers": statemigrate.RewriteAnswers,
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_a_parameter_of_its_function(verb):
    taken = {*parameters(verb.replace("-", "_"))}
    for name, record in RECORDS.items():
        if name in taken and verb in ("rewrite", "seed", "plan"):
            taken |= {*inspect.signature(record).parameters}
    context = click.Context(main)
    options = {each.name for each in main.get_command(context, verb).params}
    # What every command has, but for the folder of scripts.
    options -= SHOWING | ({"migrations"} - taken)
    if verb == "rollback":
        options -= {"watch"}
    for option in options - {"place", "operator"}:
        wanted = OWN.get((verb, option), {NAMES.get(option, option)})
        assert wanted <= taken, (option, taken)
    if "operator" in options:
        assert "operator" in taken


ROOMS = sorted(
    each.name
    for each in pkgutil.walk_packages(statemigrate.__path__, "statemigrate.")
    if each.ispkg
)


@pytest.mark.parametrize("order", [1, -1, 0], ids=["forwards", "backwards", "verbs first"])
def test_a_verb_stays_a_function_whatever_room_was_imported_before(order):
    # In a process of its own: here everything has been imported already.
    verbs = [verb.replace("-", "_") for verb in VERBS]
    code = (
        "import importlib, inspect, sys, statemigrate\n"
        f"verbs, rooms, order = {verbs!r}, {ROOMS!r}, {order}\n"
        "if not order:\n"
        "    assert all(inspect.isfunction(getattr(statemigrate, verb)) for verb in verbs)\n"
        "for room in rooms[::order or 1]:\n"
        "    module = importlib.import_module(room)\n"
        "    assert sys.modules[room] is module and module.__name__ == room\n"
        "    for verb in verbs:\n"
        "        assert inspect.isfunction(getattr(statemigrate, verb)), (room, verb)\n"
        "import statemigrate.rewrite.plan, statemigrate.demo.run\n"
        "from statemigrate import rewrite, demo\n"
        "assert inspect.isfunction(rewrite) and inspect.isfunction(demo)\n"
        "from statemigrate.rewrite.plan import RewritePlan\n"
        "assert RewritePlan is statemigrate.RewritePlan\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_one_function_serves_one_thing_and_several(tmp_path):
    checkpoints.scripts(tmp_path)
    path = checkpoints.items(tmp_path, 10)
    named = {"migrations": tmp_path / "migrations"}
    fleet = statemigrate.status(checkpoints={"shop": path, "gone": tmp_path / "no"}, **named)
    assert [each.error is None for each in fleet.looks] == [True, False]
    alone = statemigrate.status(path, **named)
    assert fleet.looks[0].status.left == alone.left
    assert "--checkpoint shop, then" in fleet.looks[0].status.stores[0].next_action
    with_targets = statemigrate.NamedCheckpoint("shop", str(path), targets={"items": "base"})
    (found,) = statemigrate.status(checkpoints=[with_targets], **named).looks
    assert found.status.is_current
    (of_all,) = statemigrate.current(checkpoints={"shop": path}, **named)
    assert of_all.current.stores == statemigrate.current(path, **named).stores
    trials = statemigrate.dry_run(checkpoints={"shop": path}, **named)
    assert [each.found.tried for each in trials.trials] == [10]
    lines = "\n".join(json.dumps(checkpoints.item(each)) for each in range(3))
    (tmp_path / "a.jsonl").write_text(lines)
    assert statemigrate.dry_run("items", from_file=tmp_path / "a.jsonl", **named).tried == 3
    native = checkpoint(tmp_path / "native")
    logs = statemigrate.log(checkpoints={"native": native, "gone": tmp_path / "no"})
    assert [each.log is None for each in logs] == [False, True]
    assert statemigrate.new("bids", "one", new=statemigrate.Struct("a INT"), **named).is_baseline
    assert statemigrate.new(from_checkpoint=path, **named) == ()
    for wrong in ({"operator": 1}, {"checkpoint": path}):
        with pytest.raises(StatemigrateError, match="stands in place of"):
            statemigrate.status(checkpoints={"shop": path}, **wrong)
    with pytest.raises(StatemigrateError, match="status is not given a checkpoint"):
        statemigrate.status()


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
            assert str(each.annotation).startswith(("str | Path", "PathOrFiles"))


def test_a_path_serves_where_a_text_does(tmp_path):
    root = checkpoint(tmp_path / "c")
    assert statemigrate.adopt(root) == statemigrate.adopt(str(root))
    assert statemigrate.adopt(root, apply=True, wait=0).state == "adopted"
    assert statemigrate.adopt(root, undo=True).state == "would undo"
    folder = tmp_path / "migrations"
    statemigrate.init(migrations=folder)
    assert statemigrate.check(checkpoint=root, migrations=folder).passed
    assert statemigrate.backfill(root, pause=True) == 0
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
