"""Reads that a running query overtakes, without Spark: its errors and its commits are made."""

import pytest
from pyspark.errors import AnalysisException, PythonException, SparkRuntimeException

import statemigrate
from statemigrate.commands.new_script import baseline
from statemigrate.errors import CheckpointError
from statemigrate.native import retrying
from statemigrate.native.backfill_planning import OlderFamilies, OlderKeys
from statemigrate.native.retrying import RETAINED, looks_again, retried
from statemigrate.scripts import ScriptFolder

GONE = SparkRuntimeException("CANNOT_LOAD_STATE_STORE of version 3\nand a trace")


@pytest.fixture
def checkpoint(tmp_path):
    """A directory that tells of committed batches, and keeps state."""
    place = tmp_path / "checkpoint"
    (place / "commits").mkdir(parents=True)
    (place / "state").mkdir()
    (place / "commits" / "0").touch()
    return place


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(retrying, "_PAUSE", 0.0)
    monkeypatch.setattr(retrying, "DEADLINE", 0.0)


class Query:
    """Goes on by ``step`` batches while it is read, ``times`` times; reads fail as long."""

    def __init__(self, checkpoint, step=1, times=99, error=GONE):
        self._commits = checkpoint / "commits"
        self._step, self._times, self._error = step, times, error
        self.batches = []

    @property
    def newest(self):
        return max(int(each.name) for each in self._commits.iterdir())

    def read(self, *_, **__):
        """The newest batch, which is what a look finds when it is not overtaken."""
        self.batches.append(self.newest)
        if len(self.batches) > self._times:
            return self.newest
        (self._commits / str(self.newest + self._step)).touch()
        raise self._error


@pytest.mark.parametrize("error", [GONE, AnalysisException("no schema")])
def test_each_attempt_is_at_the_batch_that_is_newest_by_then(checkpoint, error):
    query = Query(checkpoint, step=2, times=3, error=error)
    assert retried(query.read, str(checkpoint)) == 6
    assert query.batches == [0, 2, 4, 6]


def test_a_query_that_always_overtakes_is_named_with_what_to_set(checkpoint):
    query = Query(checkpoint, step=7)
    with pytest.raises(CheckpointError) as caught:
        retried(query.read, str(checkpoint))
    assert len(query.batches) == retrying.ATTEMPTS
    assert (caught.value.data["attempts"], caught.value.data["batches"]) == (4, 7)
    assert "7 batches were committed" in caught.value.found
    assert caught.value.found.endswith("CANNOT_LOAD_STATE_STORE of version 3")
    assert f"{RETAINED} of 16" in caught.value.next_action
    assert "restore" not in caught.value.next_action


def test_attempts_go_on_for_the_deadline_where_they_are_short(checkpoint, monkeypatch):
    monkeypatch.setattr(retrying, "DEADLINE", 30.0)
    query = Query(checkpoint, times=20)
    assert retried(query.read, str(checkpoint)) == 20


def test_state_that_nobody_removes_is_damaged_and_is_not_read_for_long(checkpoint):
    query = Query(checkpoint, step=0)
    with pytest.raises(CheckpointError) as caught:
        retried(query.read, str(checkpoint))
    assert query.batches == [0, 0]
    assert caught.value.data["batch"] == 0
    assert "restore" in caught.value.next_action
    assert RETAINED not in caught.value.next_action


def test_what_fails_in_python_is_told_as_it_is(checkpoint):
    error = PythonException("ModuleNotFoundError: no module named job")
    query = Query(checkpoint, step=0, error=error)
    with pytest.raises(PythonException) as caught:
        retried(query.read, str(checkpoint))
    assert caught.value is error


def test_an_error_that_is_not_of_a_read_is_raised_at_once(checkpoint):
    for error in (ValueError("x"), FileNotFoundError("versions/a.py"), KeyboardInterrupt()):
        query = Query(checkpoint, error=error)
        with pytest.raises(type(error)):
            retried(query.read, str(checkpoint))
        assert len(query.batches) == 1


def test_a_file_of_the_checkpoint_that_is_gone_counts_as_overtaken(checkpoint):
    query = Query(checkpoint, times=2, error=FileNotFoundError(f"{checkpoint}/offsets/0"))
    assert retried(query.read, str(checkpoint)) == 2


def test_a_look_is_called_again_with_its_own_arguments(checkpoint):
    query = Query(checkpoint, times=1)

    @looks_again
    def look(store, checkpoint, *key, spark=None):
        query.read()
        return store, checkpoint, key, spark

    assert look("a", checkpoint, 1, 2, spark=3) == ("a", checkpoint, (1, 2), 3)
    assert query.batches == [0, 1]


VERBS = {
    "status": lambda at, scripts: statemigrate.status(at, migrations=scripts),
    "current": lambda at, scripts: statemigrate.status(at, migrations=scripts, revisions=True),
    "get": lambda at, scripts: statemigrate.get("tally", at, 1, migrations=scripts),
    "export": lambda at, scripts: statemigrate.export(
        "tally", at, scripts / "out.jsonl", migrations=scripts
    ),
    "dry_run": lambda at, scripts: statemigrate.dry_run("tally", at, migrations=scripts),
    "retire": lambda at, scripts: statemigrate.backfill(at, migrations=scripts, retire=True),
    "baseline": lambda at, scripts: baseline(at, store="tally", migrations=scripts),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_looks_opens_the_state_anew(checkpoint, monkeypatch, tmp_path, verb):
    query = Query(checkpoint)
    monkeypatch.setattr("statemigrate.native.session.session_of", lambda *_: None)
    monkeypatch.setattr("statemigrate.commands.new_script._in_files", lambda *_: None)
    for module in ("view", "dry_run"):
        monkeypatch.setattr(f"statemigrate.commands.{module}.require_store", lambda *_: None)
    for opening in ("open_spark.open_spark_state", "tables.SparkCatalog"):
        monkeypatch.setattr(f"statemigrate.state.{opening}", query.read)
    scripts = tmp_path / "migrations"
    ScriptFolder.create(scripts)
    (scripts / "versions" / "a.py").write_text(SCRIPT)
    with pytest.raises(CheckpointError) as caught:
        VERBS[verb](checkpoint, scripts)
    assert caught.value.data["attempts"] == retrying.ATTEMPTS
    assert query.batches == [0, 1, 2, 3]


SCRIPT = '''"""A tally."""
from statemigrate.formats import Struct

revision = "aaaa11112222"
down_revision = None
branch_labels = ("tally",)
store = "tally"
old = Struct("n INT")
new = Struct("n BIGINT")


def upgrade(value):
    return value
'''


def test_the_keys_of_a_backfill_are_read_by_a_reader_an_attempt(checkpoint, monkeypatch):
    query, readers = Query(checkpoint, times=2), []

    class Reader:
        def __init__(self, path, spark=None, *, operator=None):
            assert (path, spark, operator) == (str(checkpoint), "session", 3)
            self.batch = query.newest
            readers.append(self)

        def last_batch(self):
            return self.batch

    def find(reader, scripts, targets):
        assert reader is readers[-1]
        query.read()
        return {}

    monkeypatch.setattr("statemigrate.native.backfill_planning.SparkCheckpoint", Reader)
    families = OlderFamilies(str(checkpoint), 3, "session", None, {}, find)
    assert OlderKeys(families).left.keys == 0
    assert [each.batch for each in readers] == [0, 1, 2]
