"""The one way to files, on a local disk and in an object store in memory."""

import os
import sys
from pathlib import Path

import pytest
from support.files_contract import FilesContract
from support.object_store import MemoryFiles

from statemigrate.errors import StorageError
from statemigrate.files.local import LocalFiles
from statemigrate.files.protocol import Files
from statemigrate.files.served import ServedFiles, served


class TestLocalFiles(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return LocalFiles(tmp_path / "not made yet" / "checkpoint")


class TestMemoryFiles(FilesContract):
    @pytest.fixture
    def files(self) -> Files:
        return MemoryFiles()


class TestServedFiles(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return served(LocalFiles(tmp_path / "checkpoint"))


class TestServedFilesBelowALongTemporaryDirectory(FilesContract):
    """Of 118 bytes, as YARN and CI make them: the path of a socket has 107."""

    @pytest.fixture
    def files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
        temporary = tmp_path / ("t" * 118)
        temporary.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        return served(LocalFiles(tmp_path / "checkpoint"))


def test_a_directory_with_a_short_path_is_this_users_alone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / ("t" * 118)
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    lent = served(LocalFiles(tmp_path / "checkpoint"))
    directory = Path(lent.address).parent
    assert len(lent.address) <= 60
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.stat().st_uid == os.getuid()
    assert list(temporary.iterdir()) == []


def test_where_no_directory_can_have_a_socket_it_is_said_which_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / ("t" * 118)
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    # Not by its path: the room gives a function of that name.
    module = sys.modules["statemigrate.files.served"]
    monkeypatch.setattr(module, "_SHORT", (str(tmp_path / "missing"),))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    with pytest.raises(StorageError, match="no directory for a socket") as raised:
        served(LocalFiles(tmp_path / "checkpoint"))
    assert "AF_UNIX path too long" in str(raised.value.found)
    assert str(tmp_path / "missing") in str(raised.value.found)
    assert "set TMPDIR" in str(raised.value.next_action)
    assert list(temporary.iterdir()) == []


def test_the_way_that_is_lent_is_this_users_alone(tmp_path: Path) -> None:
    lent = served(LocalFiles(tmp_path))
    lent.put("a", b"x")
    assert Path(lent.address).parent.stat().st_mode & 0o077 == 0
    with pytest.raises(StorageError, match="is gone"):
        ServedFiles(lent.location, lent.address, b"guessed").get("a")
    assert lent.get("a") == b"x"
    with pytest.raises(StorageError, match="start the query from the process"):
        ServedFiles(lent.location, "/nowhere/socket", lent.token).get("a")


def test_what_fails_at_the_driver_in_a_way_nobody_foresaw_is_told_where_it_was_asked(
    tmp_path: Path,
) -> None:
    files = MemoryFiles(prefix=tmp_path.name)
    files.put("a", b"x")
    lent = served(files)
    (tmp_path / "a file").write_bytes(b"")
    with pytest.raises(StorageError, match="failed at fetch") as raised:
        lent.fetch("a", tmp_path / "a file" / "below", most=10)
    assert "NotADirectoryError" in str(raised.value.found)
    assert lent.get("a") == b"x"
