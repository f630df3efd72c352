"""What a test deploys on the embedded engine."""

import pytest
from support.sessions import scripts, spark, use_folders

__all__ = ["scripts", "spark"]

use_folders("spark")


@pytest.fixture
def pipeline(spark, tmp_path):
    """A stream of tally rows with a checkpoint of its own."""
    from pipelines import Pipeline

    return Pipeline(spark, tmp_path / "pipeline")
