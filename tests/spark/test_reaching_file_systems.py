"""What cannot be reached is said within seconds, with the connector or address that is wrong."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemigrate.errors import StorageError
from statemigrate.files import LocalFiles
from statemigrate.files import hadoop_failures as reaching
from statemigrate.files.hadoop import HadoopFiles
from statemigrate.files.hadoop_jvm import java_of
from statemigrate.files.open import open_files

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _session(spark: object) -> None:
    """The JVM that is asked."""


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where somebody listens, and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield listening.getsockname()[1]


def refused(place: str) -> StorageError:
    began = time.monotonic()
    with pytest.raises(StorageError, match="cannot be reached") as raised:
        open_files(place)
    # Hadoop would try for a quarter of an hour.
    assert time.monotonic() - began < 60
    return raised.value


@pytest.mark.parametrize(
    ("place", "package"),
    [
        ("s3a://bucket/checkpoint", "org.apache.hadoop:hadoop-aws:3."),
        ("abfss://container@account.dfs.core.windows.net/x", "org.apache.hadoop:hadoop-azure:3."),
        ("gs://bucket/checkpoint", "com.google.cloud.bigdataoss:gcs-connector"),
    ],
)
def test_the_connector_that_is_missing_is_named(place: str, package: str) -> None:
    error = refused(place)
    assert package in str(error.expected)
    assert "spark.jars.packages" in str(error.next_action)
    assert error.data["path"] == place


def test_schemes_that_nothing_on_this_machine_knows() -> None:
    assert "Databricks" in str(refused("dbfs:/checkpoint").next_action)
    assert "s3a://" in str(refused("s3://bucket/checkpoint").next_action)
    assert "correct the scheme" in str(refused("none://bucket/checkpoint").next_action)


def test_a_place_where_nobody_listens_or_that_has_no_name() -> None:
    assert "Connection refused" in str(refused("hdfs://127.0.0.1:1/checkpoint").found)
    for host in ("no-such-host.invalid:8020", "nameservice"):
        error = refused(f"hdfs://{host}/checkpoint")
        assert "UnknownHostException" in str(error.found)
        assert "HADOOP_CONF_DIR" in str(error.next_action)


def test_a_server_that_never_answers_is_not_waited_for(
    silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "ANSWER_TIMEOUT", 1.0)
    error = refused(f"hdfs://user:secret@127.0.0.1:{silent}/checkpoint")
    assert "still tries" in str(error.found)
    assert "secret" not in str(error)


def test_a_local_place_needs_no_hadoop(tmp_path: Path) -> None:
    for place in (tmp_path, str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert open_files(place) == LocalFiles(tmp_path)


def test_a_path_without_a_scheme_is_on_the_sessions_default(spark: object, tmp_path: Path) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    java = java_of()
    assert java is not None
    before = settings.get("fs.defaultFS")
    settings.set("fs.viewfs.mounttable.here.link./state", f"file://{tmp_path}")
    settings.set("fs.defaultFS", "viewfs://here/")
    try:
        files = open_files("/state/checkpoint")
        assert isinstance(files, HadoopFiles)
        assert files.location == "viewfs://here/state/checkpoint"
        files.put("a/b", b"bytes")
        assert open_files(f"file:{tmp_path}/checkpoint").get("a/b") == b"bytes"
        assert open_files("relative").location.startswith("viewfs://here/user/")
    finally:
        settings.set("fs.defaultFS", before)
        settings.unset("fs.viewfs.mounttable.here.link./state")
