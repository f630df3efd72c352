"""The session and the tally of the embedded engine's Spark tests, on Spark's own state."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "spark"))
# Workers import the processors of both folders by name.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent), sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])]
)
os.environ["PYSPARK_PYTHON"] = sys.executable

from native_pipeline import NativePipeline
from pipelines import local_session
from tally import Scripts


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    session = local_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def pipeline(spark, tmp_path) -> NativePipeline:
    """A stream of tally rows with a checkpoint of its own."""
    return NativePipeline(spark, tmp_path / "pipeline")


@pytest.fixture
def scripts(tmp_path) -> Scripts:
    """A folder of migration scripts for the store ``tally``."""
    return Scripts(tmp_path / "migrations")
