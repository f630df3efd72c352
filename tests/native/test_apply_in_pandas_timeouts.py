"""Timeouts of ``applyInPandasWithState`` fire as they would have without migrations."""

import time
from datetime import UTC, datetime

import pytest
from function_deployments import CONTROL_ROWS, Deployments
from pyspark.sql.streaming.state import GroupStateTimeout
from tally import AMOUNTS, CENTS, batch
from tally_functions import LOOK, SECONDS, WAIT, EventTally, Tally, envelopes

pytestmark = [pytest.mark.spark, pytest.mark.long]
PROCESSING, EVENT = GroupStateTimeout.ProcessingTimeTimeout, GroupStateTimeout.EventTimeTimeout
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@pytest.fixture
def no_empty_batches(spark):
    """A processing-time timeout otherwise makes one empty batch after the other, for ever."""
    spark.conf.set(NO_DATA_BATCHES, "false")
    yield
    spark.conf.unset(NO_DATA_BATCHES)


@pytest.mark.usefixtures("no_empty_batches")
def test_no_migration_changes_a_timeout_of_processing_time(pipeline, scripts):
    deployments = Deployments(pipeline, scripts.write(), PROCESSING)
    waiting = Tally(CENTS, 600 * SECONDS)
    deployments.run(CENTS, batch(WAIT, range(6)), function=waiting)
    before = deployments.timeouts_by_key()
    assert all(at > time.time() * SECONDS for at in before.values())
    pipeline.rows = CONTROL_ROWS
    looks = [(*row, None) for row in batch(LOOK, (0, 1))]
    control = [(f"k{number}", None, None, deployments.query_id()) for number in (1, 2)]
    writes = [(*row, None) for row in batch("write", (3,))]
    deployments.run(AMOUNTS, looks + control + writes)
    deployments.expected.process(batch(WAIT, range(6)), CENTS)
    for number in range(3):
        deployments.expected.move(f"k{number}", AMOUNTS)
    deployments.expected.process(batch("write", (3,)), AMOUNTS)
    assert deployments.stored() == envelopes(deployments.expected)
    # A function that writes and sets no timeout has none, as without migrations.
    assert deployments.timeouts_by_key() == {**before, "k3": -1}


@pytest.mark.usefixtures("no_empty_batches")
def test_values_time_out_when_they_would_have(pipeline, scripts):
    deployments = Deployments(pipeline, scripts.write(), PROCESSING)
    started = time.monotonic()
    deployments.run(CENTS, batch("first", (100,)))
    # Far longer than a deployment takes on this machine: the next one must come before the end.
    life = max(8, 6 * round(time.monotonic() - started)) * SECONDS
    deployments.run(CENTS, batch(WAIT, range(4)), function=Tally(CENTS, life))
    deployments.run(AMOUNTS, batch(LOOK, (0, 1)))
    assert {rev for rev, _ in deployments.stored().values()} == {CENTS, AMOUNTS}
    due = max(deployments.timeouts_by_key().values()) / SECONDS
    time.sleep(max(0.0, due - time.time()) + 0.1)
    deployments.run(AMOUNTS, batch("later", (9,)))
    timed_out = [row for row in dict(pipeline.handed)[3] if row[3] == "timed out"]
    assert sorted(timed_out) == [
        (f"k{number}", 1, 3 * number + 7, "timed out", 1) for number in range(4)
    ]
    assert deployments.stored().keys() == {"k9", "k100"}


def test_event_time_timeouts_fire_at_their_watermark(pipeline, scripts):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    at = int(start.timestamp())
    pipeline.rows = "key STRING, cents BIGINT, name STRING, at TIMESTAMP"
    deployments = Deployments(pipeline, scripts.write(), EVENT)

    def rows(name, keys, seconds):
        moment = datetime.fromtimestamp(at + seconds, UTC)
        return [(*row, moment) for row in batch(name, keys)]

    def run(revision, *batches):
        function = EventTally(revision, (at + 100) * SECONDS)
        stream = pipeline.stream().withWatermark("at", "0 seconds")
        deployments.run(revision, *batches, function=function, stream=stream)

    run(CENTS, rows(WAIT, range(5), 10))
    run(AMOUNTS, rows(LOOK, (0, 1), 50))
    stored = deployments.stored()
    assert {key for key, (revision, _) in stored.items() if revision == AMOUNTS} == {"k0", "k1"}
    assert set(deployments.timeouts_by_key().values()) == {(at + 100) * SECONDS}
    run(AMOUNTS, rows("later", (9,), 100))
    assert len(deployments.stored()) == 6, "the watermark has not passed the timeout"
    # A key that is read while its timeout is due keeps it, and so times out in the same batch.
    run(AMOUNTS, rows("last", (9,), 101))
    timed_out = [row for _, handed in pipeline.handed for row in handed if row[3] == "timed out"]
    assert sorted(timed_out) == [
        (f"k{number}", 1, 3 * number + 7, "timed out", 1) for number in range(5)
    ]
    assert deployments.stored().keys() == {"k9"}


def test_a_function_that_only_sets_a_timeout_keeps_it_through_migrations(pipeline, scripts):
    def waits(key, pdfs, state):
        state.setTimeoutTimestamp(7_000_000_000_000)
        return iter(())

    pipeline.rows = "key STRING, cents BIGINT, name STRING, at TIMESTAMP"
    deployments = Deployments(pipeline, scripts.write(), EVENT)

    def run(revision, name, function):
        moment = datetime(2026, 1, 1 + len(pipeline.handed), tzinfo=UTC)
        pipeline.feed([(*row, moment) for row in batch(name, range(3))])
        stream = pipeline.stream().withWatermark("at", "0 seconds")
        deployments.start(deployments.wrapped(function, revision), stream)

    run(CENTS, "first", Tally(CENTS))
    run(CENTS, "wait", waits)
    assert set(deployments.timeouts_by_key().values()) == {7_000_000_000_000}
    run(AMOUNTS, LOOK, Tally(AMOUNTS))
    deployments.expected.process(batch("first", range(3)), CENTS)
    deployments.expected.drain(AMOUNTS)
    assert deployments.stored() == envelopes(deployments.expected)
    assert set(deployments.timeouts_by_key().values()) == {7_000_000_000_000}
