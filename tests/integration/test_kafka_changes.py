"""What happens to a broker and its topics while a query runs on Spark's own state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka_pipeline import KafkaPipeline
from opentelemetry.sdk.metrics import MeterProvider
from support.monitoring import LAG, Scraped, used_in
from support.waiting import eventually
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import BackfillFigures, BackfillListener, SourceMetrics, backfill, migrated

pytestmark = [pytest.mark.integration, pytest.mark.spark]

OUTAGE = 3  # seconds, for which Spark's source waits


@pytest.fixture
def pipeline(spark, kafka, tmp_path) -> KafkaPipeline:
    return KafkaPipeline(spark, tmp_path / "pipeline", kafka=kafka.uri)


@pytest.fixture
def expected(pipeline) -> Expected:
    """The first deployment has run, on Spark alone but for the backfill source."""
    computed, first = Expected(), batch("first", range(30))
    pipeline.feed(first)
    pipeline.deploy_natively(CentsTally())
    computed.process(first, CENTS)
    return computed


def test_a_broker_that_restarts_costs_nothing(pipeline, expected, kafka, scripts):
    folder = scripts.write()
    backfill(pipeline.checkpoint, migrations=folder, keys_per_chunk=10)
    with running(pipeline, folder) as (query, figures):
        kafka.stop()
        time.sleep(OUTAGE)
        kafka.start()
        second = batch("second", range(20, 40))
        pipeline.feed(second)
        query.processAllAvailable()
        eventually(lambda: figures and figures[-1].chunks_consumed == 3)
    expected.drain(AMOUNTS)
    expected.process(second, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output
    assert (figures[-1].keys_asked, figures[-1].keys_planned) == (30, 30)


def test_a_partition_more_is_read_from_its_first_message(pipeline, expected, scripts):
    folder = scripts.write()
    with running(pipeline, folder) as (query, _):
        pipeline.add_partition()
        second = batch("second", range(25, 45))
        pipeline.feed(second, partition=2)
        eventually(lambda: len(pipeline.handed_rows) == 50)
        backfill(pipeline.checkpoint, migrations=folder, keys_per_chunk=10)
        query.processAllAvailable()
    expected.process(second, AMOUNTS)
    expected.drain(AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output

    third = batch("third", range(50))
    pipeline.feed(third)
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.process(third, AMOUNTS)
    assert pipeline.handed_rows == expected.output


@contextmanager
def running(pipeline: KafkaPipeline, folder: Path) -> Iterator[tuple[object, list[object]]]:
    """The migrated query, and what a listener is told of its backfill."""
    figures: list[BackfillFigures] = []
    listener = BackfillListener(pipeline.checkpoint, figures.append)
    pipeline.spark.streams.addListener(listener)
    query = pipeline.start(pipeline.result(migrated(AmountsTally(), migrations=folder)))
    try:
        yield query, figures
    finally:
        query.stop()
        pipeline.spark.streams.removeListener(listener)


def test_the_lag_is_what_the_broker_has_and_no_batch_has_read(spark, pipeline, tmp_path):
    """10 messages, some 4 of them a batch."""
    pipeline.feed(batch("first", range(10)))
    messages = spark.readStream.format("kafka").option("subscribe", pipeline.topic)
    messages = messages.option("kafka.bootstrap.servers", pipeline.kafka)
    messages = messages.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4)
    scraped, seen, sizes = Scraped(), [], []
    provider = MeterProvider([scraped.reader])
    recorded = SourceMetrics(tmp_path / "cp", query="q", meter_provider=provider)
    instrument = recorded._lag._instruments.lag
    recorded._lag._instruments.lag = SimpleNamespace(
        set=lambda lag, at: (seen.append(lag), instrument.set(lag, at))
    )
    spark.streams.addListener(recorded)
    try:
        stream = messages.load().writeStream.foreachBatch(
            lambda rows, _: sizes.append(rows.count())
        )
        query = stream.option("checkpointLocation", str(tmp_path / "cp")).start()
        query.processAllAvailable()
        eventually(lambda: seen and seen[-1] == 0)
        query.stop()
    finally:
        spark.streams.removeListener(recorded)
    behind = [10 - read for read in accumulate(sizes) if read < 10]
    assert [lag for lag in seen if lag] == behind
    assert len(behind) >= 2
    assert used_in(f"sum by (query, source) ({LAG})")[LAG] <= scraped.labels()[LAG]
    provider.shutdown()
