"""The one way to files, on a local disk and in an object store in memory."""

from pathlib import Path

import pytest
from support.files_contract import FilesContract
from support.object_store import MemoryFiles

from statemigrate.files.local import LocalFiles
from statemigrate.files.protocol import Files


class TestLocalFiles(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return LocalFiles(tmp_path / "not made yet" / "checkpoint")


class TestMemoryFiles(FilesContract):
    @pytest.fixture
    def files(self) -> Files:
        return MemoryFiles()
