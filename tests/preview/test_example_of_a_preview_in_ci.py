"""The example workflow of a preview: its command is run as it stands, on a query's checkpoint."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import previewed_code as code
import pytest
import yaml
from previewed_query import Query

pytestmark = [pytest.mark.spark, pytest.mark.long]
EXAMPLE = Path(__file__).parents[2] / "examples" / "ci" / "preview.yml"
(JOB,) = yaml.safe_load(EXAMPLE.read_text())["jobs"].values()
BASH = shutil.which("bash") or "/bin/bash"
PIPELINE = """
from typing import Annotated
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

def orders(events: Annotated[DataFrame, "k STRING, v BIGINT, id BIGINT, at TIMESTAMP"]):
    late = events.withWatermark("at", "1 minute")
    return late.groupBy(F.window("at", "1 minute"), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total")
    )
"""


@pytest.fixture(scope="module")
def query(spark, tmp_path_factory):
    return Query(spark, tmp_path_factory.mktemp("ci"), code.minutes, "append")


def run(query, folder, changed):
    """The command of the job, in a folder with the changed code and the deployed code."""
    (folder / "deployed").mkdir()
    (folder / "deployed" / "pipeline.py").write_text(PIPELINE)
    (folder / "pipeline.py").write_text(changed)
    (command,) = [each["run"] for each in JOB["steps"] if "statemigrate preview" in str(each)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    summary = folder / "summary.md"
    job = {**JOB["env"], "CHECKPOINT": str(query.checkpoint), "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(
        [BASH, "-eo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, **job},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    assert (folder / "preview.xml").exists()
    assert (folder / "preview.html").exists()
    return done.returncode, summary.read_text()


def test_a_harmless_change_passes(query, tmp_path):
    other = PIPELINE.replace('F.sum("v")', 'F.sum(F.col("v") + 0)')
    assert other != PIPELINE
    found, summary = run(query, tmp_path, other)
    assert (found, "pipeline:orders" in summary) == (0, True)


def test_a_fault_fails_and_the_summary_names_its_field(query, tmp_path):
    found, summary = run(query, tmp_path, PIPELINE.replace('F.sum("v")', 'F.sum("id")'))
    assert found == 1
    assert "total" in summary
    assert "sum" in summary
