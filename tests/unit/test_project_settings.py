"""The settings that go through every command, in one object."""

import inspect
from pathlib import Path

import pytest
from support import checkpoints

from statemigrate import NamedCheckpoint, open_state
from statemigrate.errors import ScriptError
from statemigrate.scripts import folder
from statemigrate.state.project import Project


def test_a_reader_of_state_takes_every_setting_by_its_name():
    taken = inspect.signature(open_state).parameters
    assert Project().keywords.keys() == taken.keys() - {"checkpoint", "batch", "mask", "on_error"}
    own = Project("scripts", {"a": "base"}, {"b": "aggregation-0"}, None, 3, ("1a2b",))
    assert own.keywords == {
        "migrations": "scripts",
        "targets": {"a": "base"},
        "stores": {"b": "aggregation-0"},
        "spark": None,
        "operator": 3,
        "accept_edited": ("1a2b",),
    }


def test_a_checkpoint_with_a_name_has_its_own_targets_and_operator():
    shared = Project("scripts", {"a": "base", "b": "base"}, operator=1, accept_edited=("1a2b",))
    named = NamedCheckpoint("shop", "/data/shop", targets={"b": "3c4d"}, operator="prices")
    own = shared.at(named)
    assert (own.targets, own.operator) == ({"a": "base", "b": "3c4d"}, "prices")
    assert (own.migrations, own.accept_edited) == ("scripts", ("1a2b",))
    assert (shared.targets["b"], shared.operator) == ("base", 1)


def test_scripts_are_read_once_and_a_missing_default_folder_has_none(tmp_path, monkeypatch):
    project = Project(checkpoints.scripts(tmp_path))
    read, survey = [], folder.survey
    monkeypatch.setattr(folder, "survey", lambda *given: read.append(1) or survey(*given))
    assert project.survey is project.survey
    assert (project.survey.stores, len(read)) == (["items"], 1)
    monkeypatch.chdir(tmp_path / "migrations")
    assert (Project().survey, Project(None).survey) == (None, None)
    assert (Project().directory, Project(None).directory) == (Path("migrations"),) * 2
    with pytest.raises(ScriptError, match="is not a folder of migration scripts"):
        _ = Project().folder
