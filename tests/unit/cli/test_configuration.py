"""`[tool.statemigrate]` in pyproject.toml says once what commands are about."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import checkpoints
from support.script_files import script

from statemigrate.configuration import Configuration, ConfigurationError, configured


def project(text: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.statemigrate]\n{text}\n")


def test_the_folder_of_scripts(run):
    project('migrations = "state/scripts"')
    assert "state/scripts/versions" in run("init").stdout
    script(Path("state/scripts"), "r1", store="auctions")
    assert "r1" in run("history").stdout
    assert (
        "No migration scripts yet"
        in run("--migrations", "other", "init").stdout
        + run("--migrations", "other", "history").stdout
    )


def test_an_option_outranks_the_environment_and_that_the_file(run, monkeypatch):
    project('migrations = "file"')
    monkeypatch.setenv("STATEMIGRATE_MIGRATIONS", "environment")
    assert "option/versions" in run("--migrations", "option", "init").stdout
    assert "verb/versions" in run("init", "--migrations", "verb").stdout
    assert "environment/versions" in run("init").stdout
    monkeypatch.delenv("STATEMIGRATE_MIGRATIONS")
    assert "file/versions" in run("init").stdout


def test_the_checkpoint_and_the_targets(run, tmp_path, monkeypatch):
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    missing = "Name one checkpoint: CHECKPOINT, or --checkpoint PATH."
    assert missing in run("status", code=2).stderr
    assert "Name the checkpoint and a key" in run("get", "items", "3", code=2).stderr
    project('checkpoint = "checkpoint"\n[tool.statemigrate.targets]\nitems = "base"')
    assert "checkpoint: embedded, batch 0" in run("status").stdout
    assert '"cents": 9' in run("get", "items", "3").stdout
    assert '"amount": "0.09"' in run("get", "items", "3", "--target", "items=head").stdout
    monkeypatch.setenv("STATEMIGRATE_CHECKPOINT", str(tmp_path / "elsewhere"))
    assert "elsewhere is not the checkpoint" in run("status", code=1).stderr
    assert "batch 0" in run("status", "--checkpoint", "checkpoint").stdout


def test_a_target_of_a_store_that_nobody_knows_is_refused(run, tmp_path):
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    shared = ["--checkpoint", "checkpoint", "--target", "itms=base"]
    for words in (
        ["status"],
        ["get", "items", "3"],
        ["dry-run", "items"],
        ["backfill", "--retire"],
    ):
        error = run(*words, *shared, code=1).stderr
        assert "A target is named for itms" in error, words
        assert "did you mean items?" in error


def test_a_checkpoint_has_a_name_with_its_own_targets(run, tmp_path, monkeypatch):
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    named = '{path = "checkpoint", targets = {items = "base"}}'
    project(f'checkpoints = {{shop = {named}, other = "nowhere"}}')
    assert "checkpoint: embedded, batch 0" in run("status", "shop").stdout
    assert "checkpoint: embedded, batch 0" in run("status", "--checkpoint", "shop").stdout
    assert '"cents": 9' in run("get", "items", "3", "--checkpoint", "shop").stdout
    head = ["get", "items", "3", "--target", "items=head"]
    assert '"amount": "0.09"' in run(*head, "--checkpoint", "shop").stdout
    assert '"amount": "0.09"' in run("get", "items", "3", "--checkpoint", "checkpoint").stdout
    monkeypatch.setenv("STATEMIGRATE_CHECKPOINT", "shop")
    assert '"cents": 9' in run("get", "items", "3").stdout
    assert "./shop is not the checkpoint" in run("status", "./shop", code=1).stderr


def test_all_checkpoints_are_looked_at_though_one_cannot_be_read(run, tmp_path):
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    project('checkpoints = {gone = "nowhere", shop = "checkpoint"}')
    shown = run("status", "--all", code=1).stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["gone", "cannot", "be", "read"] in rows
    head = ["base,", "head", checkpoints.REVISION]
    (shop,) = [row for row in rows if row[:1] == ["shop"]]
    assert shop[:6] == ["shop", "items", "behind", "0", "-", "0"]
    assert shop[-5:] == ["s", "ago", *head]
    assert "Next: shop, items: statemigrate dry-run items --checkpoint shop, then" in shown
    assert "nowhere is not the checkpoint of a stateful query" in shown
    found = json.loads(run("status", "--all", "--json", code=1).stdout)
    assert [each["name"] for each in found["checkpoints"]] == ["gone", "shop"]
    assert found["left"] == 0
    assert found["is_whole"] is False
    assert found["checkpoints"][0]["status"] is None
    assert found["checkpoints"][1]["status"]["stores"][0]["store"] == "items"
    project('checkpoints = {shop = "checkpoint"}')
    assert "cannot be read" not in run("status", "--all").stdout
    assert "--all is every checkpoint" in run("status", "--all", "checkpoint", code=2).stderr
    project("")
    assert "has none" in run("status", "--all", code=2).stderr


def test_all_stores_of_all_checkpoints_are_tried(run, tmp_path):
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    project('checkpoints = {gone = "nowhere", shop = "checkpoint"}')
    done = run("dry-run", "--all", "--junit", "all.xml", code=1)
    assert "Error: nowhere is not the checkpoint" in done.stdout
    assert "shop.items\nDry run of items" in done.stdout
    assert "All 10 values migrate." in done.stdout
    suites = ElementTree.parse("all.xml").getroot()  # noqa: S314 - our own
    assert [each.get("name") for each in suites] == ["gone", "shop.items"]
    assert suites.find("testsuite/testcase/error").get("message").startswith("nowhere is not")
    counts = {"errors": "1", "failures": "0", "tests": str(len(list(suites.iter("testcase"))))}
    assert {name: suites.get(name) for name in counts} == counts
    found = json.loads(run("dry-run", "--all", "--json", code=1).stdout)
    assert found["in_order"] is False
    assert [(each["name"], each["store"]) for each in found["trials"]] == [
        ("gone", None),
        ("shop", "items"),
    ]
    project('checkpoints = {shop = "checkpoint"}')
    run("dry-run", "--all")
    for words in (["items"], ["--checkpoint", "shop"], ["--html", "page.html"]):
        error = run("dry-run", *words, "--all", code=2).stderr
        assert "--all is every store" in error
        assert words[0].strip("-") in error or words == ["items"]
    # What is set for all commands is no word about this one.
    project('checkpoint = "shop"\ncheckpoints = {shop = "checkpoint"}')
    run("dry-run", "--all")
    assert "Missing argument 'STORE'" in run("dry-run", code=2).stderr


def test_the_code_of_all_checkpoints_is_checked(run, tmp_path):
    checkpoints.scripts(tmp_path)
    project('checkpoints = {shop = {path = "checkpoint", code = ["nobodys_module:Shop"]}}')
    assert "nobodys_module" in run("check", code=1).stdout
    project('checkpoints = {shop = "checkpoint"}')
    run("check")


def test_a_dry_run_of_all_counts_no_values_and_hides_no_other_checkpoint(
    run, tmp_path, monkeypatch
):
    from statemigrate.commands import dry_run as dry_run_all
    from statemigrate.state.embedded import EmbeddedState

    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    project('checkpoints = {first = "checkpoint", other = "./checkpoint"}')
    counted, counts, dry_run = [], EmbeddedState.counts, dry_run_all.dry_run
    monkeypatch.setattr(
        EmbeddedState, "counts", lambda *given, **n: counted.append(1) or counts(*given, **n)
    )

    def unreadable(store, checkpoint, *settings, **given):
        if checkpoint == "checkpoint":
            raise PermissionError(13, "Permission denied", "checkpoint/state")
        assert given["pace"].keys == 7
        return dry_run(store, checkpoint, *settings, **given)

    monkeypatch.setattr(dry_run_all, "dry_run", unreadable)
    command = ["dry-run", "--all", "--json", "--keys-per-chunk", "7"]
    found = json.loads(run(*command, code=1).stdout)["trials"]
    assert "Permission denied" in found[0]["error"]["summary"]
    assert (found[1]["store"], found[1]["error"]) == ("items", None)
    # The one that the dry run itself makes.
    assert len(counted) == 1


def test_a_file_of_its_own_says_the_same_without_the_header(run, tmp_path):
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    Path("pyproject.toml").write_text('[project]\nname = "mine"\n')
    own = Path("statemigrate.toml")
    own.write_text('migrations = "migrations"\n[checkpoints]\nshop = "checkpoint"\n')
    assert "checkpoint: embedded, batch 0" in run("status", "shop").stdout
    own.write_text("migration = 3\n")
    assert "statemigrate.toml has no setting migration" in run("history", code=2).stderr
    own.write_text("migrations =\n")
    assert "statemigrate.toml cannot be read" in run("history", code=2).stderr
    own.write_text("")
    project('checkpoints = {shop = "checkpoint"}')
    both = "statemigrate.toml and [tool.statemigrate] in pyproject.toml both configure this project"
    assert f"{both}: keep one." in run("history", code=2).stderr


def test_code_that_does_not_import_is_named(run, tmp_path):
    checkpoints.scripts(tmp_path)
    project('checkpoints = {shop = {path = "checkpoint", code = ["no_such_job:Totals"]}}')
    error = run("check", code=1)
    assert "no_such_job:Totals cannot be imported" in error.stdout + error.stderr


@pytest.mark.parametrize("verb", ["status", "backfill"])
def test_a_checkpoint_is_an_option_or_the_one_argument(run, verb):
    for words in (["nowhere"], ["--checkpoint", "nowhere"]):
        error = run(verb, *words, code=1).stderr
        assert "nowhere" in error
    both = run(verb, "nowhere", "--checkpoint", "elsewhere", code=2).stderr
    assert "Name one checkpoint" in both


WRONG = {
    'migration = "x"': "has no setting migration: it has migrations, checkpoint, checkpoints",
    "migrations = 3": "migrations of [tool.statemigrate] in pyproject.toml is the path of a folder",
    'targets = "head"': "targets of [tool.statemigrate] in pyproject.toml is a table",
    "targets = {a = 1}": "targets of [tool.statemigrate] in pyproject.toml is a table",
    'stores = {a = "join-0.left", b = "join-0.left"}': "two names for one operator",
    "checkpoints = 3": "checkpoints of [tool.statemigrate] in pyproject.toml is a table",
    "checkpoints = {a = 3}": "checkpoints.a of [tool.statemigrate] in pyproject.toml is a path",
    'checkpoints = {a = {code = ["x:y"]}}': "is a path, or a table with one",
    'checkpoints = {a = {path = "x", place = "y"}}': "has no place: it has path, code, targets",
    'checkpoints = {a = {path = "x", code = "x:y"}}': "is a list of MODULE:OBJECT",
    'checkpoints = {a = {path = "x", operator = true}}': "is the number or name of",
    'checkpoints = {a = "x", b = "x"}': "checkpoints.a and b of [tool.statemigrate]",
    'checkpoints = {a = "x"}\ncheckpoints = {a = "y"}': "pyproject.toml cannot be read",
    "truncate_slug_length = true": "is a number",
    'post_write_hooks = [{name = "ruff"}]': "a list of tables, each with a name and a type",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_nobody_understands_is_bad_usage(run, text):
    project(text)
    assert WRONG[text] in run("history", code=2).stderr
    with pytest.raises(ConfigurationError):
        configured()


def test_without_a_table_nothing_is_said(tmp_path):
    assert configured(tmp_path) == Configuration()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    assert configured(tmp_path) == Configuration()
