"""Sparks of other lines, each in a process of its own with a virtual environment of its own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import spark, spark_version, use_folders

__all__ = ["spark"]

use_folders("compat", "spark", "rewriting")

TOP = Path(__file__).parents[2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once for each line of Spark that `make compat` names, the tests' own unless it does."""
    if "line" in metafunc.fixturenames:
        own = ".".join(map(str, spark_version()))
        lines = os.environ.get("STATEMIGRATE_LINES", own).split()
        metafunc.parametrize("line", lines, scope="module", indirect=True)


@pytest.fixture(scope="module")
def line(request: pytest.FixtureRequest) -> tuple[int, int]:
    """A line of Spark, as in (3, 5)."""
    major, minor = request.param.split(".")
    return int(major), int(minor)


@pytest.fixture(scope="module")
def other(line: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Runs queries on that line."""
    from other_spark import OtherSpark

    command = Path(sys.executable)
    if line != spark_version():
        command = TOP / f".venv-{line[0]}.{line[1]}" / "bin" / "python"
    assert command.exists(), f"no {command}\n  next: make compat"
    process = OtherSpark(command, tmp_path_factory.mktemp("other"))
    yield process
    process.close()
