"""SIGKILL for the JVM, the driver and the workers, at named points; then go on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from killing.sitecustomize import processes
from migrating_deployment import upsert
from pipelines import Pipeline
from scenario import FIRST, LATER, OPTIONS, after, before, rows_in_sink
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally

from statemigrate import migrated

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.long]

HERE = Path(__file__).parent
DURABLE, BATCHES = (
    "statemigrate.embedded.durable",
    "statemigrate.embedded.batches",
)
LOCAL = "statemigrate.files.local"
A_CHANGELOG, A_MANIFEST = r"\.changelog'", r"'versions', '\d+-\d+\.json'\)"

POINTS = {
    "before a changelog appears": (DURABLE, "rename", "before", 4, A_CHANGELOG),
    "after a changelog appeared": (DURABLE, "rename", "after", 3, A_CHANGELOG),
    "before the manifest appears": (LOCAL, "_named", "before", 2, A_MANIFEST),
    "after the manifest appeared": (LOCAL, "_named", "after", 2, A_MANIFEST),
    "after the sink, before Spark's commit": (BATCHES, "Batches._after", "before", 2, ""),
    "during a snapshot": ("statemigrate.embedded.snapshots", "_store", "before", 3, ""),
    "during restore": ("statemigrate.embedded.restore", "_repeat", "after", 2, ""),
    "in a backfill chunk": ("statemigrate.access", "DualAccess.backfill_many", "after", 9, ""),
}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory) -> Pipeline:
    """The old code's checkpoint."""
    made = Pipeline(spark, tmp_path_factory.mktemp("template"))
    made.feed(*FIRST)
    made.deploy(CentsTally(), snapshot_every=100)
    assert made.stored() == before().stored(CENTS)
    return made


@pytest.fixture
def pipeline(spark, template, tmp_path) -> Pipeline:
    """A copy of it with the input of the migrating deployment, and an upserting sink."""
    copied = Pipeline(spark, tmp_path / "pipeline")
    shutil.copytree(template.checkpoint, copied.checkpoint)
    copied.feed(*LATER)
    write = copied.sink

    def sink(rows, number):
        write(rows, number)
        upsert(copied.root, number, copied.handed[-1][1])

    copied.sink = sink
    return copied


@contextmanager
def session(arguments: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, of which nothing is left afterwards."""
    process = subprocess.Popen(
        arguments, env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        for pid in processes(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def run_until_killed(pipeline: Pipeline, migrations: Path, point: dict[str, object]) -> None:
    path = [str(HERE / "killing"), str(HERE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "KILL_AT": json.dumps(point)}
    program = [sys.executable, str(HERE / "migrating_deployment.py")]
    with session([*program, str(pipeline.root), str(migrations)], environment) as process:
        output, _ = process.communicate(timeout=300)
        marker = Path(str(point["marker"]))
        assert marker.is_file(), f"never got to {point}:\n{output[-3000:]}"
        assert process.returncode == -signal.SIGKILL, output[-3000:]
        assert marker.read_text().startswith(str(point["function"]))


@pytest.mark.parametrize("name", POINTS)
def test_nothing_is_lost_or_migrated_twice(pipeline, scripts, name):
    module, function, when, call, argument = POINTS[name]
    point = {
        "module": module, "function": function, "when": when, "call": call, "argument": argument,
        "marker": str(pipeline.root / "killed"),
    }  # fmt: skip
    run_until_killed(pipeline, scripts.write(), point)
    committed = {path.name for path in (pipeline.checkpoint / "commits").glob("[0-9]*")}
    assert len(committed) < len(FIRST) + len(LATER), "the input was not all processed"

    pipeline.deploy(migrated(AmountsTally(), migrations=scripts.directory), **OPTIONS)
    assert pipeline.stored() == after().stored(AMOUNTS)
    assert rows_in_sink(pipeline.root) == after().output


def test_the_undisturbed_deployment_gives_the_same(pipeline, scripts):
    code = migrated(AmountsTally(), migrations=scripts.write())
    progress = pipeline.deploy(code, **OPTIONS)
    assert pipeline.stored() == after().stored(AMOUNTS)
    assert rows_in_sink(pipeline.root) == after().output
    assert len(progress) > len(LATER) + 3, "the backfill went on when the input had ended"
