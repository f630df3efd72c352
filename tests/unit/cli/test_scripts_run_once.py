"""However often a verb needs the scripts, each of them is executed once."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from support import checkpoints

from statemigrate.cli.main import main
from statemigrate.commands.new_script import autogenerate, baseline
from statemigrate.deployment import Declared, StoredStore
from statemigrate.formats import Struct
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.scripts import ScriptFolder
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.protocol import Ticks

COUNTING = """
with open({log!r}, "a") as log:
    log.write({name!r} + "\\n")
"""
OTHER = '''"""Another store's."""
from statemigrate.formats import Struct

revision = "eeee00000001"
down_revision = None
branch_labels = ("others",)
store = "others"
old = None
new = Struct("n INT")
'''
AT = ["--checkpoint", "checkpoint"]
VERBS = {
    "history": ["history"],
    "history of a store": ["history", "items"],
    "heads": ["history", "--heads"],
    "show": ["history", "--show", "items@head"],
    "check": ["check"],
    "check a checkpoint": ["check", *AT],
    "status": ["status", *AT],
    "get": ["get", "items", "1", *AT],
    "export": ["export", "items", *AT, "--output", "items.jsonl"],
    "dry-run": ["dry-run", "items", *AT],
    "dry-run to a target": ["dry-run", "items", *AT, "--target", "items=head"],
    "dry-run of a file": ["dry-run", "items", "--from-file", "values.jsonl"],
    "quarantine": ["status", "--failed", "items", *AT],
    "retire": ["backfill", "--retire", *AT, "--target", "items=base"],
    "backfill": ["backfill", "checkpoint"],
    "backfill of Spark's own state": ["backfill", "native"],
    "new from a checkpoint": ["new", "--from-checkpoint", "checkpoint"],
    "new": ["new", "thirds", "-m", "as it is", "--to", "n INT", "--baseline"],
}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the scripts write when they are executed."""
    monkeypatch.chdir(tmp_path)
    checkpoints.items(tmp_path, 20)
    path = tmp_path / "executed"
    versions = ScriptFolder(checkpoints.scripts(tmp_path)).versions
    scripts = {"amounts": checkpoints.SCRIPT, "others": OTHER}
    for name, text in scripts.items():
        counting = COUNTING.format(log=str(path), name=name)
        (versions / f"{name}.py").write_text(text + counting)
    Path("native/offsets").mkdir(parents=True)
    Path("native/metadata").write_text('{"id": "8d4c8e2c-7f3b-4d52-8c0e-2f4d8b7c7a11"}')
    Path("values.jsonl").write_text(json.dumps(checkpoints.item(1)))
    return path


def executed(log: Path) -> Counter[str]:
    return Counter(log.read_text().split())


class Here:
    """The values of a store, seen to by this very process and not by Spark's tasks."""

    def __init__(self, partitions: Any) -> None:
        self._partitions = partitions

    def map(self, task: Any, *, shares: Any = None, tick: Any = None) -> Iterator[Any]:
        for number in range(len(self._partitions.committed.manifest.partitions)):
            yield from self._partitions.work(number, task, shares or {}, Ticks(Path())).items()


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_verb_executes_each_script_once(
    monkeypatch: pytest.MonkeyPatch, log: Path, words: list[str]
) -> None:
    monkeypatch.setattr("statemigrate.cli.session.local_session", lambda: nullcontext(Mock()))
    monkeypatch.setattr(
        EmbeddedState, "values", lambda state, *named: Here(state.partitions(*named))
    )
    monkeypatch.setattr(SparkCheckpoint, "last_batch", lambda _: None)
    # A path without a scheme would be looked up in the session's settings.
    native = Path("native").absolute().as_uri()
    found = CliRunner().invoke(main, [native if each == "native" else each for each in words])
    assert (found.exit_code, found.exception) == (0, None), found.output
    assert executed(log) == {"amounts": 1, "others": 1}


def test_autogenerate_executes_each_script_once(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """The new ones too, which need not count themselves: they are loaded after they are written."""
    changed = [
        Declared("items", "value", Struct("cents BIGINT").struct_type()),
        Declared("others", "value", Struct("n INT, m INT").struct_type()),
        Declared("thirds", "value", Struct("n INT").struct_type()),
    ]
    monkeypatch.setattr("statemigrate.inspect.declared_code.declared_in", lambda _: changed)
    written = autogenerate("pipeline:Totals", "more")
    assert [each.store for each in written] == ["items", "others", "thirds"]
    assert executed(log) == {"amounts": 1, "others": 1}


def test_baselines_of_several_stores_execute_each_script_once(
    monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    stored = {name: StoredStore("value", (checkpoints.FAMILY,)) for name in ("one", "two")}
    monkeypatch.setattr(EmbeddedState, "stores", stored)
    assert [each.store for each in baseline("checkpoint")] == ["one", "two"]
    assert executed(log) == {"amounts": 1, "others": 1}
