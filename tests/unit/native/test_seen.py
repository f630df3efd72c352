"""What a check saw against the query that runs, from a checkpoint written by hand."""

import json

import pytest
from support.offset_logs import put

from statemigrate.errors import CheckpointError, StartupError
from statemigrate.native import deployment_check as seen
from statemigrate.native.deployment_check import ObservedCheckpoint

QUERY = "11111111-2222-3333-4444-555555555555"


def checkpoint(root, *, committed, begun=None):
    put(root / "metadata", json.dumps({"id": QUERY}))
    for log, last in (("commits", committed), ("offsets", committed if begun is None else begun)):
        for batch in range(last + 1):
            put(root / log / str(batch), "v1\n{}")
    return str(root)


def task(monkeypatch, query, batch):
    monkeypatch.setattr(seen, "running", lambda: (query, batch))


def test_where_there_is_no_directory_nothing_was_seen_and_nothing_is_made(tmp_path):
    found = ObservedCheckpoint.at(str(tmp_path / "none"))
    assert (found.query, found.batch, found.is_something) == (None, -1, False)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_statemigrate_may_be_there_before_the_query(tmp_path):
    (tmp_path / "statemigrate" / "control").mkdir(parents=True)
    assert not ObservedCheckpoint.at(str(tmp_path)).is_something


def test_the_root_of_a_new_volume_is_an_empty_directory(tmp_path):
    (tmp_path / "lost+found").mkdir()
    assert not ObservedCheckpoint.at(str(tmp_path)).is_something
    (tmp_path / "lost+found" / "#12").touch()
    assert not ObservedCheckpoint.at(str(tmp_path)).is_something


def test_what_is_in_use_for_something_else_is_refused(tmp_path):
    put(tmp_path / "letter.txt", "dear")
    with pytest.raises(CheckpointError, match="is not the checkpoint of a streaming query"):
        ObservedCheckpoint.at(str(tmp_path))


def test_a_relative_path_is_the_same_directory_wherever_it_is_looked_at_again(
    tmp_path, monkeypatch
):
    checkpoint(tmp_path / "c", committed=2)
    monkeypatch.chdir(tmp_path)
    found = ObservedCheckpoint.at("c")
    assert (found.query, found.batch) == (QUERY, 2)
    monkeypatch.chdir("/")
    put(tmp_path / "c" / "offsets" / "3", "v1\n{}")
    assert found.compare_at_start() == 2


def test_at_the_start_a_query_must_have_come_to_life_there(tmp_path):
    nothing = ObservedCheckpoint.at(str(tmp_path / "c"))
    with pytest.raises(StartupError, match="is not the checkpoint of the query that runs"):
        nothing.compare_at_start()
    checkpoint(tmp_path / "c", committed=-1, begun=0)
    assert nothing.compare_at_start() == -1


def test_a_copy_in_which_no_batch_has_begun_is_not_where_a_query_runs(tmp_path):
    found = ObservedCheckpoint.at(checkpoint(tmp_path, committed=2))
    with pytest.raises(StartupError, match="batch 2 committed and 2 begun"):
        found.compare_at_start()


def test_another_query_in_the_same_place_is_not_the_one_that_was_seen(tmp_path):
    found = ObservedCheckpoint.at(checkpoint(tmp_path, committed=2, begun=3))
    put(tmp_path / "metadata", json.dumps({"id": "another"}))
    with pytest.raises(StartupError, match=f"the query another; the check saw {QUERY}"):
        found.compare_at_start()


def test_a_task_of_the_next_batch_may_drop_and_a_later_one_may_not(tmp_path, monkeypatch):
    found = ObservedCheckpoint.at(checkpoint(tmp_path, committed=2))
    for batch, next_one in ((3, True), (4, False), (9, False)):
        task(monkeypatch, QUERY, batch)
        assert found.compare_in_task() is next_one


def test_a_task_of_another_query_is_refused(tmp_path, monkeypatch):
    found = ObservedCheckpoint.at(checkpoint(tmp_path, committed=2))
    task(monkeypatch, "another", 3)
    for compare in (found.compare_in_task, found.compare_query):
        with pytest.raises(StartupError, match="this task is another's"):
            compare()


def test_a_task_of_a_batch_that_was_committed_already_is_refused(tmp_path, monkeypatch):
    found = ObservedCheckpoint.at(checkpoint(tmp_path, committed=2))
    task(monkeypatch, QUERY, 2)
    with pytest.raises(StartupError, match="at another batch") as caught:
        found.compare_in_task()
    assert caught.value.found == "batch 1"


def test_where_nothing_was_seen_any_batch_of_any_query_may_run(tmp_path, monkeypatch):
    found = ObservedCheckpoint.at(str(tmp_path / "c"))
    task(monkeypatch, QUERY, 7)
    assert found.compare_in_task() is False
