"""Metrics of a running query on Spark's own state, compared with what its state says."""

import logging

import pytest
from control_pipeline import ControlPipeline, StrictAmounts
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from support.metric_points import RaisingProvider, page_code, points
from support.monitoring import LAG, LOOKS, Scraped, unknown, used
from support.waiting import eventually
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, CentsTally, Expected, batch

from statemigrate import NativeMetrics, backfill, migrated

pytestmark = pytest.mark.spark

FAILING = range(35, 40)
NOT_NATIVE = {
    LAG,
    *LOOKS,
    "statemigrate_values_left",
    "statemigrate_values_quarantined",
    "statemigrate_families_older",
    "statemigrate_versions_kept",
    "statemigrate_versions_restorable",
    "statemigrate_backfill_duration_seconds_sum",
    "statemigrate_backfill_duration_seconds_count",
}
QUERY = (("engine", "native"), ("query", "checkpoint"))


@pytest.fixture
def tally(spark, tmp_path) -> ControlPipeline:
    return ControlPipeline(spark, tmp_path / "pipeline")


@pytest.fixture
def old_state(tally) -> Expected:
    """40 keys in the oldest format, written by plain Spark."""
    expected = Expected()
    rows = batch("first", range(40))
    tally.feed(rows)
    tally.deploy_natively(CentsTally())
    expected.process(rows, CENTS)
    return expected


def some_fail() -> str:
    """The script, but 5 of the 40 values do not migrate."""
    check = (
        f'    if value["cents"] >= {3 * FAILING[0] + 7}:\n        raise ValueError("too much")\n'
    )
    return AMOUNTS_SCRIPT.replace("    amount = Decimal(", f"{check}    amount = Decimal(", 1)


def committed(query):
    """The progress of each batch; while a query is idle Spark notes its last one again."""
    return [each for each in query.recentProgress if "addBatch" in each.durationMs]


def recorded(reader):
    """The number of batches that were recorded."""
    return points(reader).get(("batch.duration", *QUERY), (0,))[0]


@pytest.mark.long
def test_totals_are_what_the_state_says(spark, tally, scripts, old_state):
    folder = scripts.write(some_fail())
    code = migrated(
        StrictAmounts(), migrations=folder, checkpoint=tally.checkpoint, on_error="quarantine"
    )
    reader, scraped = InMemoryMetricReader(), Scraped()
    provider = MeterProvider([reader, scraped.reader])
    listener = NativeMetrics(code, tally.checkpoint, meter_provider=provider)
    spark.streams.addListener(listener)
    query = tally.start(tally.result(code))
    try:
        live = batch("second", range(10))
        tally.feed(live)
        query.processAllAvailable()
        old_state.process(live, AMOUNTS)
        backfill(tally.checkpoint, migrations=folder, keys_per_chunk=15)
        query.processAllAvailable()
        eventually(lambda: recorded(reader) == len(committed(query)))
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    found = points(reader)
    for key in old_state.values:
        if int(key[1:]) not in FAILING:
            old_state.move(key, AMOUNTS)
    assert tally.all_state() == old_state.stored(CENTS, AMOUNTS)
    assert found["values.migrated", ("by", "touch"), *QUERY] == len(live)
    assert found["values.migrated", ("by", "backfill"), *QUERY] == 40 - len(live) - len(FAILING)
    assert found["values.failed", *QUERY] == len(FAILING)
    assert found["backfill.left", *QUERY] == 0
    assert found["rows.processed", *QUERY] == len(live) + 30
    progress = committed(query)
    state = [each.stateOperators[0] for each in progress]
    at = (QUERY[0], ("operator", f"0:{state[0].operatorName}"), QUERY[1])
    assert found["state.records", *at] == state[-1].numRowsTotal == 40
    assert found["state.updated", *at] == sum(each.numRowsUpdated for each in state)
    assert found["state.memory", *at] == state[-1].memoryUsedBytes
    in_files = state[-1].customMetrics["rocksdbSstFileSize"]
    assert found["rocksdb.sst_file_size", *at] == in_files
    took = sum(each.durationMs["triggerExecution"] for each in progress) / 1000
    assert found["batch.duration", *QUERY] == (len(progress), pytest.approx(took))
    committed_at = found["commit.time", *QUERY]
    (last,) = tally.checkpoint.glob(f"commits/{progress[-1].batchId}")
    assert committed_at == pytest.approx(last.stat().st_mtime, abs=30)
    # What the example's alerts and dashboard ask for is there, but for the other engine's.
    assert unknown(scraped.labels()) == {}
    assert used().keys() - scraped.labels().keys() == NOT_NATIVE
    provider.shutdown()


@pytest.mark.long(weight=1 / 3)
def test_an_instrument_that_raises_does_not_stop_the_query_of_the_readme(
    spark, tally, scripts, old_state, tmp_path, monkeypatch, caplog
):
    scripts.write()
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark, "Totals": StrictAmounts, "CHECKPOINT": str(tally.checkpoint)}
    exec(page_code(1), names)  # noqa: S102 - the page's own code
    raising = NativeMetrics(
        names["totals"], tally.checkpoint, query="raising", meter_provider=RaisingProvider()
    )
    spark.streams.addListener(raising)
    try:
        for number in range(2):
            live = batch(f"live {number}", range(10 * number, 10 * number + 10))
            tally.feed(live)
            old_state.process(live, AMOUNTS)
        with caplog.at_level(logging.ERROR, "statemigrate.metrics"):
            query = tally.deploy_natively(names["totals"])
            eventually(lambda: mine(caplog))
    finally:
        spark.streams.removeListener(raising)
        spark.streams.removeListener(names["listener"])
    assert len(committed(query)) == 2
    assert tally.all_state() == old_state.stored(CENTS, AMOUNTS)
    (told,) = mine(caplog)
    assert "metrics of query raising cannot be recorded" in told.getMessage()
    assert "the collector is away" in str(told.exc_info[1])


def mine(caplog):
    return [each for each in caplog.records if each.name == "statemigrate.metrics"]
