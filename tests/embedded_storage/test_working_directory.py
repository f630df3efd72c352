"""The disposable directory: this user's alone, and without leftovers."""

import os

import pytest

from statemigrate.embedded.layout import Layout
from statemigrate.embedded.working import private_directory, remove_leftovers
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
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
