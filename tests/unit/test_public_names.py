"""The public names: every verb a function, one order of arguments, a path of any kind."""

import inspect
import json
import os
import pkgutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support import checkpoints
from support.offset_logs import checkpoint

import statemigrate
from statemigrate.cli import main
from statemigrate.cli.main import GROUPS, MOVED, VERBS
from statemigrate.errors import StatemigrateError
from statemigrate.state.open import engine_of

SUBJECTS = {
    "old",
    "query",
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
    "autogenerate", "backfill", "backfill_status", "baseline", "check", "diff", "dry_run",
    "dry_run_file", "export", "fork", "get", "history", "init", "new", "pause_backfill",
    "open_state", "record_applied", "sql", "status",
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
    "match", "only", "markdown", "sarif", "export",
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
    ("backfill", "keys_per_chunk"): {"keys_per_chunk"},
    ("status", "output"): set(),
    ("rewrite", "places"): {"old", "new"},
    ("diff", "places"): {"checkpoint", "new"},
    ("doctor", "migrations"): {"migrations"},
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
        if name in taken and verb in ("rewrite", "plan", "preview", "new", "doctor"):
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


@pytest.mark.parametrize(("gone", "now"), MOVED.items())
def test_a_command_that_went_answers_with_the_one_in_its_place(gone, now):
    ran = CliRunner().invoke(main, [gone, "checkpoint", "--json"])
    assert ran.exit_code == 2
    assert f"SM-CLI-006: `statemigrate {gone}` is now `statemigrate {now}`." in ran.stderr
    verb, *rest = now.split()
    command = main.get_command(click.Context(main), verb)
    options = {name for each in command.params for name in each.opts}
    assert {each for each in rest if each.startswith("--")} <= options
    assert gone not in VERBS
    assert not hasattr(statemigrate, gone)


def test_there_are_few_commands_and_help_has_each_in_a_group():
    assert len(VERBS) <= 20
    text = CliRunner().invoke(main, ["--help"]).stdout
    parts = [text.index(f"{group}:\n") for group in GROUPS]
    assert parts == sorted(parts)
    lines = [line.split()[0] for line in text[parts[0] :].splitlines() if line.startswith("  ")]
    assert [each for each in lines if each in VERBS] == list(VERBS)


WRONG = {
    "doctor checkpoint --repair --input a=b": "--input, --output-mode and --source are for --code.",
    "backfill checkpoint --undo": "--undo needs --prepare.",
    "backfill checkpoint --prepare --share 0.5": "--prepare excludes --share.",
    "backfill checkpoint --retire --pause": "excludes",
    "status checkpoint --failed items --watch": "--failed excludes --watch.",
    "status checkpoint --output values.jsonl": "--output needs --failed.",
    "history items --heads": "--heads excludes STORE.",
    "history --limit 3": "--limit is for --checkpoint without STORE, or for --all.",
    "history --match a*": "--match needs --all.",
    "new items --rebase -m text": "--rebase excludes --message.",
    "new items -m text --onto a1": "--onto needs --rebase.",
    "new items -m text --code a:b": "--code needs --from-checkpoint, without --to and --like.",
    "new items -m text --lock a.lock": "--input, --output-mode, --old-code and --lock need --code.",
    "new --edit items -m text": "--edit excludes --message.",
    "check --lock state.lock --record": "--lock excludes --record.",
    "check --lock state.lock": "Name one function of a query: --code MODULE:FUNCTION.",
    "check --code a:b --record-meaning": "--record-meaning needs CHECKPOINT.",
    "check --input a=b": "--input needs --lock or --write-lock or --record-meaning.",
    "rewrite old new --verify --apply": "--verify excludes --apply.",
    "rewrite old new --from-tables t": "--from-tables takes NEW alone: there is no old checkpoint.",
    "rewrite new": "Name two checkpoints: OLD, which there is, and NEW, to make.",
    "rewrite a b c --verify": "--verify takes OLD and NEW, or NEW alone.",
    "doctor checkpoint --back-to 3": "--back-to needs --repair.",
    "doctor --repair": "Name one checkpoint: CHECKPOINT, or --checkpoint PATH.",
}


@pytest.mark.parametrize("words", WRONG)
def test_options_that_do_not_go_together_are_misuse(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(main, words.split())
    assert ran.exit_code == 2, ran.output
    assert WRONG[words] in ran.stderr


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
        "import statemigrate.rewrite.rewrite_plan, statemigrate.demo.run\n"
        "from statemigrate import rewrite, demo\n"
        "assert inspect.isfunction(rewrite) and inspect.isfunction(demo)\n"
        "from statemigrate.rewrite.rewrite_plan import RewritePlan\n"
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
    (of_all,) = statemigrate.status(checkpoints={"shop": path}, **named, revisions=True)
    assert of_all.current.stores == statemigrate.status(path, **named, revisions=True).stores
    trials = statemigrate.dry_run(checkpoints={"shop": path}, **named)
    assert [each.found.tried for each in trials.trials] == [10]
    lines = "\n".join(json.dumps(checkpoints.item(each)) for each in range(3))
    (tmp_path / "a.jsonl").write_text(lines)
    assert statemigrate.dry_run("items", from_file=tmp_path / "a.jsonl", **named).tried == 3
    native = checkpoint(tmp_path / "native")
    logs = statemigrate.history(checkpoints={"native": native, "gone": tmp_path / "no"})
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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_several_verbs_take_has_one_default(name):
    for each in parameters(name).values():
        if each.name in SHARED:
            assert each.kind is inspect.Parameter.KEYWORD_ONLY
            assert each.default == SHARED[each.name]
        assert each.name not in ("tick", "version", "reference")


PLACES = ("checkpoint", "migrations", "path", "working_directory")
TAKING = [*FUNCTIONS, "BackfillListener", "EmbeddedOptions", "EmbeddedQuery", "NativeMetrics",
          "migrated", "with_backfill"]  # fmt: skip


@pytest.mark.parametrize("name", TAKING)
def test_a_place_is_a_text_or_a_path(name):
    for each in parameters(name).values():
        if each.name in PLACES:
            # A `Place` is one of both, or what a test has in memory.
            assert str(each.annotation).startswith(("str | Path", "PathOrFiles"))


def test_a_path_serves_where_a_text_does(tmp_path):
    root = checkpoint(tmp_path / "c")
    prepare = partial(statemigrate.backfill, prepare=True)
    assert prepare(root) == prepare(str(root))
    assert prepare(root, apply=True, wait=0).state == "prepared"
    assert prepare(root, undo=True).state == "would undo"
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
    assert statemigrate.history(heads=True, migrations=folder) == (entry,)
    assert statemigrate.history(show="bids@head", migrations=folder).revision == entry.revision


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
