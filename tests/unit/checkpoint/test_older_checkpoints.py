"""Checkpoints of Spark before 4.0, and looks at those whose newest batch is not committed."""

import pytest
from support.spark_checkpoints import KEY, VALUE, aggregation, logs, put, struct, variables

from statemigrate.checkpoint.logs.entries import AGGREGATION_FORMAT, GROUPS_FORMAT, PARTITIONS
from statemigrate.checkpoint.operators import known_variables
from statemigrate.checkpoint.operators.schemas import FamilySchema, written_v2
from statemigrate.checkpoint.shape import describe
from statemigrate.commands.rewrite import rewrite_checkpoint
from statemigrate.errors import CheckpointError, CorruptFileError, UnsupportedError
from statemigrate.files import LocalFiles
from statemigrate.native.checkpoint import (
    SparkCheckpoint,
    entries_at,
    metadata_without,
    session_with,
)
from statemigrate.native.retrying import _first_line
from statemigrate.state.open import require_store

FORMATS = {PARTITIONS: "2", AGGREGATION_FORMAT: "2", GROUPS_FORMAT: "2"}
SESSION = struct(session_window="string", n="long")


def before_4(root, key=KEY, value=VALUE):
    """An aggregation as Spark 3.5 leaves it, without the operator's metadata."""
    aggregation(root)
    (root / "state/0/_metadata/metadata").unlink()
    logs(root, 4, FORMATS)
    put(root, "state/0/0/_metadata/schema", written_v2(FamilySchema("default", key, value)))
    return root


def test_an_operator_that_is_not_noted_is_recognised_for_a_look_as_for_a_rewrite(tmp_path):
    files = LocalFiles(before_4(tmp_path))
    (entry,) = entries_at(files, 3)
    (operator,) = describe(files).operators
    assert (entry.name, entry.noted) == (operator.name, False)
    assert entry.name == "stateStoreSave"
    assert metadata_without(files, 3) == {}
    # Nothing tells which stores it has, so no store is refused without reading it.
    assert known_variables(files) is None
    require_store(str(tmp_path), "aggregation-0")


def test_of_keys_that_are_found_by_a_prefix_spark_is_shown_what_it_had_not_written(tmp_path):
    files = LocalFiles(
        before_4(tmp_path, struct(k="string", sessionStartTime="timestamp"), SESSION)
    )
    shown = metadata_without(files, 3)
    assert list(shown) == ["state/0/_metadata/metadata"]
    assert b'"numColsPrefixKey":1' in shown["state/0/_metadata/metadata"]
    assert b"sessionWindowStateStoreSaveExec" in shown["state/0/_metadata/metadata"]


def test_state_without_any_schema_is_of_a_spark_that_wrote_none(tmp_path):
    root = before_4(tmp_path)
    (root / "state/0/0/_metadata/schema").unlink()
    with pytest.raises(UnsupportedError, match=r"before 3\.1") as caught:
        entries_at(LocalFiles(root), 3)
    assert "3.1 on for one batch" in caught.value.next_action


def test_a_schema_that_is_missing_beside_another_or_beside_metadata_is_lost(tmp_path):
    beside = before_4(tmp_path / "beside")
    (beside / "state/1/0").mkdir(parents=True)
    with pytest.raises(CorruptFileError):
        entries_at(LocalFiles(beside), 3)
    noted = aggregation(tmp_path / "noted")
    (noted / "state/0/0/_metadata/schema").unlink()
    with pytest.raises(CorruptFileError):
        describe(LocalFiles(noted))


def test_state_of_a_preview_is_unsupported_and_not_corrupt(tmp_path):
    root = variables(tmp_path)
    path = root / "state/0/_metadata/v2/0"
    text = path.read_text().replace('"stateSchemaFilePaths":["', '"stateSchemaFilePath":"')
    path.write_text(text.replace('"]', '"'))
    with pytest.raises(UnsupportedError, match="preview of Spark") as caught:
        entries_at(LocalFiles(root), 3)
    assert caught.value.found == "stateSchemaFilePath"


def test_a_plan_is_of_what_is_committed_and_says_so_and_a_rewrite_waits(tmp_path):
    root = aggregation(tmp_path / "old")
    (root / "commits/3").unlink()
    plan = rewrite_checkpoint(root, tmp_path / "new", migrations=None)
    assert (plan.plan.old.batch, plan.uncommitted) == (2, 3)
    assert plan.warnings[0].startswith("batch 3 is begun and not committed")
    with pytest.raises(CheckpointError, match=r"batch 3 of .* is not committed"):
        rewrite_checkpoint(root, tmp_path / "new", migrations=None, apply=True)


class Session:
    """A session with settings, and how many were made of it."""

    def __init__(self, settings):
        self.settings, self.made = settings, []
        self.conf = self

    @property
    def getAll(self):
        return self.settings

    def get(self, name, default=None):
        return self.settings.get(name, default)

    def isModifiable(self, name):
        return name != "static"

    def set(self, name, value):
        assert name != "static"
        self.settings[name] = value

    def newSession(self):
        self.made.append(Session({}))
        return self.made[-1]


def test_a_session_of_other_settings_is_read_with_another_that_has_its_own():
    given = Session({"a": "1", "static": "x", "b": "2"})
    assert session_with(given, "a", "1") is given
    made = session_with(given, "a", "2")
    assert made.settings == {"a": "2", "b": "2"}
    assert given.settings == {"a": "1", "static": "x", "b": "2"}


@pytest.mark.parametrize(
    ("version", "ids", "wanted"), [(1, "", "1"), (2, ', "stateUniqueIds": {}', "2")]
)
def test_state_is_read_with_what_its_commit_says_of_ids(tmp_path, version, ids, wanted):
    root = aggregation(tmp_path)
    (root / "commits/3").write_text(f'v{version}\n{{"nextBatchWatermarkMs": 0{ids}}}')
    name = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    session = Session({name: "1"})
    session.streams = None
    reader = SparkCheckpoint(str(root), session, files=LocalFiles(root))
    assert reader._reading.settings[name] == wanted
    assert session.settings[name] == "1"


def test_of_errors_of_java_the_innermost_is_told():
    text = "An error occurred while calling o1.collect.\n: java.lang.A: outer\n\tat x\n"
    assert _first_line(Exception(text)) == "java.lang.A: outer"
    assert (
        _first_line(Exception(f"{text}Caused by: java.io.B: inner\n\tat y")) == "java.io.B: inner"
    )
    assert _first_line(Exception("plain\nmore")) == "plain"
    assert _first_line(Exception()) == "Exception"
