"""The embedded engine on a cluster: refused, unless paths are shared, and then looked at.

In a mount namespace of its own a worker has another disk under the same path as the driver.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from standalone import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

JOB = Path(__file__).with_name("embedded_cluster_job.py")


def has_own_mounts():
    """Whether this user may give a process another disk under a path."""
    program = shutil.which("unshare")
    if program is None:
        return False
    asked = [program, "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    root = tmp_path_factory.mktemp("shared")
    own = tmp_path_factory.mktemp("own") if has_own_mounts() else root
    with Cluster(root / "cluster", own_disk=None if own is root else own) as cluster:
        done = subprocess.run(
            [sys.executable, str(JOB), cluster.master, str(root), str(own)],
            capture_output=True,
            check=False,
            text=True,
            timeout=600,
            cwd=root,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), root, own


def test_a_cluster_is_refused_before_anything_is_written(ran):
    found, root, _ = ran
    error = found["unsaid"]["raised"]
    assert error["type"] == "StartupError"
    assert error["data"]["master"].startswith("spark://")
    assert "shared_path=True" in error["next_action"]
    assert not (root / "unsaid").exists()


def test_what_workers_have_on_disks_of_their_own_is_never_in_a_manifest(ran):
    found, root, own = ran
    if own is root:
        pytest.skip("this user may not mount")
    error = found["own"]["raised"]
    assert error["type"] == "CheckpointError"
    assert error["found"] == "no such file"
    assert error["data"]["path"].startswith(f"{own}/checkpoint/statemigrate/partitions/")
    assert found["own"]["handed"] == []
    versions = own / "checkpoint" / "statemigrate" / "versions"
    assert [each.name for each in versions.glob("[0-9]-*.json")] == []


def test_on_a_disk_that_all_share_it_goes_on_from_batch_to_batch(ran):
    found, _, _ = ran
    assert found["first"] == {"raised": None, "handed": [[f"k{n}", 1] for n in names()]}
    assert found["second"] == {"raised": None, "handed": [[f"k{n}", 3] for n in names()]}


def names():
    return sorted(range(20), key=lambda number: f"k{number}")
