"""How a moved checkpoint is shown to Spark: its own files, the metadata rewritten elsewhere."""

import gc
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlparse

import pytest
from support.offset_logs import checkpoint, operator, tree

from statemigrate.checkpoint.operators import metadata as operators
from statemigrate.files import LocalFiles
from statemigrate.files.cached import Remembered
from statemigrate.native import moved as view
from statemigrate.native.moved import readable_uri


class Session:
    """Remembers settings, as a session does."""

    def __init__(self):
        self.settings = {}
        self.conf = SimpleNamespace(set=self.settings.__setitem__)


@pytest.fixture(
    params=[lambda files: files, Remembered], ids=["as they are", "remembered"], autouse=True
)
def seen(request, monkeypatch):
    monkeypatch.setattr(f"{__name__}.looked_at", request.param)


def looked_at(files):
    return files


def place(root, session):
    return readable_uri(looked_at(LocalFiles(root)), str(root), session)


@pytest.fixture
def moved(tmp_path):
    root = checkpoint(tmp_path / "old")
    operator(root, 2)
    shutil.copytree(root, tmp_path / "new")
    return tmp_path / "new"


def linked(session, location):
    """The directories that stand in for the checkpoint's own, by their place in it."""
    name = urlparse(location).netloc
    start = f"fs.viewfs.mounttable.{name}.link./"
    return {
        key.removeprefix(start): Path(urlparse(uri).path)
        for key, uri in session.settings.items()
        if key.startswith(start)
    }


def test_a_checkpoint_that_names_itself_is_read_where_it_is(tmp_path):
    session = Session()
    root = checkpoint(tmp_path / "c")
    assert place(root, session) == str(root)
    assert not session.settings


def test_a_copy_is_shown_with_its_own_files_and_left_alone(moved):
    session, before = Session(), tree(moved)
    location = place(moved, session)
    assert tree(moved) == before
    name = urlparse(location).netloc
    assert session.settings[f"fs.viewfs.mounttable.{name}.linkFallback"] == f"file:{moved}"
    links = linked(session, location)
    assert sorted(links) == [f"state/{number}/_metadata" for number in (0, 2)]
    for number in (0, 2):
        text = (links[f"state/{number}/_metadata"] / "v2" / "0").read_text()
        (store,) = json.loads(text.removeprefix("v2\n"))["stateStoreInfo"]
        schema = f"state/{number}/_stateSchema/default/0_{number}"
        assert store["stateSchemaFilePaths"] == [f"file:{moved}/{schema}"]
        assert links[f"state/{number}/_metadata"].parents[2].stat().st_mode & 0o077 == 0


def test_asking_again_makes_nothing_new_and_another_session_is_told_too(moved):
    first, second = Session(), Session()
    location = place(moved, first)
    assert place(moved, first) == location
    assert place(moved, second) == location
    assert second.settings == first.settings
    text = (moved / "state/0/_metadata/v2/0").read_text()
    (moved / "state/0/_metadata/v2/5").write_text(text)
    assert place(moved, first) != location


def test_metadata_that_a_running_query_removes_meanwhile_are_passed_over(moved, monkeypatch):
    text = (moved / "state/0/_metadata/v2/0").read_text()
    (moved / "state/0/_metadata/v2/5").write_text(text)
    listed = operators.operator_runs

    def removed_after_listing(files, operator):
        found = listed(files, operator)
        (moved / "state/0/_metadata/v2/0").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(operators, "operator_runs", removed_after_listing)
    session = Session()
    links = linked(session, place(moved, session))
    assert [at.name for at in (links["state/0/_metadata"] / "v2").iterdir()] == ["5"]


def test_nothing_of_it_is_left(moved):
    session = Session()
    directories = linked(session, place(moved, session)).values()
    assert all(each.is_dir() for each in directories)
    view._view.cache_clear()
    gc.collect()
    assert not any(each.parents[2].exists() for each in directories)
