"""Real-time mode and asynchronous progress: Spark ends such a start, and the next one goes on."""

import pytest
from control_pipeline import ControlPipeline
from pyspark.errors import PySparkException
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import EmbeddedQuery, migrated

pytestmark = [pytest.mark.spark, pytest.mark.long]

REAL_TIME = {"realTime": "5 seconds"}


@pytest.fixture
def stopped(spark, tmp_path):
    """A query with the backfill source that has run one batch, and what its state is."""
    pipeline, expected = ControlPipeline(spark, tmp_path / "pipeline"), Expected()
    rows = batch("first", range(10))
    pipeline.feed(rows)
    pipeline.deploy_natively(CentsTally())
    expected.process(rows, CENTS)
    return pipeline, expected


def ended_with(start):
    with pytest.raises(PySparkException) as raised:
        start().awaitTermination(120)
    return str(raised.value)


def goes_on(pipeline, expected, scripts):
    """Whether a plain start with the next code does all that there is."""
    rows = batch("second", range(5, 15))
    pipeline.feed(rows)
    code = migrated(AmountsTally(), migrations=scripts.write(), checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(code)
    expected.process(rows, AMOUNTS)
    return pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


def test_with_asynchronous_progress_spark_ends_any_query_with_state(stopped, scripts):
    pipeline, expected = stopped
    folder = scripts.write()
    code = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    rows = batch("waiting", range(3))
    pipeline.feed(rows)
    handed = len(pipeline.handed)

    def start():
        writer = pipeline.result(code).writeStream.outputMode("update").format("console")
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        return writer.option("checkpointLocation", str(pipeline.checkpoint)).start()

    assert "does not support async progress tracking" in ended_with(start)
    assert len(pipeline.handed) == handed
    expected.process(rows, AMOUNTS)
    assert goes_on(pipeline, expected, scripts)


def test_in_real_time_mode_spark_takes_no_file_source_as_the_control_source_is(stopped, scripts):
    pipeline, expected = stopped
    writer = pipeline.result(CentsTally()).writeStream.outputMode("update").format("console")
    writer = writer.option("checkpointLocation", str(pipeline.checkpoint))
    said = ended_with(lambda: writer.trigger(**REAL_TIME).start())
    assert "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED" in said
    assert goes_on(pipeline, expected, scripts)


def test_the_embedded_engine_is_refused_real_time_mode_by_spark(spark, tmp_path):
    pipeline = ControlPipeline(spark, tmp_path / "pipeline")
    pipeline.feed(batch("first", range(3)))
    handed = []
    query = EmbeddedQuery(
        spark.readStream.format("rate").load().selectExpr("'k' AS key", "value AS cents"),
        by="key",
        processor=CentsTally(),
        outputStructType=pipeline.output,
        checkpoint=tmp_path / "embedded",
        sink=lambda rows, number: handed.append(number),
    )
    assert "STREAMING_REAL_TIME_MODE" in ended_with(lambda: query.start(**REAL_TIME))
    assert handed == []
