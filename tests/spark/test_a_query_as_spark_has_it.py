"""A running query answers as Spark's own `StreamingQuery` does, by the same names."""

import pytest
from tally import CentsTally, batch

from statemigrate import EmbeddedQuery
from statemigrate.errors import StartupError

pytestmark = pytest.mark.spark

ROWS = batch("one", range(5))


def test_a_running_query_has_the_names_of_sparks_own(pipeline):
    pipeline.feed(ROWS)
    running = pipeline.query(CentsTally()).start(queryName="tallies")
    try:
        running.processAllAvailable()
        spark_own = running.query
        assert running.name == "tallies"
        assert (running.id, running.runId) == (spark_own.id, spark_own.runId)
        assert running.isActive
        assert running.exception() is None
        assert running.lastProgress.name == "tallies"
        assert not running.awaitTermination(1)
    finally:
        running.stop()
    assert not running.isActive
    assert running.awaitTermination(10)


def test_the_exception_of_a_query_is_the_one_it_ended_with(pipeline):
    pipeline.spark.streams.resetTerminated()
    pipeline.feed(ROWS)
    pipeline.fail_on = {0}
    running = pipeline.query(CentsTally()).start()
    with pytest.raises(RuntimeError, match="refuses batch 0 once"):
        running.awaitTermination(60)
    assert isinstance(running.exception(), RuntimeError)
    assert not running.isActive


def test_the_grouping_columns_are_named_once(pipeline):
    def grouped(**columns):
        return EmbeddedQuery(
            pipeline.stream(),
            processor=CentsTally(),
            outputStructType=pipeline.output,
            checkpoint=pipeline.checkpoint,
            sink=pipeline.sink,
            options=pipeline.options(),
            **columns,
        )

    assert grouped(groupBy="key") is not None
    assert grouped(by=["key"]) is not None
    for columns in ({}, {"groupBy": "key", "by": "key"}):
        with pytest.raises(StartupError, match="grouped by columns that are named once"):
            grouped(**columns)
