"""`status --watch`: what is drawn in place, what is added elsewhere, and what is claimed."""

import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import checkpoints
from support.checkpoints import FAMILY, KEY, NEW, REVISION
from support.terminals import Command

from statemigrate import status
from statemigrate.commands.fleet import Fleet, Look, Watched, WatchedFleet
from statemigrate.configuration import NamedCheckpoint
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CheckpointError

TARGET = StoredFamily(f"items@{REVISION}", REVISION, NEW)


def commit(layout: Layout, version: int, left: int, at: float | None = None) -> None:
    """A version of which only the count matters, which Spark noted as done ``at``."""
    states = (PartitionState(entries={FAMILY.name: left, TARGET.name: None}),)
    families = (TARGET, FAMILY) if left else (TARGET,)
    stores = {"items": StoredStore("value", families)}
    publish_manifest(layout, Manifest(version, KEY.jsonValue(), states, stores, {}))
    done = layout.checkpoint / "commits" / str(version)
    done.parent.mkdir(exist_ok=True)
    done.touch()
    if at is not None:
        os.utime(done, (at, at))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    checkpoints.scripts(tmp_path)
    return Layout.of(tmp_path / "checkpoint")


def test_the_last_commit_has_a_time_and_an_age(layout: Layout, tmp_path: Path) -> None:
    commit(layout, 0, 100, time.time() - 3000)
    found = status(layout.checkpoint, migrations=tmp_path / "migrations")
    assert found.committed_at == (layout.checkpoint / "commits" / "0").stat().st_mtime
    assert found.age == pytest.approx(3000, abs=30)
    assert found.to_json()["committed_at"] == found.committed_at
    assert replace(found, committed_at=found.taken_at + 5).age == 0
    assert replace(found, committed_at=None).age is None


def looked(found, at: float, left: int, batch: int = 0):
    """A look at the same checkpoint at another time."""
    (store,) = found.stores
    (family,) = store.families
    family = replace(family, values=left, partitions={0: left})
    stores = (replace(store, families=(family,)),)
    return replace(found, batch=batch, taken_at=at, stores=stores)


def test_rates_are_from_looks_and_one_look_claims_none(layout: Layout, tmp_path: Path) -> None:
    for version in range(2):
        commit(layout, version, 200 - 100 * version)
        time.sleep(0.02)
    found = status(layout.checkpoint, migrations=tmp_path / "migrations")
    assert found.rate is not None
    watched = Watched(span=10)

    def at(seconds: float, left: int, batch: int = 0):
        after = watched.after(looked(found, seconds, left, batch))
        (store,) = after.stores
        return after.over, after.rate, store.seconds

    assert at(0, 1000) == (None, None, None)
    assert at(4, 1000) == (4, 0, None)
    assert at(8, 900) == (8, 12.5, 72)
    # The first look is older than the span now, and still the oldest that spans it.
    assert at(12, 800) == (12, 200 / 12, 48)
    assert at(20, 790) == (12, 110 / 12, 790 / (110 / 12))
    # More than before: another target, perhaps.
    assert at(24, 5000) == (12, None, None)
    # A batch that is older than the last one: another checkpoint in its place.
    watched.after(looked(found, 25, 400, batch=7))
    assert at(26, 300, batch=2) == (None, None, None)


def test_a_fleet_is_followed_though_one_cannot_be_read(layout: Layout, tmp_path: Path) -> None:
    commit(layout, 0, 100)
    found = status(layout.checkpoint, migrations=tmp_path / "migrations").first
    named = NamedCheckpoint("shop", "checkpoint")
    watched = WatchedFleet()
    watched.after(Fleet((Look(named, looked(found, 0, 100)),)))
    away = Fleet((Look(named, None, CheckpointError("SM-CHECKPOINT-003", "away")),))
    assert watched.after(away) == away
    (after,) = watched.after(Fleet((Look(named, looked(found, 10, 50)),))).looks
    assert (after.status.over, after.status.rate) == (10, 5)


def test_on_a_terminal_it_is_drawn_in_its_place_and_ends_when_nothing_is_left(
    layout: Layout, tmp_path: Path
) -> None:
    commit(layout, 0, 4000, time.time() - 100)
    command = Command(tmp_path, "status", "checkpoint", "--watch", "--interval", "0.2")
    first = command.until("Next:")
    assert "4,000 left to migrate" in first
    assert re.search(r"batch 0\n  committed \d{4}-\d\d-\d\d [0-9:]{8}, 1 min \d+ s ago", first)
    assert "a second" not in first
    assert "nothing moved over" in command.until("nothing moved over")
    commit(layout, 1, 3000)
    later = command.until("3,000 left to migrate")
    assert re.search(r"dual access: on; [0-9,.]+ values a second over \d+ s, .* left", later)
    assert later.count("Next:") == later.count("dual access") == 1
    assert "4,000" not in later
    commit(layout, 2, 0)
    last = command.until("dual access: off")
    assert command.ended() == 0
    assert last.count("left to migrate") == 1
    assert "0 left to migrate" in last
    assert max(map(len, last.splitlines())) <= 80


def test_ctrl_c_ends_it_and_leaves_the_cursor_and_the_last_look(
    layout: Layout, tmp_path: Path
) -> None:
    commit(layout, 0, 4000)
    command = Command(tmp_path, "status", "checkpoint", "--watch", "--interval", "30")
    command.until("Next:")
    command.process.send_signal(signal.SIGINT)
    assert command.ended() == 0
    assert "4,000 left to migrate" in command.shown.text
    assert "Traceback" not in command.shown.text
    assert command.written.rindex("\x1b[?25h") > command.written.rindex("\x1b[?25l")


def test_what_is_higher_than_the_terminal_is_whole_in_the_end(
    layout: Layout, tmp_path: Path
) -> None:
    commit(layout, 0, 4000)
    command = Command(tmp_path, "status", "checkpoint", "--watch", "--interval", "30", height=5)
    assert "Next:" not in command.until("...")
    command.process.send_signal(signal.SIGINT)
    assert command.ended() == 0
    assert command.shown.text.count("Next:") == 1


def test_all_are_drawn_within_80_columns(layout: Layout, tmp_path: Path) -> None:
    commit(layout, 0, 812_004)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoints = {gone = "nowhere", shop = "checkpoint"}\n'
    )
    command = Command(tmp_path, "status", "--all", "--watch", "--interval", "0.2")
    first = command.until("nowhere is not the checkpoint")
    assert ["gone", "cannot", "be", "read"] in [line.split() for line in first.splitlines()]
    commit(layout, 1, 812_000)
    later = command.until("812,000 values left to migrate")
    (shop,) = [line.split() for line in later.splitlines() if line.startswith("shop  ")]
    assert shop[:6] == ["shop", "1", "0", "s", "ago", "items"]
    assert shop[6] == "812,000"
    assert float(shop[7]) > 0
    assert max(map(len, later.splitlines()[:4])) <= 80
    command.process.send_signal(signal.SIGINT)
    assert command.ended() == 1


def test_elsewhere_a_line_is_added_for_each_look(layout: Layout, tmp_path: Path, monkeypatch):
    from click.testing import CliRunner

    from statemigrate.cli import main, watching

    commit(layout, 0, 4000)
    monkeypatch.chdir(tmp_path)
    counts = iter((3000, 0))
    versions = iter((1, 2))

    def slept(seconds: float) -> None:
        commit(layout, next(versions), next(counts))

    monkeypatch.setattr(watching, "time", SimpleNamespace(**{**vars(time), "sleep": slept}))
    lines = CliRunner().invoke(main, ["status", "checkpoint", "--watch"]).stdout.splitlines()
    assert lines[2] == "  4,000 left to migrate"
    assert re.fullmatch(
        r"[0-9:]{8} batch 1, 0 s ago \| items 3,000 left; [0-9,.]+ values a second over \d s, .*",
        lines[-2],
    )
    assert re.search(r"items 0 left; [0-9,.]+ values a second over \d s$", lines[-1])


def test_machines_get_a_document_a_look(layout: Layout, tmp_path: Path, monkeypatch):
    from click.testing import CliRunner

    from statemigrate.cli import main, watching

    commit(layout, 0, 4000)
    monkeypatch.chdir(tmp_path)
    sleep = SimpleNamespace(**{**vars(time), "sleep": lambda _: commit(layout, 1, 0)})
    monkeypatch.setattr(watching, "time", sleep)
    text = CliRunner().invoke(main, ["status", "checkpoint", "--watch", "--json"]).stdout
    first, end = json.JSONDecoder().raw_decode(text)
    second = json.loads(text[end:])
    assert [each["left"] for each in (first, second)] == [4000, 0]
    assert first["over"] is None
    assert second["over"] > 0
