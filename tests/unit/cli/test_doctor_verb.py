"""`doctor` without Spark: this machine, and checkpoints that need none to be looked at."""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import pytest
from support.object_store import MemoryFiles
from support.offset_logs import checkpoint

from statemigrate import doctor
from statemigrate.commands.doctor_checkpoint import examined_checkpoint
from statemigrate.embedded.layout import Layout, checkpoint_locks
from statemigrate.embedded.versions import claim
from statemigrate.errors import StorageError
from statemigrate.files import LocalFiles


def subjects(found):
    return [each.subject for each in found.examined]


def everything(root):
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


def of(files, subject, **how):
    how = {"write": True, "operator": None, "session": None} | how
    return {each.subject: each for each in examined_checkpoint(files, **how)}[subject]


def test_this_machine_is_looked_at_without_a_session(monkeypatch):
    # Other modules of this process may have left one.
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    found = doctor()
    assert subjects(found) == ["spark", "packages", "java", "temporary directory", "workers"]
    assert found.of("packages").data["packages"]["statemigrate"]
    assert found.of("workers").verdict == "warning"
    assert "spark=" in found.of("workers").next_action
    assert found.verdict == "warning"


def test_what_is_missing_beside_pyspark_is_installed_by_its_own_name():
    script = (
        "import sys; sys.modules['pandas'] = sys.modules['google'] = None\n"
        "from statemigrate import doctor\n"
        "found = doctor().of('packages')\n"
        "print(found.verdict, found.next_action)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # Neither another PySpark nor a package that no index has.
    verdict, _, action = done.stdout.strip().partition(" ")
    assert verdict == "problem"
    assert re.fullmatch(r"pip install 'pandas[^']+' 'protobuf[^']+'", action), action


def test_a_checkpoint_is_left_as_it_was(tmp_path):
    root = checkpoint(tmp_path / "c")
    before = everything(root)
    found = doctor(root)
    assert found.of("rights").verdict == "ok"
    assert set(found.of("rights").data["seconds"]) == {
        "put", "get", "conditional put", "list", "delete",
    }  # fmt: skip
    assert set(everything(root)) == set(before)
    assert found.of("checkpoint").data["engine"] == "native"
    assert found.of("checkpoint").data["committed"] == 2


def test_nothing_is_written_where_that_is_not_wanted(tmp_path):
    root = checkpoint(tmp_path / "c")
    before = everything(root)
    assert doctor(root, write=False).of("rights") is None
    assert everything(root) == before


def test_what_is_not_there_is_a_warning_and_makes_nothing(tmp_path):
    found = doctor(tmp_path / "no" / "such")
    assert found.of("checkpoint").verdict == "warning"
    assert found.of("rights").verdict == "ok"
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Refusing(MemoryFiles):
    """A store in which this user may not do one thing."""

    verb: str = ""

    def _ask(self, verb, name, answer):
        if verb == self.verb:
            raise StorageError(
                "SM-STORAGE-007",
                f"{verb} is not allowed",
                found="AccessDenied",
                next_action=f"give this user the right to {verb}",
            )
        return super()._ask(verb, name, answer)


def as_query(files):
    files.put("metadata", b'{"id":"2b9f2f0e-0000-4000-8000-000000000000"}')
    return files


@pytest.mark.parametrize("verb", ["put", "create"])
def test_a_right_that_is_missing_is_a_problem_with_what_to_do(verb):
    files = as_query(MemoryFiles())
    found = of(Refusing(files.store, verb=verb), "rights")
    assert found.verdict == "problem"
    assert found.next_action == f"give this user the right to {verb}"
    assert [each.name for each in files.list()] == ["metadata"]


def test_files_that_cannot_be_deleted_are_named():
    files = Refusing(verb="delete")
    found = of(files, "rights")
    assert found.verdict == "problem"
    left = [each.name for each in files.list()]
    assert len(left) == 2
    assert all(name in found.next_action for name in left)


class Twice(MemoryFiles):
    """A store that makes a file a second time, and says nothing."""

    def create(self, name, data):
        self.delete([name])
        super().create(name, data)


def test_a_store_without_conditional_writes_is_a_problem():
    found = of(Twice(), "rights")
    assert found.verdict == "problem"
    assert "S3A since Hadoop 3.4.2" in found.next_action


def test_who_holds_a_checkpoint_of_the_embedded_engine_is_said(tmp_path):
    root = checkpoint(tmp_path / "c", batches=0)
    (root / "statemigrate" / "versions").mkdir(parents=True)
    layout = Layout.over(LocalFiles(root))
    claim(layout)
    assert of(str(root), "holder").data["held_by"] is None
    assert f"process {os.getpid()}" in of(str(root), "holder").data["begun_by"]
    locks = checkpoint_locks(layout)
    try:
        assert f"process {os.getpid()}" in of(str(root), "holder").data["held_by"]
    finally:
        for lock in locks:
            lock.release()
    assert of(str(root), "holder").data["held_by"] is None


def test_a_temporary_directory_whose_path_is_long_is_told_with_what_is_taken(monkeypatch, tmp_path):
    deep = tmp_path / ("d" * 110)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    found = doctor().of("temporary directory")
    assert found.verdict == "ok"
    assert found.data["path"] == str(deep)
    assert found.data["sockets_in"] not in (None, str(deep))
    assert list(deep.iterdir()) == []


def test_a_problem_exits_with_1_and_json_has_all_of_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    root = checkpoint(tmp_path / "c")
    found = json.loads(run("doctor", str(root), "--json", code=1).stdout)
    assert found["verdict"] == "problem"
    by = {each["subject"]: each for each in found["examined"]}
    assert by["java"]["verdict"] == "problem"
    assert "JAVA_HOME" in by["java"]["next_action"]
    # What needs no Spark is looked at all the same.
    assert by["workers"]["verdict"] == "warning"
    assert by["rights"]["verdict"] == "ok"
    assert by["holder"]["data"]["committed"] == 2


def test_many_versions_of_state_for_few_batches_are_a_warning(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "state" / "0" / "0").mkdir(parents=True, exist_ok=True)
    for number in range(1, 200):
        (root / "state" / "0" / "0" / f"{number}.delta").touch()
    found = of(str(root), "maintenance")
    assert found.verdict == "warning"
    assert found.data["versions"] == {"0": 199}
    assert "maintenanceInterval" in found.next_action
