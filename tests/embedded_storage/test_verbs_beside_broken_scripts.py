"""The verbs that look at a store's state work while another store's scripts are broken."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import checkpoints
from support.script_files import script

from statemigrate.cli import main


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ten items; a script of another store does not import."""
    checkpoints.scripts(tmp_path)
    script(tmp_path / "migrations", "x1", store="others", new="(")
    monkeypatch.chdir(tmp_path)
    return str(checkpoints.items(tmp_path, 10))


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    return result.output


def test_get_export_status_and_quarantine_go_on(checkpoint: str) -> None:
    assert json.loads(run("get", "items", "3", "--checkpoint", checkpoint)) == {
        "amount": "0.09",
        "name": "item 3",
    }
    run("export", "items", "--output", "all.jsonl", "--checkpoint", checkpoint)
    assert len(Path("all.jsonl").read_text().splitlines()) == 10
    assert "items  value state" in run("status", "--checkpoint", checkpoint)
    assert (
        run("status", "--failed", "items", "--checkpoint", checkpoint)
        == "Nothing was left behind\n"
    )


def test_the_broken_store_itself_is_told_with_where_to_look(checkpoint: str) -> None:
    (path,) = Path("migrations/versions").glob("amounts.py")
    path.write_text(path.read_text().replace("new = Struct(", "new = Struct(("))
    assert "does not import" in run("get", "items", "3", "--checkpoint", checkpoint, code=1)
    text = run("status", "--checkpoint", checkpoint)
    assert "target base, its scripts are broken" in text
    assert "Next: statemigrate history items shows what is wrong with its scripts" in text
