"""The one way to files, on a local disk and in an object store in memory."""

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
