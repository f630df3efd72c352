"""The disposable directory: this user's alone, and without leftovers."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from threading import Event

import pytest

from statemigrate.embedded.committed import make_directory, remove_directory
from statemigrate.embedded.layout import (
    Layout,
    given_directory,
    private_directory,
    remove_stale_copies,
)
from statemigrate.errors import CheckpointError


@pytest.fixture
def layout(tmp_path, monkeypatch) -> Layout:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    return Layout.of(tmp_path / "checkpoint")


def test_the_default_directory_is_closed_to_other_users(layout):
    directory = private_directory(layout)
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    assert directory.parent.name == f"statemigrate-{os.getuid()}"
    assert private_directory(layout) == directory


@pytest.mark.parametrize("trap", ["open to all", "a link elsewhere"])
def test_a_directory_somebody_else_could_have_prepared_is_refused(layout, tmp_path, trap):
    parent = layout.default_working_directory().parent
    if trap == "open to all":
        parent.mkdir()
        parent.chmod(0o777)
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="is not this user's alone") as caught:
        private_directory(layout)
    assert "working_directory" in (caught.value.next_action or "")


def test_what_killed_tasks_left_is_removed_and_nothing_else(tmp_path):
    kept = ["partition-0", "partition-1", "mine"]
    left = ["partition-0-private-12ab", "partition-1-copy-34cd"]
    for name in [*kept, *left]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "CURRENT").write_text("x")
    remove_stale_copies(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711])
def test_the_default_directory_is_closed_where_others_could_read_it(layout, mode):
    parent = layout.default_working_directory().parent
    parent.mkdir()
    parent.chmod(mode)
    private_directory(layout)
    assert parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [None, 0o755, 0o775, 0o700])
def test_a_directory_that_was_named_is_made_or_closed(tmp_path, mode):
    directory = tmp_path / "working"
    if mode is not None:
        directory.mkdir()
        directory.chmod(mode)
    assert given_directory(directory) == directory
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_directory_of_an_earlier_run_is_closed(tmp_path):
    for name in ("partition-0", "partition-0-private-12ab"):
        (tmp_path / name).mkdir()
    (tmp_path / "lock").touch()
    tmp_path.chmod(0o755)
    given_directory(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_was_named_and_everybody_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(CheckpointError, match="is not this user's alone") as caught:
        given_directory(tmp_path)
    # It may be /tmp: nobody is told to remove that.
    assert str(tmp_path / "statemigrate") in caught.value.next_action
    assert "remove" not in caught.value.next_action


def test_a_directory_with_other_things_in_it_is_never_closed_to_others(tmp_path):
    (tmp_path / "logs").mkdir()
    tmp_path.chmod(0o755)
    with pytest.raises(CheckpointError, match="is not this user's alone"):
        given_directory(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o700)
    assert given_directory(tmp_path) == tmp_path


@pytest.fixture
def shared(tmp_path, monkeypatch):
    directory = tmp_path / "shared"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


KILLED = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from statemigrate.embedded.committed import make_directory
(make_directory() / "state").write_text("values")
os._exit(1)
"""


def test_what_a_killed_reader_left_is_removed_and_a_living_ones_is_not(shared):
    living = make_directory()
    (living / "state").write_text("values")
    subprocess.run([sys.executable, "-c", KILLED, str(shared)], check=False, timeout=60)
    assert len(list(shared.iterdir())) == 2
    mine = make_directory()
    assert set(shared.iterdir()) == {living, mine}
    assert (living / "state").read_text() == "values"
    for directory in (living, mine):
        remove_directory(directory)
    assert list(shared.iterdir()) == []


def test_a_directory_is_removed_whole_although_a_task_still_writes_into_it(shared):
    mine = make_directory()
    for number in range(2_000):
        (mine / str(number)).touch()
    started = Event()

    def write() -> None:
        end = time.monotonic() + 0.3
        for number in count():
            if time.monotonic() > end:
                return
            with suppress(FileNotFoundError):
                (mine / f"late-{number}").touch()
            started.set()

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(write)
        started.wait()
        remove_directory(mine)
        assert list(shared.iterdir()) == []
        writing.result()


def test_only_a_readers_directory_of_this_user_is_removed(shared, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "lock").write_text("mine")
    (shared / "statemigrate-reader-link").symlink_to(tmp_path / "home")
    (shared / "statemigrate-reader-file").write_text("mine")
    (shared / "statemigrate-reader-new").mkdir()
    (shared / "statemigrate-reader-old").mkdir()
    os.utime(shared / "statemigrate-reader-old", (1, 1))
    (shared / "other").mkdir()
    mine = make_directory()
    assert set(shared.iterdir()) - {mine} == {
        shared / "statemigrate-reader-link",
        shared / "statemigrate-reader-file",
        shared / "statemigrate-reader-new",
        shared / "other",
    }
    assert (tmp_path / "home" / "lock").read_text() == "mine"
    remove_directory(mine)
