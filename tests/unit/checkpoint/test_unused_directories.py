"""When a directory counts as one that no query has used."""

import pytest

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.files import LocalFiles


@pytest.fixture
def directory(tmp_path):
    return CheckpointDirectory(LocalFiles(tmp_path))


def test_a_first_start_that_ended_before_its_metadata_leaves_it_unused(tmp_path, directory):
    for name in ("commits", "offsets", "statemigrate"):
        (tmp_path / name).mkdir()
    assert directory.is_unused()


@pytest.mark.parametrize("left", ["offsets/0", "commits/0", "state/0/0", "sources/0", "notes.txt"])
def test_whatever_a_batch_or_somebody_else_left_is_used(tmp_path, directory, left):
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).write_text("something")
    assert not directory.is_unused()
