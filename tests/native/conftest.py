"""What a test deploys on Spark's own state, with the processors of the embedded engine's tests."""

import pytest
from support.sessions import scripts, spark, use_folders

__all__ = ["scripts", "spark"]

use_folders("native", "spark")


@pytest.fixture
def pipeline(spark, tmp_path):
    """A stream of tally rows with a checkpoint of its own."""
    from native_pipeline import NativePipeline

    return NativePipeline(spark, tmp_path / "pipeline")


@pytest.fixture
def without_empty_batches(spark):
    """With processing time Spark would run empty batches without end."""
    name = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(name, "false")
    yield
    spark.conf.unset(name)
