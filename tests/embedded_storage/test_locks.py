"""One running query a checkpoint and a working directory."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest

from statemigrate.embedded.layout import DirectoryLock
from statemigrate.errors import CheckpointError, CheckpointInUseError

HOLDER = """
import signal, sys
from pathlib import Path
from statemigrate.embedded.layout import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]), "the checkpoint")
print("held", flush=True)
signal.pause()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_lock_in_one_process_is_refused_and_names_the_holder(tmp_path):
    first = DirectoryLock(tmp_path / "deep" / "lock", "the checkpoint")
    for _ in range(2):  # the loser must not erase the holder's name
        with pytest.raises(CheckpointInUseError, match=r"checkpoint .*deep is in use") as raised:
            DirectoryLock(tmp_path / "deep" / "lock", "the checkpoint")
        assert f"process {os.getpid()} on " in raised.value.found
        assert raised.value.data["path"] == str(tmp_path / "deep")
        assert raised.value.next_action
    first.release()
    DirectoryLock(tmp_path / "deep" / "lock", "the checkpoint").release()


def test_two_directories_have_two_locks(tmp_path):
    locks = [DirectoryLock(tmp_path / name / "lock", "the checkpoint") for name in "ab"]
    for lock in locks:
        lock.release()


@pytest.mark.kill
def test_another_process_is_refused_until_the_holder_is_gone(tmp_path, holder):
    with pytest.raises(CheckpointInUseError) as raised:
        DirectoryLock(tmp_path / "lock", "the checkpoint")
    assert f"process {holder.pid} on " in raised.value.found
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    DirectoryLock(tmp_path / "lock", "the checkpoint").release()


def test_releasing_twice_is_harmless(tmp_path):
    lock = DirectoryLock(tmp_path / "lock", "the checkpoint")
    lock.release()
    lock.release()


def test_a_lock_in_a_place_that_cannot_be_written_is_a_named_error(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(CheckpointError, match="cannot write in") as raised:
        DirectoryLock(tmp_path / "file" / "lock", "the checkpoint")
    assert not isinstance(raised.value, CheckpointInUseError)


def test_a_file_system_without_locks_is_not_taken_for_a_running_query(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CheckpointError, match="cannot be locked") as raised:
        DirectoryLock(tmp_path / "lock", "the checkpoint")
    assert not isinstance(raised.value, CheckpointInUseError)
    assert "No locks available" in raised.value.found
