"""Nothing from state, scripts or exceptions acts on a terminal."""

import ast
import io
import json
import sys
from pathlib import Path

import pytest

import statemigrate.cli
from statemigrate.cli.main import main
from statemigrate.cli.options import Settings
from statemigrate.cli.output import (
    Screen,
    print_error,
    print_json,
    print_line,
    print_rows,
    print_unexpected,
)
from statemigrate.errors import CheckpointError
from statemigrate.scripts import ScriptFolder

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x9b31m \u202egnp.exe \u2066x\u2069 "
    "\r\x08 \x7f \u200b \U000e0041 \ud800"
)
UNSAFE = set(HOSTILE) - set(" [2J]0;title31mgnp.ex")


def unsafe(text: str) -> set[str]:
    return set(text) & UNSAFE


def test_a_string_is_drawn_with_escapes_on_a_terminal_and_elsewhere() -> None:
    for terminal in (True, False):
        screen = Screen(
            file=io.StringIO(), force_terminal=terminal, width=200, markup=False, color_system=None
        )
        screen.print(f"before\n{HOSTILE}")
        drawn = screen.file.getvalue()  # type: ignore[attr-defined]
        assert not unsafe(drawn)
        assert r"\x1b[2J\x1b]0;title\x07 \x9b31m \u202egnp.exe \u2066x\u2069" in drawn
        assert drawn.startswith("before\n")


def test_tables_lines_and_json_have_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("name",), [(HOSTILE,)])
    print_line(HOSTILE)
    print_json({HOSTILE: HOSTILE})
    printed = capsys.readouterr().out
    assert not unsafe(printed)
    document = json.loads(printed[printed.index("{") :])
    assert document == {HOSTILE: HOSTILE}


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("debug", [True, False])
def test_errors_have_escapes(
    capsys: pytest.CaptureFixture[str], as_json: bool, debug: bool
) -> None:
    texts = dict.fromkeys(("expected", "found", "next_action", "more"), HOSTILE)
    print_error(CheckpointError(HOSTILE, **texts), Settings(json=as_json, debug=debug))
    print_error(OSError(2, HOSTILE, HOSTILE), Settings(json=as_json, debug=debug))
    printed = capsys.readouterr().err
    assert "title" in printed
    assert not unsafe(printed)


def test_an_error_that_nobody_foresaw_has_escapes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert sys.excepthook is print_unexpected
    capsys.readouterr()
    sys.excepthook(RuntimeError, RuntimeError(HOSTILE), None)
    printed = capsys.readouterr().err
    assert "RuntimeError" in printed
    assert not unsafe(printed)


def test_every_verb_prints_through_the_one_place() -> None:
    """No other module of the command line prints by itself, or makes a console."""
    folder = Path(statemigrate.cli.__file__).parent
    for path in folder.rglob("*.py"):
        if path.name == "output.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("click.echo", "click.secho", "print", "Console"), path


def test_a_script_whose_error_has_escapes_does_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = ScriptFolder.create(tmp_path / "migrations").versions
    (versions / "bad.py").write_text(f"raise ValueError({HOSTILE!a})\n")
    for verb in (["check"], ["history"], ["check", "--json"], ["--debug", "history"]):
        with pytest.raises(SystemExit):
            main(["--migrations", str(tmp_path / "migrations"), *verb])
        printed = capsys.readouterr()
        assert "title" in printed.out + printed.err, verb
        assert not unsafe(printed.out + printed.err), verb


URIS = {
    "s3a://KEY:sec/ret@bucket/cp": "s3a://***@bucket/cp",
    "cannot open 's3a://KEY:secret@bucket/cp'": "cannot open 's3a://***@bucket/cp'",
    "abfss://box@account.host/cp?sig=secret&se=1 is": "abfss://box@account.host/cp?*** is",
    "https://user:secret@host:443/cp": "https://***@host:443/cp",
    "https://:secret@host/cp": "https://***@host/cp",
    "hdfs://name:8020/data/user@home": "hdfs://name:8020/data/user@home",
    "file:///data/what?.txt": "file:///data/what?.txt",
    "/data/cp": "/data/cp",
}


@pytest.mark.parametrize("text", URIS)
def test_credentials_of_a_uri_are_not_printed(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = CheckpointError(text, expected=text, found=text, next_action=text, path=text)
    assert str(error).count(URIS[text]) == 4
    assert error.data["path"] == text
    print_error(error, Settings(debug=True))
    print_error(error, Settings(json=True))
    print_json({"checkpoint": text})
    print_line(text)
    print_rows(("checkpoint",), [(text,)])
    printed = capsys.readouterr()
    assert "secret" not in printed.out + printed.err
    assert "sec/ret" not in printed.out + printed.err
    assert URIS[text] in printed.out
