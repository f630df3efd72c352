"""Where a checkpoint is, however its place is written."""

from pathlib import Path

import pytest
from support.object_store import MemoryFiles

from statemigrate.embedded.layout import Layout
from statemigrate.errors import CheckpointError
from statemigrate.files import LocalFiles


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("/data/cp", "/data/cp"),
        ("/data/cp/", "/data/cp"),
        ("cp", "/work-here/cp"),
        ("job:1/cp", "/work-here/job:1/cp"),
        ("file:/data/cp", "/data/cp"),
        ("file:///data/cp/", "/data/cp"),
        ("file://localhost/data/cp", "/data/cp"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:///data/a#1", "/data/a#1"),
        ("file:/data/a?1", "/data/a?1"),
        ("file:/data/a;1", "/data/a;1"),
    ],
)
def test_a_local_checkpoint_is_where_its_path_or_uri_says(given, place, monkeypatch):
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/work-here") / path)
    assert Layout.of(given).checkpoint == Path(place)


def test_a_remote_checkpoint_has_a_mirror_of_its_own_on_each_machine(tmp_path):
    one, other = MemoryFiles(prefix="one"), MemoryFiles(prefix="other")
    layout = Layout.over(one)
    assert layout.files is one
    assert layout.location == "memory://one"
    assert layout.location_of("statemigrate/versions/1-1.json").startswith("memory://one/")
    assert layout.checkpoint == layout.default_working_directory() / "mirror"
    assert layout.checkpoint != Layout.over(other).checkpoint
    within = layout.within(tmp_path)
    assert (within.checkpoint, within.files) == (tmp_path / "mirror", one)
    assert within.here == Layout(tmp_path / "mirror")


def test_a_local_checkpoint_is_its_own_mirror(tmp_path):
    layout = Layout.over(LocalFiles(tmp_path))
    assert layout == Layout.of(tmp_path) == layout.within(tmp_path / "working") == layout.here
    assert layout.location == f"file://{tmp_path}"


@pytest.mark.parametrize("given", ["nowhere://host/cp", "file:data/cp"])
def test_what_cannot_be_reached_is_refused_and_makes_no_folder_here(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"cannot be reached|is no place on this machine"):
        Layout.of(given)
    assert list(tmp_path.iterdir()) == []
