"""Settings of the whole test suite."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.parts import modules_of_part, part

# However slow a machine is at the moment; a failure prints the line that repeats it.
repeatable = settings(
    max_examples=35,
    derandomize=True,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("repeatable", repeatable)
settings.register_profile("seeded", repeatable, derandomize=False, database=None)
settings.load_profile("repeatable")

# `make test` makes it; see scripts/quick_spark.py.
quick_java = Path(sys.prefix, "java")
if (quick_java / "bin" / "java").exists():
    os.environ["JAVA_HOME"] = str(quick_java)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run take a part of the tests; all parts together are all of them."""
    parser.addoption("--part", type=part, metavar="N/PARTS", help="one of so many equal parts")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the part that was asked for, of the tests that the marks have left."""
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(0))
    if (chosen := config.getoption("--part")) is None:
        return
    weights = Counter[str]()
    for item in items:
        long = item.get_closest_marker("long")
        weights[str(item.path)] += 1 if long is None else long.kwargs.get("weight", 1)
    chosen_modules = modules_of_part(weights, *chosen)
    left_out = [item for item in items if str(item.path) not in chosen_modules]
    config.hook.pytest_deselected(items=left_out)
    # The largest modules first: a process takes a whole one, and the last should not be alone.
    items[:] = sorted(
        (item for item in items if str(item.path) in chosen_modules),
        key=lambda item: -weights[str(item.path)],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take the seed, and give all processes one temporary folder: what is killed clears nothing."""
    # A shell without job control ignores SIGINT in what it runs in the background. Commands that
    # tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without a seed the examples are the same in every run.
    if config.getoption("hypothesis_seed") is not None:
        settings.load_profile("seeded")
    if hasattr(config, "workerinput"):
        return
    # A short path: a database's socket lies below it, of which a hundred bytes count.
    outer, folder = tempfile.gettempdir(), tempfile.mkdtemp(prefix="tests-")
    # A server that refuses to run as root has its files in here under a user of its own.
    Path(folder).chmod(0o711)
    # What was begun later ends before it. A Java killed a moment ago may still be writing.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", outer)
    os.environ |= {
        "TMPDIR": folder,
        "SPARK_LOCAL_DIRS": folder,
        "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={folder}",
    }
    tempfile.tempdir = None
