"""Nothing from state, scripts or exceptions acts on a terminal."""

import ast
import io
import json
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import statemigrate.cli
from statemigrate.cli.main import main
from statemigrate.cli.options import Settings
from statemigrate.cli.output import (
    cell_text,
    partition_counts,
    print_error,
    print_json,
    print_line,
    print_rows,
    print_sentence,
    print_unexpected,
)
from statemigrate.cli.screen import Screen
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


class Terminal(io.StringIO):
    """80 columns wide."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, text: str, mark: str = "") -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", Terminal())
    print_sentence(text, mark=mark, style="bold red")
    return sys.stdout.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_a_sentence_is_broken_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word{n}" for n in range(30)]
    lines = on_a_terminal(monkeypatch, " ".join(words), "  wrong: ")
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).split() == ["wrong:", *words]
    assert lines[0].startswith("  wrong: word0")
    assert all(line.startswith("      word") for line in lines[1:])


def test_a_path_is_left_whole_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/" + "/".join(["folder-of-mine"] * 9)
    assert path in on_a_terminal(monkeypatch, f"from {path} on")[1]


def test_sentences_are_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not unsafe("".join(on_a_terminal(monkeypatch, HOSTILE, HOSTILE)))


def test_elsewhere_a_sentence_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_sentence("word " * 100, mark="? ")
    assert capsys.readouterr().out == "? " + "word " * 100 + "\n"


def test_of_many_partitions_the_least_and_the_most_are_told() -> None:
    assert partition_counts([1000, 2, 0]) == "1,000 2 0"
    assert partition_counts(range(7, 207)) == "7 to 206 in each of 200"


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("debug", [True, False])
def test_errors_have_escapes(
    capsys: pytest.CaptureFixture[str], as_json: bool, debug: bool
) -> None:
    texts = dict.fromkeys(("expected", "found", "next_action", "more"), HOSTILE)
    print_error(
        CheckpointError("SM-CHECKPOINT-003", HOSTILE, **texts), Settings(json=as_json, debug=debug)
    )
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
    error = CheckpointError(
        "SM-CHECKPOINT-003", text, expected=text, found=text, next_action=text, path=text
    )
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


def test_values_stand_in_a_table_without_the_quotes_of_json():
    shown = {"x": "x", '"q"': '"q"', Decimal("1.50"): "1.50", None: "null", 3: "3", True: "true"}
    assert {each: cell_text(each) for each in shown} == shown
    assert cell_text([Decimal(1), "a"]) == '["1", "a"]'
