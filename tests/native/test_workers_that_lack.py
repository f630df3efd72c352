"""Workers of a cluster whose Python lacks what a query needs: the start says it, and of which host.

The second Python is an environment of its own beside the one that has all; Spark's own part of it
comes from the cluster, as everywhere.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from standalone import Cluster
from support.script_files import script

from statemigrate.processor.workers import EMBEDDED, FUNCTIONS, PROCESSORS

pytestmark = [pytest.mark.spark, pytest.mark.long]


def environment(root, *needed):
    """A Python with nothing but links to these modules, as they are found here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    python = root / "bin" / "python"
    asking = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    place = subprocess.check_output([python, "-c", asking], text=True).strip()
    for name in needed:
        found = Path(__import__(name).__path__[0])
        for each in (found, *found.parent.glob(f"{found.name}.libs")):
            (Path(place) / each.name).symlink_to(each)
    return str(python)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """By Python and by way of starting, what was raised."""
    root = tmp_path_factory.mktemp("lacking")
    script(root / "migrations", "aaaaaaaaaaaa", store="whole", upgrade="return value")
    everything = ("statemigrate", "fastavro", "pyarrow", "numpy", "google", "rocksdict")
    pythons = {
        "bare": environment(root / "bare"),
        "no_pandas": environment(root / "no_pandas", *everything),
        "none": str(root / "nowhere" / "python"),
        "whole": sys.executable,
    }
    job = Path(__file__).with_name("lacking_job.py")
    with Cluster(root / "cluster") as cluster:
        command = [sys.executable, str(job), cluster.master, str(root / "migrations")]
        command += [str(root / "checkpoints"), json.dumps(pythons)]
        own = {name: v for name, v in os.environ.items() if not name.startswith("PYSPARK_")}
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=600, cwd=root, env=own
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_python_that_lacks_the_package_is_said_by_every_way_of_starting(said):
    needed = {"function": FUNCTIONS, "embedded": EMBEDDED}
    for way, error in said["bare"].items():
        assert error["type"] == "StartupError", way
        assert error["data"]["packages"] == list(needed.get(way, PROCESSORS)), way
        assert len(error["data"]["hosts"]) == 1, way
        assert error["data"]["hosts"][0] in error["found"], way
        assert "No module named 'statemigrate'" in error["found"], way
        assert "statemigrate[workers]" in error["next_action"], way


def test_a_python_without_pandas_is_said_where_the_query_needs_it(said):
    ways = said["no_pandas"]
    for way in ("processor", "function", "paged"):
        assert ways[way]["data"]["packages"] == ["pandas"], way
        assert "pandas >= " in ways[way]["found"].lower(), way
    assert ways["embedded"] is None


def test_a_python_that_is_not_there_is_said_with_the_host(said):
    error = said["none"]["processor"]
    assert error["type"] == "StartupError"
    assert error["data"]["hosts"] == ["127.0.0.1"]
    assert "nowhere/python" in error["found"]


def test_where_all_is_there_every_way_starts(said):
    assert said["whole"] == dict.fromkeys(said["whole"])
