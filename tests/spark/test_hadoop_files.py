"""The one way to files through Hadoop, on its own local file system."""

from pathlib import Path

import pytest
from support.files_contract import FilesContract

from statemigrate.errors import UnsupportedError
from statemigrate.files import Files, LocalFiles
from statemigrate.files.confined import is_below, is_same
from statemigrate.files.hadoop import HadoopFiles
from statemigrate.files.hadoop_jvm import Java, java_of
from statemigrate.files.protocol import ALLOW_RACES

pytestmark = pytest.mark.spark


@pytest.fixture
def java(spark: object) -> Java:
    found = java_of()
    assert found is not None
    return found


class TestHadoopFiles(FilesContract):
    @pytest.fixture
    def files(self, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
        # Hadoop's local file system looks whether a name is free, and renames then.
        monkeypatch.setenv(ALLOW_RACES, "1")
        return HadoopFiles(java, f"file://{tmp_path}/check point")

    # This file system cannot do it, which is why it has to be allowed.
    test_of_several_that_create_one_succeeds = None  # type: ignore[assignment]


def test_who_might_write_over_another_is_asked_first(java: Java, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=ALLOW_RACES):
        HadoopFiles(java, f"file://{tmp_path}").create("epoch", b"mine")
    assert list(tmp_path.iterdir()) == []


def test_a_place_behind_a_mount_is_known_by_what_it_leads_to(java: Java, tmp_path: Path) -> None:
    (tmp_path / "disk/old").mkdir(parents=True)
    (tmp_path / "link").symlink_to("disk")
    java.configuration.set("fs.viewfs.mounttable.t.link./data", f"file://{tmp_path}/link")
    mounted = HadoopFiles(java, "viewfs://t/data/old/state/new")
    assert mounted.real_location == f"file:{tmp_path}/link/old/state/new"
    old = LocalFiles(tmp_path / "disk/old")
    assert is_below(mounted, old)
    assert is_same(HadoopFiles(java, "viewfs://t/data/x/../old"), old)
    assert not is_below(HadoopFiles(java, "viewfs://t/data/other"), old)
