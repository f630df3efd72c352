"""Metrics of a running embedded query, compared with what its state says was migrated."""

import logging

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    PeriodicExportingMetricReader,
)
from support.metric_points import RaisingProvider, points
from support.monitoring import LAG, LOOKS, Scraped, unknown, used
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import BackfillOptions, EmbeddedMetrics, migrated
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.versions import read_manifest

pytestmark = pytest.mark.spark

FIRST = batch("first", range(40), 2)
FAILING = range(35, 40)
NOT_EMBEDDED = {LAG, *LOOKS, "statemigrate_backfill_left", "statemigrate_state_records"}
QUARANTINE = BackfillOptions(initial_rows=5, maximum_rows=5, on_error="quarantine")
QUERY = (("engine", "embedded"), ("query", "tally"))
FAMILY = (("engine", "embedded"), ("family", "tally"), ("query", "tally"), ("store", "tally"))


@pytest.fixture
def old_state(pipeline):
    """40 keys in the oldest format."""
    expected = Expected()
    pipeline.feed(FIRST)
    expected.process(FIRST, CENTS)
    pipeline.deploy(CentsTally())
    return expected


def some_fail():
    """The script, but 5 of the 40 values do not migrate."""
    least = 2 * (3 * FAILING[0] + 7)
    check = f'    if value["cents"] >= {least}:\n        raise ValueError("too much")\n'
    return AMOUNTS_SCRIPT.replace("    amount = Decimal(", f"{check}    amount = Decimal(", 1)


@pytest.mark.long
def test_totals_are_what_the_state_says_and_a_batch_run_twice_counts_once(
    pipeline, scripts, old_state
):
    reader, scraped = InMemoryMetricReader(), Scraped()
    provider = MeterProvider([reader, scraped.reader])
    recorded = EmbeddedMetrics("tally", meter_provider=provider)
    code = migrated(AmountsTally(), migrations=scripts.write(some_fail()))
    live = batch("second", range(10))
    pipeline.feed(live)
    # The manifest of the batch is there when its sink refuses, and the batch is run again.
    pipeline.fail_on = {1}
    options = {"backfill": QUARANTINE, "metrics": recorded, "snapshot_every": 100}
    with pytest.raises(RuntimeError, match="refuses batch 1"):
        pipeline.deploy(code, **options)
    assert points(reader) == {("values.failed", *QUERY): 0, ("batches.failed", *QUERY): 1}
    progress = pipeline.deploy(code, **options)

    old_state.process(live, AMOUNTS)
    for key in old_state.values:
        if int(key[1:]) not in FAILING:
            old_state.move(key, AMOUNTS)
    assert pipeline.stored() == old_state.stored(CENTS, AMOUNTS)
    found = points(reader)
    touched = found["values.migrated", ("by", "touch"), *QUERY]
    assert touched + found["values.migrated", ("by", "backfill"), *QUERY] == 40 - len(FAILING)
    assert touched == len(live)
    assert found["values.failed", *QUERY] == len(FAILING)
    assert found["values.left", *FAMILY] == len(FAILING)
    assert found["values.quarantined", *FAMILY] == len(FAILING)
    assert found["rows.processed", *QUERY] == len(live)
    written = changelog_bytes(pipeline, [each.batch for each in progress])
    assert found["changelog.size", *QUERY] == (len(progress), written)
    took = round(sum(each.batch_ms for each in progress) / 1000, 9)
    assert found["batch.duration", *QUERY] == (len(progress), pytest.approx(took))
    assert found["families.older", *QUERY, ("store", "tally")] == 1
    # What the example's alerts and dashboard ask for is there, but for the other engine's.
    assert unknown(scraped.labels()) == {}
    assert used().keys() - scraped.labels().keys() == NOT_EMBEDDED
    provider.shutdown()


def changelog_bytes(pipeline, batches):
    """The size of the changelogs of these batches, as the last of their manifests has them."""
    manifest = read_manifest(Layout.of(pipeline.checkpoint), batches[-1])
    files = [
        changelog.file for partition in manifest.partitions for changelog in partition.changelogs
    ]
    return sum(file.size for file in files if int(file.name.split("-")[0]) in batches)


class RaisingExporter(MetricExporter):
    calls = 0

    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
        self.calls += 1
        raise ConnectionError("the collector is away")

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self, timeout_millis=30_000, **kwargs):
        pass


@pytest.mark.long(weight=1 / 3)
def test_an_exporter_that_raises_does_not_stop_the_query(pipeline, scripts, old_state, caplog):
    exporter = RaisingExporter()
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, 50)])
    recorded = EmbeddedMetrics("tally", meter_provider=provider)
    pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()), metrics=recorded)
    provider.shutdown()
    assert exporter.calls
    assert any("exporting metrics" in each.getMessage() for each in caplog.records)
    old_state.drain(AMOUNTS)
    assert pipeline.stored() == old_state.stored(AMOUNTS)


def test_an_instrument_that_raises_does_not_stop_the_query(pipeline, scripts, old_state, caplog):
    recorded = EmbeddedMetrics("tally", meter_provider=RaisingProvider())
    code = migrated(AmountsTally(), migrations=scripts.write())
    with caplog.at_level(logging.ERROR, "statemigrate.metrics"):
        progress = pipeline.deploy(code, metrics=recorded)
    assert len(progress) > 1
    (told,) = [each for each in caplog.records if each.name == "statemigrate.metrics"]
    assert "the collector is away" in str(told.exc_info[1])
    old_state.drain(AMOUNTS)
    assert pipeline.stored() == old_state.stored(AMOUNTS)


def test_what_is_observed_within_a_batch_does_not_reach_sparks_own_progress(pipeline):
    """Why the counts are not in ``observedMetrics``."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    within = Observation("within")
    collect = pipeline.sink

    def sink(rows, number):
        collect(rows.observe(within, count(lit(1)).alias("n")), number)

    pipeline.sink = sink
    pipeline.feed(FIRST)
    running = pipeline.query(CentsTally()).start()
    pipeline.run(running)
    assert within.get == {"n": 40}
    assert [each.observedMetrics for each in running.query.recentProgress] == [{}]
