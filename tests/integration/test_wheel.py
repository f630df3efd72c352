"""The wheel in an empty environment: no Spark comes with it, and what needs one says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
TOP = Path(__file__).parents[2]
COMPLETE = """
def upgrade(value):
    return {**value, "seen": 0}
"""
LEFT_ALONE = {"pyspark", "py4j", "pandas", "protobuf"}


def run(*command: object, folder: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    run(*pip, TOP, folder=folder)
    (built,) = folder.glob("statemigrate-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of the wheel and what it asks for, in the tests' own versions."""
    folder = tmp_path_factory.mktemp("empty") / "environment"
    run(sys.executable, "-m", "venv", folder, folder=folder.parent)
    python = folder / "bin" / "python"
    constraints = ["--constraint", TOP / "constraints.txt"]
    run(python, "-m", "pip", "install", "--quiet", *constraints, wheel, folder=folder.parent)
    yield python
    shutil.rmtree(folder)


def test_it_has_the_license_and_nothing_but_the_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"statemigrate"}
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert "statemigrate/py.typed" in names
    assert [name for name in names if name.startswith("statemigrate/demo/migrations/")]


def test_no_spark_comes_with_it(python, tmp_path):
    listed = run(python, "-m", "pip", "list", "--format", "json", folder=tmp_path).stdout
    assert not {each["name"].lower() for each in json.loads(listed)} & LEFT_ALONE


QUERY = """
import tempfile
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import migrated

class Counts(StatefulProcessor):
    def init(self, handle):
        self.state = handle.getValueState("counts", "n BIGINT")

    def handleInputRows(self, key, rows, timers):
        (n,) = self.state.get() or (0,)
        self.state.update((n + len(list(rows)),))
        yield Row(k=key[0], n=n)

provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
builder = SparkSession.builder.master("local[1]")
builder = builder.config("spark.sql.streaming.stateStore.providerClass", provider)
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
Path("rows").mkdir()
Path("rows/1.json").write_text('{"k": "a"}')
rows = spark.readStream.schema("k STRING").json("rows").groupBy("k").transformWithState(
    migrated(Counts(), migrations="migrations", checkpoint="checkpoint"),
    "k STRING, n BIGINT", "update", "none",
)
stream = rows.writeStream.format("memory").queryName("counts").outputMode("update")
query = stream.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
print("rows:", spark.table("counts").count())
"""


def test_beside_a_plain_pyspark_the_extra_for_workers_is_enough(wheel, tmp_path):
    """`pip install pyspark` has neither pandas nor protobuf, which its own workers import."""
    run(sys.executable, "-m", "venv", "environment", folder=tmp_path)
    python = tmp_path / "environment" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", TOP / "constraints.txt"]
    run(*pip, "pyspark", folder=tmp_path)
    before = installed(python, tmp_path)
    assert not before.keys() & {"pandas", "protobuf"}
    run(*pip, f"{wheel}[workers]", folder=tmp_path)
    after = installed(python, tmp_path)
    assert after.keys() >= {"pandas", "protobuf", "statemigrate"}
    assert {name: after[name] for name in before} == before
    run(python, "-m", "statemigrate", "init", folder=tmp_path)
    (tmp_path / "query.py").write_text(QUERY)
    assert "rows: 1" in run(python, "query.py", folder=tmp_path).stdout
    shutil.rmtree(tmp_path / "environment")


def installed(python: Path, folder: Path) -> dict[str, str]:
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json", folder=folder).stdout)
    return {each["name"].lower(): each["version"] for each in listed}


def test_scripts_are_made_and_checked_without_spark(python, tmp_path):
    command = [python, "-m", "statemigrate"]
    run(*command, "init", folder=tmp_path)
    formats = ["--from", "total BIGINT", "--to", "total BIGINT, seen BIGINT", "--functions"]
    run(*command, "new", "auctions", "-m", "count visits", *formats, folder=tmp_path)
    (script,) = (tmp_path / "migrations" / "versions").glob("*.py")
    script.write_text(script.read_text().partition("def upgrade")[0] + COMPLETE)
    said = run(*command, "check", folder=tmp_path).stdout
    assert "1 script" in said
    listed = json.loads(run(*command, "history", "--json", folder=tmp_path).stdout)
    assert [each["message"] for each in listed] == ["count visits"]


@pytest.mark.parametrize("arguments", [["demo"], ["check", "--code", "jobs:Totals"]])
def test_what_needs_spark_says_so(python, tmp_path, arguments):
    (tmp_path / "jobs.py").write_text("from pyspark.sql.streaming import StatefulProcessor\n")
    run(python, "-m", "statemigrate", "init", folder=tmp_path)
    done = run(python, "-m", "statemigrate", *arguments, folder=tmp_path, check=False)
    assert done.returncode == 1
    assert "PySpark is not installed" in done.stderr + done.stdout
    assert "pip install 'statemigrate[spark]'" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_its_names_say_so_too(python, tmp_path):
    done = run(python, "-c", "from statemigrate import migrated", folder=tmp_path, check=False)
    assert "MissingPackageError: PySpark is not installed" in done.stderr
    assert run(python, "-c", "from statemigrate import Struct, history, new", folder=tmp_path)
