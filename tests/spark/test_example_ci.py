"""The example workflow: its commands are run as they stand, on a stored checkpoint."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from pipelines import Pipeline, no_backfill

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
WORKFLOW = yaml.safe_load((EXAMPLES / "ci" / "state-migrations.yml").read_text())
BASH = shutil.which("bash") or "/bin/bash"
BIDS = [[(1, "lamp", "12.50"), (2, "vase", "7.25")], [(1, "lamp", "0.75"), (3, None, "3.00")]]


def commands(job):
    found = [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]
    assert found[0].startswith('pip install "statemigrate[spark]==')
    return found[1:]


def run(command, folder, checkpoint):
    """As the workflow's shell would, in the folder that holds code and scripts."""
    binaries = Path(sys.executable).parent
    path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    return subprocess.run(
        [BASH, "-eo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "CHECKPOINT": str(checkpoint)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def code(tmp_path):
    """A copy of the example's code and scripts, to be changed."""
    return Path(shutil.copytree(EXAMPLES / "auction_totals", tmp_path / "code"))


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """The state of the example's first deployment."""
    from decimal import Decimal

    sys.path.insert(0, str(EXAMPLES / "auction_totals"))
    try:
        from before import Totals
    finally:
        sys.path.pop(0)
    # Workers import the example's module by name.
    spark.sparkContext.addPyFile(str(EXAMPLES / "auction_totals" / "before.py"))
    pipeline = Pipeline(
        spark,
        tmp_path_factory.mktemp("ci"),
        rows="auction BIGINT, name STRING, price DECIMAL(18,2)",
        output="auction BIGINT, total DECIMAL(18,2)",
        by="auction",
    )
    pipeline.feed(*([(a, n, Decimal(p)) for a, n, p in batch] for batch in BIDS))
    pipeline.deploy(Totals(), backfill=no_backfill())
    return pipeline.checkpoint


def test_scripts_and_code_are_in_order(code, checkpoint):
    (command,) = commands("scripts")
    done = run(command, code, checkpoint)
    assert (done.returncode, done.stdout) == (0, "1 script of 1 store is in order\n"), done.stderr


@pytest.mark.long(weight=1 / 4)
def test_the_stored_state_migrates(code, checkpoint):
    dry_run, status = commands("state")
    done = run(dry_run, code, checkpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    suites = ElementTree.parse(code / "dry-run.xml").getroot()  # noqa: S314 - our own file
    assert (suites.get("failures"), suites.get("errors")) == ("0", "0")
    assert (
        "3 of 3 values" in (code / "dry-run.html").read_text()
        or "All 3 values" in (code / "dry-run.html").read_text()
    )
    shown = run(status, code, checkpoint)
    assert shown.returncode == 0, shown.stderr
    assert "auctions  value state, target base, the head is" in shown.stdout


def test_a_change_that_breaks_values_fails_both_jobs(code, checkpoint):
    (script,) = (code / "migrations" / "versions").glob("*.py")
    text = script.read_text()
    broken = text.replace("import lens", "import function, lens").replace(
        "change = lens(", 'change = lens(\n    function("name", lambda name: name.missing),'
    )
    script.write_text(broken)
    dry_run, _ = commands("state")
    done = run(dry_run, code, checkpoint)
    assert done.returncode == 1
    suites = ElementTree.parse(code / "dry-run.xml").getroot()  # noqa: S314 - our own file
    assert suites.get("failures") == "1"
    assert "AttributeError" in done.stdout
    script.write_text(f"{text}\n# QUESTION: is this right?\n")
    (command,) = commands("scripts")
    checked = run(command, code, checkpoint)
    assert (checked.returncode, "is this right?" in checked.stdout) == (1, True)
