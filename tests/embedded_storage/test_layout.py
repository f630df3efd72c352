"""Where a checkpoint is, however its place is written."""

from pathlib import Path

import pytest

from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import CheckpointError


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


@pytest.mark.parametrize(
    "given",
    ["hdfs:/cp", "dbfs:/cp", "s3://bucket/cp", "s3a://bucket", "file://data/cp", "file:data/cp"],
)
def test_what_is_no_local_directory_is_refused_and_makes_no_folder_here(
    given, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="cannot keep state"):
        Layout.of(given)
    assert list(tmp_path.iterdir()) == []
