"""The kill waits for a batch that is begun and not committed, and leaves no process."""

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from support.waiting import eventually

from statemigrate.demo.jobs.embedded import changelogs_written
from statemigrate.demo.jobs.native import partitions_written
from statemigrate.demo.stage import Crash, MidBatchKill, ProcessSession
from statemigrate.embedded.layout import Layout

pytestmark = pytest.mark.kill

# The child moves to a process group of its own, as Spark's Python daemon does.
FAMILY = """
import os, signal, subprocess, sys
stay = "import os, signal; os.setpgid(0, 0); print('ready', flush=True); signal.pause()"
subprocess.Popen([sys.executable, "-c", stay])
signal.pause()
"""


@pytest.fixture
def session(tmp_path):
    log = tmp_path / "log"
    session = ProcessSession(
        [sys.executable, "-c", FAMILY], directory=tmp_path, environment=dict(os.environ), log=log
    )
    eventually(lambda: "ready" in log.read_text())
    yield session
    session.kill()


@pytest.fixture
def layout(tmp_path):
    layout = Layout.of(tmp_path / "checkpoint")
    for name in ("offsets", "commits"):
        (layout.checkpoint / name).mkdir(parents=True)
    return layout


def note(layout, log, batch):
    (layout.checkpoint / log / str(batch)).touch()


def write_changelog(layout, partition, batch):
    layout.partition(partition).mkdir(parents=True, exist_ok=True)
    (layout.partition(partition) / f"{batch:012d}-0123abcd.changelog").touch()


def kill(session, layout):
    written = partial(changelogs_written, layout.checkpoint, 4)
    return MidBatchKill(session, layout.checkpoint, 4, 5, written)


@pytest.mark.parametrize("suffix", [".changelog", "_0f-2.changelog", ".zip"])
def test_the_parts_of_sparks_own_state_are_counted_by_version(tmp_path, suffix):
    for partition, version in ((0, 6), (1, 7), (2, 60), (3, 6)):
        folder = tmp_path / "state" / "0" / str(partition)
        folder.mkdir(parents=True)
        (folder / f"{version}{suffix}").touch()
    (tmp_path / "state" / "0" / "1" / ".6.changelog.tmp").touch()
    assert partitions_written(tmp_path, 4, 5) == 2


def test_a_batch_with_a_written_partition_is_killed_and_nobody_is_left(session, layout):
    note(layout, "commits", 4)
    note(layout, "offsets", 5)
    write_changelog(layout, 1, 5)
    assert len(session.members()) == 2
    assert kill(session, layout).strike() == Crash(5, 4, 1)
    assert session.members() == set()
    assert session.exit_code() == -9


@pytest.mark.parametrize("committed", [5, 6])
def test_a_committed_batch_is_left_alone(session, layout, committed):
    note(layout, "offsets", 5)
    write_changelog(layout, 1, 5)
    note(layout, "commits", committed)
    assert kill(session, layout).strike() is None
    assert len(session.members()) == 2


def test_a_batch_of_which_nothing_is_written_yet_is_left_alone(session, layout):
    note(layout, "offsets", 5)
    write_changelog(layout, 1, 4)
    assert kill(session, layout).strike() is None
    assert session.exit_code() is None


def test_an_earlier_batch_is_left_alone(session, layout):
    note(layout, "offsets", 4)
    write_changelog(layout, 1, 4)
    assert kill(session, layout).strike() is None


def test_a_batch_committed_at_the_last_moment_goes_on(session, layout):
    note(layout, "offsets", 5)
    write_changelog(layout, 1, 5)
    halt = session.stop

    def commit_then_halt():
        note(layout, "commits", 5)
        halt()

    session.stop = commit_then_halt
    assert kill(session, layout).strike() is None
    assert len(session.members()) == 2
    eventually(lambda: not any(is_halted(pid) for pid in session.members()))


def is_halted(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
