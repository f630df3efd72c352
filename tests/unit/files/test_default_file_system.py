"""A path without a scheme, where no session says what it means."""

from pathlib import Path

import pytest

from statemigrate.errors import StorageError
from statemigrate.files import LocalFiles
from statemigrate.files import hadoop_jvm as jvm
from statemigrate.files.open import open_files


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of settings; where one speaks of a default file system, a JVM is asked."""
    for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)

    def ask() -> object:
        raise StorageError("SM-STORAGE-007", "a JVM is asked")

    monkeypatch.setattr(jvm, "any_java", ask)
    monkeypatch.setattr(jvm, "_context", lambda _: None)
    return tmp_path


def test_without_any_settings_it_is_a_local_path(tmp_path: Path) -> None:
    assert open_files("some/where") == LocalFiles(Path("some/where").absolute())
    assert open_files(str(tmp_path)) == LocalFiles(tmp_path)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("HADOOP_CONF_DIR", "core-site.xml"),
        ("SPARK_CONF_DIR", "spark-defaults.conf"),
        ("SPARK_HOME", "conf/spark-defaults.conf"),
    ],
)
def test_where_settings_speak_of_a_default_they_are_read(
    told: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    monkeypatch.setenv(variable, str(told))
    (told / name).parent.mkdir(exist_ok=True)
    (told / name).write_text("something else")
    assert open_files("/x") == LocalFiles(Path("/x"))
    (told / name).write_text("spark.hadoop.fs.defaultFS hdfs://namenode")
    with pytest.raises(StorageError, match="a JVM is asked"):
        open_files("/x")
    assert open_files("file:/x") == LocalFiles(Path("/x"))


def test_a_command_s_own_session_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(jvm, "java_of", lambda spark=None: spark and f"JVM of {spark}")
    monkeypatch.setattr(jvm, "_start", lambda: "another JVM")
    monkeypatch.setattr(jvm, "_started", [])
    with jvm.started_by(lambda: "the command"):  # type: ignore[arg-type, return-value]
        assert jvm.any_java() == "JVM of the command"
        assert jvm.any_java("given") == "JVM of given"  # type: ignore[arg-type, comparison-overlap]
    assert jvm.any_java() == "another JVM"  # type: ignore[comparison-overlap]
