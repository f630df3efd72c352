"""With values hidden no key and no value is in a report, in an error or on the screen."""

import json
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from statemigrate.access import DualAccess
from statemigrate.cli.main import main
from statemigrate.cli.options import Settings
from statemigrate.cli.status_command import _print_quarantined
from statemigrate.commands.quarantine import FailedValue
from statemigrate.deployment import StoredFamily
from statemigrate.errors import NO_VALUES, StatemigrateError, TransformError
from statemigrate.families import MemoryFamily, Source
from statemigrate.formats import Struct
from statemigrate.inspect.trial_path import TrialPath
from statemigrate.migration.path import MigrationPath as TransformPath
from statemigrate.migration.path import Step
from statemigrate.scripts import ScriptFolder

SECRETS = ("secret-key", "secret-name", "secret-text", "SECRET-TEXT", "secret-number", "secret-map")
"""Parts of the keys and values of the file."""
SCRIPT = '''"""Names to numbers."""
from statemigrate.formats import Struct

revision = "dddd00000001"
down_revision = None
branch_labels = ("items",)
store = "items"
old = Struct("name STRING, kept STRING")
new = Struct("name BIGINT, kept STRING")


def upgrade(value):
    kept = value["kept"].upper()
    if value["name"].startswith("secret-name"):
        return {"name": value["name"], "kept": kept}
    return {"name": int(value["name"]), "kept": kept}


def downgrade(value):
    return {"name": str(value["name"]), "kept": value["kept"]}


lossless = True
'''
RECORDS = [
    {"key": {"id": f"secret-key-{name}"}, "value": {"name": name, "kept": "secret-text"}}
    for name in ("1", "secret-name", "secret-number")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scripts = ScriptFolder.create(tmp_path / "migrations")
    (scripts.versions / "numbers.py").write_text(SCRIPT)
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(NO_VALUES, raising=False)
    return tmp_path


def dry_run(*options: str) -> Result:
    arguments = ["dry-run", "items", "--from-file", "items.jsonl", *options]
    return CliRunner().invoke(main, arguments)


def secrets(text: str) -> list[str]:
    return [each for each in SECRETS if each in text]


def test_by_default_a_report_shows_keys_and_values(folder: Path) -> None:
    found = dry_run("--html", "report.html", "--junit", "report.xml")
    assert found.exit_code == 1
    assert {"secret-key", "secret-name", "secret-number"} <= set(secrets(found.output))
    assert "secret-key" in (folder / "report.html").read_text()
    assert "secret-key" in (folder / "report.xml").read_text()


@pytest.mark.parametrize("as_json", [True, False])
def test_without_values_no_report_shows_any(folder: Path, as_json: bool) -> None:
    options = ["--no-values", "--html", "report.html", "--junit", "report.xml"]
    found = dry_run(*options, *(["--json"] if as_json else []))
    assert found.exit_code == 1
    for text in (
        found.output,
        *((folder / f"report.{end}").read_text() for end in ("html", "xml")),
    ):
        assert "name" in text
        assert secrets(text) == []
    if as_json:
        (family,) = json.loads(found.stdout)["families"]
        (law,) = family["broken_laws"]
        assert (law["field"], law["examples"], law["smallest"]) == ("kept", [], None)
        assert (family["tried"], family["failed"], family["differing"]) == (3, 2, 1)
        assert sorted((each["cause"], each["values"]) for each in family["failures"]) == [
            (
                "base to dddd00000001: ValueError in line 16: "
                'return {"name": int(value["name"]), "kept": kept}',
                1,
            ),
            (
                "the new format cannot hold name: expected long, an int from "
                "-9223372036854775808 to 9223372036854775807",
                1,
            ),
        ]
    else:
        assert "Keys and values are not shown." in found.output


@pytest.mark.parametrize(
    ("project", "environment", "option", "hidden"),
    [
        ("values = false", None, None, True),
        ("values = true", None, None, False),
        (None, "1", None, True),
        ("values = true", "1", None, True),
        ("values = false", "0", None, False),
        ("values = false", "1", "--values", False),
        ("values = true", "0", "--no-values", True),
        (None, None, None, False),
    ],
)
def test_the_option_outranks_the_environment_and_that_the_project(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    project: str | None,
    environment: str | None,
    option: str | None,
    hidden: bool,
) -> None:
    if project:
        (folder / "pyproject.toml").write_text(f"[tool.statemigrate]\n{project}\n")
    if environment:
        monkeypatch.setenv(NO_VALUES, environment)
    found = dry_run(*([option] if option else []))
    assert ("secret-key" not in found.output) is hidden
    assert os.environ.get(NO_VALUES) == environment


@pytest.mark.parametrize(
    "text", ["values = ", "[tool]\nstatemigrate = 3", 'tool.statemigrate.values = "no"']
)
def test_a_project_file_that_does_not_say_it_is_bad_usage(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    found = dry_run()
    assert found.exit_code == 2
    assert "pyproject.toml" in found.output


@pytest.mark.parametrize(
    "words",
    [
        ["get", "items", "1", "--checkpoint", "checkpoint"],
        ["export", "items", "--checkpoint", "checkpoint", "--output", "items.avro"],
        ["status", "--failed", "items", "--checkpoint", "checkpoint", "--output", "items.jsonl"],
    ],
)
def test_what_is_there_to_show_values_is_refused(folder: Path, words: list[str]) -> None:
    found = CliRunner().invoke(main, [*words, "--no-values"])
    assert (found.exit_code, "--values" in found.output) == (2, True)


def test_reports_are_their_owners_alone(folder: Path) -> None:
    (folder / "report.html").write_text("before")
    (folder / "report.html").chmod(0o644)
    dry_run("--html", "report.html", "--junit", "report.xml")
    for name in ("report.html", "report.xml"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


MAP, LONG = Struct("m MAP<STRING, BIGINT>"), Struct("a BIGINT")


def _step(key: str, error: Exception) -> object:
    def upgrade(_: object) -> dict[str, object]:
        raise error

    try:
        return Step("items", "base", "dddd", upgrade, MAP).run({})
    except TransformError as failed:
        raise failed.at(key) from failed.__cause__


def _unfit() -> object:
    """A key of dual access whose value does not fit the new format."""
    small = Struct("a TINYINT")
    step = Step("items", "base", "dddd", lambda _: {"a": 987654321}, small)
    old, new = MemoryFamily("items", "base", LONG), MemoryFamily("items@dddd", "dddd", small)
    old.put(b"secret-key", {"a": 1})
    source = Source(old, TransformPath("base", "dddd", (step,)))
    return DualAccess("items", new, [source]).get(b"secret-key")


ERRORS: dict[str, Callable[[], object]] = {
    "a value": lambda: Struct("a BIGINT").encode({"a": "secret-text"}),
    "a number too large": lambda: Struct("a TINYINT").encode({"a": 987654321}),
    "a map's key": lambda: MAP.encode({"m": {"secret-map": "secret-text"}}),
    "bytes": lambda: Struct("a BIGINT NOT NULL").decode(b"secret-text" * 3),
    "a transform": lambda: _step("secret-key", ValueError("secret-text")),
    "what a transform returns": _unfit,
}


@pytest.mark.parametrize("fail", ERRORS.values(), ids=ERRORS)
def test_no_error_shows_a_value(
    monkeypatch: pytest.MonkeyPatch, fail: Callable[[], object]
) -> None:
    hidden = [*SECRETS, "987654321", b"secret-text".hex()]
    with pytest.raises(StatemigrateError) as shown:
        fail()
    assert any(each in str(shown.value) for each in hidden)
    monkeypatch.setenv(NO_VALUES, "1")
    with pytest.raises(StatemigrateError) as found:
        fail()
    assert not [each for each in hidden if each in str(found.value)]


def test_whether_values_are_shown_is_decided_where_the_course_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a worker, where nobody has set the variable, it still holds."""
    family = StoredFamily("items", "base", MAP)

    def course() -> TrialPath:
        return TrialPath(family, family, TransformPath("base", "base"), None)

    assert course().examples
    monkeypatch.setenv(NO_VALUES, "1")
    made = course()
    monkeypatch.delenv(NO_VALUES)
    trial = pickle.loads(pickle.dumps(made)).trial(lambda key: key)  # noqa: S301 - made just now
    trial.run("secret-key", b"", {"m": "secret-text"})
    ((cause, group),) = trial.findings.failures.items()
    assert cause.startswith("the new format cannot hold m: ")
    assert (group.values, group.keys, group.examples, group.note) == (1, [], [], "")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_list_of_quarantined_values_shows_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    found = [FailedValue("items", ("secret-key",), {"name": "secret-text"}, "KeyError")]
    monkeypatch.delenv(NO_VALUES, raising=False)
    _print_quarantined(Settings(json=as_json), found)
    assert "secret-key" in capsys.readouterr().out
    monkeypatch.setenv(NO_VALUES, "1")
    _print_quarantined(Settings(json=as_json), found)
    printed = capsys.readouterr().out
    assert "KeyError" in printed
    assert secrets(printed) == []
