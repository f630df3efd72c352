"""The embedded engine's state on HDFS and in a bucket."""

import pytest
from elsewhere import FIRST, LIVES, NEXT, expected_of
from pipelines import Pipeline
from tally import CENTS, CentsTally

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(spark, remote, tmp_path):
    return Pipeline(spark, tmp_path / "pipeline", checkpoint_directory=f"{remote}/checkpoint")


@pytest.mark.parametrize("life", LIVES)
def test_a_query(pipeline, scripts, life):
    LIVES[life](pipeline, scripts.write())


def test_a_second_start_takes_over_and_nothing_is_lost(pipeline, tmp_path):
    pipeline.feed(*FIRST)
    first = pipeline.query(CentsTally()).start()
    first.processAllAvailable()
    # Spark itself stops the first one where both are in one session.
    elsewhere = str(tmp_path / "another machine")
    second = pipeline.query(CentsTally(), working_directory=elsewhere).start()
    pipeline.feed(NEXT)
    second.processAllAvailable()
    for each in (first, second):
        each.stop()
    expected = expected_of(*((rows, CENTS) for rows in (*FIRST, NEXT)))
    assert pipeline.stored() == expected.stored(CENTS)
