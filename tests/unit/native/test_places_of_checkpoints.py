"""A checkpoint's place is read as Hadoop reads it, by every part of Spark's own state."""

import pytest

from statemigrate.errors import CheckpointError
from statemigrate.files.open import open_files
from statemigrate.native.adoption_files import OffsetLog
from statemigrate.native.deployment_check import ObservedCheckpoint


@pytest.fixture
def beside(tmp_path):
    """A checkpoint whose path is the beginning of the one that is meant."""
    (tmp_path / "cp").mkdir()
    (tmp_path / "cp/metadata").write_text('{"id":"another"}')
    (tmp_path / "cp/commits").mkdir()
    (tmp_path / "cp/commits/4").write_text("v1\n{}")
    return tmp_path / "cp"


@pytest.mark.parametrize("end", ["#1", "?1", ";1"])
@pytest.mark.parametrize("start", ["", "file:", "file://"])
def test_the_end_of_a_path_is_never_dropped(beside, start, end):
    place = f"{start}{beside}{end}"
    assert open_files(place).location == f"{beside}{end}"
    assert ObservedCheckpoint.at(place).query is None
    with pytest.raises(CheckpointError, match="is not the checkpoint of a streaming query"):
        OffsetLog(place)


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("start", ["", "file:", "file://"])
def test_a_path_and_a_uri_are_one_place(beside, start, end):
    place = f"{start}{beside}{end}"
    found = ObservedCheckpoint.at(place)
    assert (open_files(place).location, found.query, found.batch) == (str(beside), "another", 4)
    assert OffsetLog(place).checkpoint == str(beside)


@pytest.mark.parametrize("place", ["file://data/cp", "file:cp"])
def test_no_other_uri_is_a_folder_of_the_working_directory(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for look in (open_files, OffsetLog):
        with pytest.raises(CheckpointError):
            look(place)
    assert list(tmp_path.iterdir()) == []
