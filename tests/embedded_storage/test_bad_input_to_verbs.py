"""What people get wrong with the verbs that look at state, and what they are told."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import checkpoints
from support.waiting import eventually

from statemigrate.cli import main

EXPORT = ["export", "items", "--output", "out.jsonl"]
READING = [["status"], ["get", "items", "1"], EXPORT]


def run(root: Path, *words: str) -> Any:
    return CliRunner().invoke(main, ["--migrations", str(root / "migrations"), *words])


def lines(result: Any) -> dict[str, str]:
    """An error's parts by name."""
    first, *rest = result.stderr.splitlines()
    parts = dict(line.strip().split(": ", 1) for line in rest if ": " in line)
    return {"error": first.removeprefix("Error: "), **parts}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    checkpoints.scripts(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("made", "found"),
    [
        (None, "no such directory"),
        ([], "a directory without either"),
        (["_metadata", "chk-17"], "a directory without either"),
        (["commits/0", "offsets/0"], "a query's checkpoint without state: no batch has kept any"),
    ],
    ids=["missing", "empty", "of another tool", "stateless"],
)
def test_what_is_no_stateful_checkpoint_is_said(
    root: Path, words: list[str], made: list[str] | None, found: str
) -> None:
    directory = root / "somewhere"
    for name in made or []:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    if made == []:
        directory.mkdir()
    result = run(root, *words, "--checkpoint", str(directory))
    told = lines(result)
    assert result.exit_code == 1
    assert (
        told["error"]
        == f"{directory} is not the checkpoint of a stateful query [SM-CHECKPOINT-032]"
    )
    assert told["found"] == found
    assert told["next"].startswith("name the directory that the query has as its checkpointLoc")
    assert not (root / "out.jsonl").exists()


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_a_checkpoint_without_a_committed_batch_is_said(root: Path, words: list[str]) -> None:
    path = checkpoints.items(root, 4, committed=False)
    told = lines(run(root, *words, "--checkpoint", str(path)))
    assert told["error"] == f"nothing is committed in the checkpoint {path} [SM-CHECKPOINT-003]"
    assert told["found"] == ", ".join(sorted(each.name for each in path.iterdir()))
    assert told["next"].startswith("check the path, or let the query run until its first batch")


@pytest.mark.parametrize("words", READING[1:], ids=lambda words: words[0])
def test_a_damaged_file_is_named(root: Path, words: list[str]) -> None:
    path = checkpoints.items(root, 500)
    (largest,) = sorted(path.rglob("files/*"), key=lambda each: each.stat().st_size)[-1:]
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    largest.write_bytes(data)
    result = run(root, *words, "--checkpoint", str(path))
    told = lines(result)
    assert result.exit_code == 1
    assert told["error"] == f"{largest} is not what was written [SM-EMBEDDED-018]"
    assert "`statemigrate doctor CHECKPOINT --repair`" in told["next"]
    assert "restore the checkpoint directory from a copy" in told["next"]
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_waited_for_and_then_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statemigrate.embedded import committed

    path = checkpoints.items(root, 20)
    (missing,) = sorted(path.rglob("files/*"))[:1]
    missing.unlink()
    # Without it the changelogs make the version all the same.
    told = run(root, "get", "items", "1", "--checkpoint", str(path))
    assert (told.exit_code, told.stderr) == (0, "")
    for each in path.rglob("*.changelog"):
        each.unlink()
    monkeypatch.setattr(committed.hold, "__kwdefaults__", {"deadline": 0.2})
    told = lines(run(root, "get", "items", "1", "--checkpoint", str(path)))
    assert told["error"] == f"{missing} is missing [SM-EMBEDDED-017]"


def test_a_version_that_goes_while_it_is_read_gives_way_to_the_next(root: Path) -> None:
    import threading

    from statemigrate.embedded.committed import hold
    from statemigrate.embedded.layout import Layout

    path = checkpoints.items(root, 20)
    layout = Layout.of(path)
    manifest = layout.versions / "0-1.json"
    kept = manifest.read_bytes()
    manifest.unlink()
    later = threading.Timer(0.3, lambda: manifest.write_bytes(kept))
    later.start()
    held = hold(layout)
    later.join()
    assert held.manifest.version == 0
    held.close()


def test_a_script_that_imports_what_is_not_there_is_named(root: Path) -> None:
    path = checkpoints.items(root, 4)
    checkpoints.scripts(root, f"import no_such_module\n{checkpoints.SCRIPT}")
    reading = ("get", "items", "1", "--checkpoint", str(path))
    result = run(root, *reading)
    told = lines(result)
    assert told["error"].endswith("amounts.py, line 1: the script does not import. [SM-SCRIPT-009]")
    assert told["found"] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert "Traceback" not in result.stderr
    assert "Traceback" in run(root, *reading, "--debug").stderr


def test_status_goes_on_where_a_script_is_broken_and_names_what_shows_it(root: Path) -> None:
    path = checkpoints.items(root, 4)
    checkpoints.scripts(root, f"import no_such_module\n{checkpoints.SCRIPT}")
    result = run(root, "status", "--checkpoint", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "items  value state, target base, its scripts are broken" in result.stdout
    assert "statemigrate history items shows what is wrong with its scripts" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "items", "one"], "id is not long"),
        (["get", "items", "99999999999999999999"], "'99999999999999999999' is not a key of col"),
        (["get", "others", "1"], "has no store others"),
        (["export", "items", "--output", "missing/out.avro"], "cannot export to missing/out.avro"),
        (["status", "--target", "items=nobody"], "Store 'items' has no revision 'nobody'."),
    ],
)
def test_words_that_fit_nothing_are_said(root: Path, words: list[str], message: str) -> None:
    path = checkpoints.items(root, 4)
    result = run(root, *words, "--checkpoint", str(path))
    assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


def test_bad_usage_exits_with_2(root: Path) -> None:
    for words in (
        ["status"],
        ["dry-run", "items"],
        ["dry-run", "items", "--checkpoint", "a", "--from-file", "b"],
        ["dry-run", "items", "--checkpoint", "a", "--sample", "0"],
        ["backfill"],
        ["new", "items", "--from-checkpoint", "a", "--baseline"],
    ):
        assert run(root, *words).exit_code == 2, words


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"cents": 1, "name": "x"}\nnot json\n', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", '{"cents": "1"}\n', "a.jsonl, record 1: "),
        ("a.avro", "no avro", "a.avro is not an Avro container file"),
        ("missing.jsonl", None, "missing.jsonl: No such file or directory"),
    ],
)
def test_a_file_to_try_that_is_none_is_said(
    root: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (root / name).write_text(content)
    result = run(root, "dry-run", "items", "--from-file", name)
    assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


def test_values_in_a_file_are_tried(root: Path) -> None:
    lines_ = [json.dumps(checkpoints.item(number)) for number in range(5)]
    lines_ += [json.dumps({"key": {"id": 7}, "value": {"cents": 2**62, "name": None}})]
    (root / "a.jsonl").write_text("\n".join(lines_))
    result = run(root, "dry-run", "items", "--from-file", "a.jsonl", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["tried"], report["failed"]) == (1, 6, 1)
    (failure,) = report["families"][0]["failures"]
    assert failure["keys"] == ["[7]"]


def leftovers(temporary: Path) -> set[str]:
    return {each.name for each in temporary.glob("statemigrate-*-*")}


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    files = [each for each in folder.rglob("*") if each.is_file()]
    return {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in files}


class Held:
    """A command that comes to a stand where its script says so, until it is interrupted.

    The script tells of it by opening a named pipe for writing, and then waits for ever, in short
    pieces: a signal right before one long wait would only be seen after it.
    """

    def __init__(self, root: Path, *arguments: str) -> None:
        self._root, self._arguments = root, arguments
        self._reached = root / "reached"
        os.mkfifo(self._reached)
        wait = "while True: __import__('time').sleep(0.01)"
        stand = f"open({str(self._reached)!r}, 'w').close()\n    {wait}"
        transform = '    return {"amount"'
        assert transform in checkpoints.SCRIPT
        text = checkpoints.SCRIPT.replace(transform, f"    {stand}\n{transform}", 1)
        (root / "migrations" / "versions" / "amounts.py").write_text(text)

    def interrupted(self) -> tuple[int, str, str]:
        """Run it, and press Ctrl-C when it stands; its exit code and what it printed."""
        # A temporary folder of its own: tests that run at the same time leave and take away theirs.
        temporary = self._root / "temporary"
        temporary.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "statemigrate", *self._arguments],
            cwd=self._root,
            env={**os.environ, "TMPDIR": str(temporary), "PYTHONFAULTHANDLER": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._wait(process)
        # A terminal sends it to all processes, Java too.
        os.killpg(process.pid, signal.SIGINT)
        output, errors = _ended(process)
        assert leftovers(temporary) == set()
        return process.returncode, output, errors

    def _wait(self, process: subprocess.Popen[str]) -> None:
        # Opened without waiting, so that a command that ends early is a failure and not a hang.
        pipe = os.open(self._reached, os.O_RDONLY | os.O_NONBLOCK)
        try:
            poll = select.poll()
            poll.register(pipe, select.POLLIN | select.POLLHUP)
            eventually(lambda: poll.poll(10) or process.poll() is not None)
        finally:
            os.close(pipe)
        assert process.poll() is None, process.communicate()


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed; of a process that goes on, where each of its threads stands."""
    try:
        return process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"it goes on after Ctrl-C: {process.communicate()}")


def test_ctrl_c_ends_it_cleanly_and_leaves_nothing(root: Path) -> None:
    path = checkpoints.items(root, 10)
    code, output, errors = Held(root, *EXPORT, "--checkpoint", str(path)).interrupted()
    assert (code, errors) == (130, "Interrupted.\n"), output
    assert not list(root.glob("*out.jsonl*"))


@pytest.mark.spark
def test_ctrl_c_while_spark_works_ends_it_as_cleanly(root: Path) -> None:
    path = checkpoints.items(root, 10)
    files = contents(path)
    code, output, errors = Held(root, "dry-run", "items", "--checkpoint", str(path)).interrupted()
    # Spark says a line or two before it has read how to log.
    assert (code, errors.splitlines()[-1]) == (130, "Interrupted."), output + errors
    assert "Traceback" not in output + errors
    assert contents(path) == files
