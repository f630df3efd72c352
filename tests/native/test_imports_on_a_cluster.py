"""What scripts import, on a cluster of two workers that have nothing of the driver's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from standalone import Cluster
from support.script_files import script

pytestmark = pytest.mark.spark

TIMES = "def times(n):\n    return n * 10\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What the driver printed."""
    root = tmp_path_factory.mktemp("imports")
    folder, package = root / "migrations", root / "package"
    body = "return {'a': times(value['a'])}"
    for store, more in (
        ("beside", "from tens import times"),
        ("package", "from shop.tens import times"),
    ):
        script(folder, f"{store:0<12}"[:12], store=store, more=more, upgrade=body)
    inside = "from shop.tens import times; return {'a': times(value['a'])}"
    script(folder, "inside000000", store="inside", upgrade=inside)
    (folder / "tens.py").write_text(TIMES)
    (package / "shop").mkdir(parents=True)
    (package / "shop" / "__init__.py").touch()
    (package / "shop" / "tens.py").write_text(TIMES)
    archive = shutil.make_archive(str(root / "shop"), "zip", package)
    job = Path(__file__).with_name("importing_job.py")
    with Cluster(root / "cluster") as cluster:
        command = [sys.executable, str(job), cluster.master, str(folder), str(package), archive]
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            text=True,
            timeout=300,
            cwd=root,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
def test_a_module_beside_the_scripts_travels(ran):
    assert ran["said"]["beside"] is None
    assert ran["beside"] == [10, 20, 30, 40]


@pytest.mark.long
@pytest.mark.parametrize("store", ["package", "inside"])
def test_a_package_that_workers_lack_is_said_before_the_start(ran, store):
    said = ran["said"][store]
    assert said["found"] == "ModuleNotFoundError: No module named 'shop'"
    assert said["modules"] == ["shop.tens"]
    assert "addPyFile" in said["next"]
    assert all(store in path for path in said["paths"])


@pytest.mark.long
def test_once_it_is_sent_they_run(ran):
    assert ran["sent"] == {"beside": None, "package": None, "inside": None}
    assert ran["package"] == [10, 20, 30, 40]
