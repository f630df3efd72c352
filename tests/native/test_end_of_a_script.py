"""A script of a few lines, run by an interpreter that is not the first one on the path."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from statemigrate import init

pytestmark = pytest.mark.spark

SCRIPT = """
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from statemigrate import migrated, with_backfill

class Counts(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("counts", "n BIGINT")

    def handleInputRows(self, key, rows, timers):
        n = self.count.get()[0] if self.count.exists() else 0
        self.count.update((n + sum(1 for _ in rows),))
        return iter([])

    def close(self):
        pass

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .getOrCreate()
)
stream = spark.readStream.schema("k BIGINT").option("maxFilesPerTrigger", 1).json("in")
counts = (
    with_backfill(stream, "k", checkpoint="checkpoint")
    .groupBy("k")
    .transformWithState(
        migrated(migrations="migrations", checkpoint="checkpoint")(Counts)(),
        "k BIGINT", "Update", "None",
    )
)
writer = counts.writeStream.outputMode("update").format("noop")
writer = writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True)
writer.start().awaitTermination()
state = spark.read.format("statestore").option("stateVarName", "counts").load("checkpoint")
print({row.key.k: row.value.n for row in state.collect()})
"""


def ran(folder, *arguments):
    """What Python, run in a folder, has printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=_without_this_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.long
def test_a_script_needs_no_activated_environment_and_ends_without_a_trace(tmp_path):
    init(migrations=tmp_path / "migrations")
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = (json.dumps({"k": key}) for key in range(4))
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(rows))
    (tmp_path / "script.py").write_text(SCRIPT)
    done = ran(tmp_path, "script.py")
    assert done.stdout.splitlines()[-1] == str(dict.fromkeys(range(4), 3))
    assert "Py4J" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    # A command that starts Spark for itself prints what was asked for, and nothing of Spark's.
    status = ran(tmp_path, "-m", "statemigrate", "status", "checkpoint", "--json")
    assert [each["in_target"] for each in json.loads(status.stdout)["stores"]] == [4]
    assert status.stderr == ""


def _without_this_environment():
    mine = Path(sys.executable).parent
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    folders = kept["PATH"].split(os.pathsep)
    return kept | {"PATH": os.pathsep.join(each for each in folders if Path(each) != mine)}
