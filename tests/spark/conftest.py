"""One Spark session for the folder, and what a test deploys on it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Workers import the processors of this folder by name.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
)
os.environ["PYSPARK_PYTHON"] = sys.executable

from pipelines import Pipeline, local_session
from tally import Scripts


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    session = local_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def pipeline(spark, tmp_path) -> Pipeline:
    """A stream of tally rows with a checkpoint of its own."""
    return Pipeline(spark, tmp_path / "pipeline")


@pytest.fixture
def scripts(tmp_path) -> Scripts:
    """A folder of migration scripts for the store ``tally``."""
    return Scripts(tmp_path / "migrations")
