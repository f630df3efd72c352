"""A query runs its workers with the Python it was started with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
from pathlib import Path
from pipelines import Pipeline, local_session
from tally import CentsTally, batch

root = Path(sys.argv[1])
spark = local_session(root / "warehouse")
pipeline = Pipeline(spark, root)
pipeline.feed(batch("one", range(3)))
pipeline.deploy(CentsTally())
print(sorted(pipeline.handed[0][1]))
spark.stop()
"""


@pytest.mark.long
def test_a_python_on_the_path_that_lacks_the_packages_is_not_used(tmp_path):
    (tmp_path / "bin").mkdir()
    # What an activated environment would hide: some other python3, which cannot run a worker.
    python = tmp_path / "bin" / "python3"
    python.write_text("#!/bin/sh\necho the wrong python3 was started >&2\nexit 1\n")
    python.chmod(0o755)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")
    }
    path = os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"])
    environment |= {"PATH": path, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [("k0", 1, 7, "one", 0), ("k1", 1, 10, "one", 0), ("k2", 1, 13, "one", 0)]
    assert done.stdout.strip().splitlines()[-1] == str(rows)
