"""`edit` opens a script where its author writes, and says what came of it."""

import json
import shlex
import sys

import pytest
from support import checkpoints

from statemigrate import ScriptError
from statemigrate.commands.scripts import edit

REPLACING = "import sys, pathlib; f = pathlib.Path(sys.argv[-1]); f.write_text(f.read_text()"


def editor(*change: str) -> str:
    """A command that replaces a text in the file it is given."""
    code = f"{REPLACING}.replace({change[0]!r}, {change[1]!r}))"
    return shlex.join([sys.executable, "-c", code, "--wait"])


@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
def test_what_was_written_is_told(run, tmp_path, monkeypatch, variable):
    checkpoints.scripts(tmp_path)
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, editor("Amounts as decimals", "Money as decimals"))
    shown = run("new", "--edit", "items").stdout
    assert "message:  Money as decimals" in shown
    assert (
        json.loads(run("history", "--show", "items", "--json").stdout)["message"]
        == "Money as decimals"
    )


def test_what_is_wrong_now_is_told(run, tmp_path, monkeypatch):
    checkpoints.scripts(tmp_path)
    monkeypatch.setenv("VISUAL", editor("def upgrade", "def upgrad"))
    assert "Wrong:" in run("new", "--edit", "items", code=1).stdout


def test_an_editor_that_fails_or_is_not_there_is_named(tmp_path):
    checkpoints.scripts(tmp_path)
    (script,) = (tmp_path / "migrations" / "versions").glob("*.py")
    before = script.read_text()
    for command in ("nobodys-editor", shlex.join([sys.executable, "-c", "raise SystemExit(3)"])):
        with pytest.raises(ScriptError, match="could not be edited") as caught:
            edit("items", migrations=tmp_path / "migrations", editor=command)
        assert command in caught.value.found
    assert script.read_text() == before


def test_the_command_shows_the_script_and_writes_it(run, tmp_path):
    directory = checkpoints.scripts(tmp_path)
    shown = run("new", "--edit", "items", "--lens").stdout
    assert "scale(" in shown
    assert "--apply" in shown.splitlines()[-1]
    assert "def upgrade" in (directory / "versions" / "amounts.py").read_text()
    assert "Wrote" in run("new", "--edit", "items", "--lens", "--apply").stdout
    assert "def upgrade" not in (directory / "versions" / "amounts.py").read_text()
    run("new", "--edit", "items", "--apply", code=2)
    run("new", "--edit", "items", "--functions", code=2)


def test_a_squash_is_shown_and_asked_about(run, tmp_path):
    checkpoints.scripts(tmp_path)
    run("new", "items", "-m", "more", "--to", "amount DECIMAL(18,2), label STRING", "--rename",
        "name=label")  # fmt: skip
    shown = run("new", "items", "--squash", "head").stdout
    assert "replaces = {" in shown
    assert "--accept-unknown unknown" in shown
    run("new", "items", "--squash", "head", "--apply", code=1)
    written = run("new", "items", "--squash", "head", "--apply", "--accept-unknown", "unknown")
    assert "Wrote" in written.stdout
    run("check")
    run("new", "--squash", "head", code=2)
