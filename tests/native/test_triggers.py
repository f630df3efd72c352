"""Nightly and other runs that end by themselves: what they take of a planned backfill and drop."""

import threading
from dataclasses import dataclass, field

import pytest
from control_pipeline import ControlPipeline
from paged_pipeline import TallyPages, check_families
from pyspark.errors import AnalysisException, StreamingQueryException
from support.waiting import eventually
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, backfill_status, migrated, with_backfill

pytestmark = [pytest.mark.spark, pytest.mark.long]

NIGHTLY = {"availableNow": True}
WITHOUT_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
KEYS = 18


@dataclass
class Nights:
    """Runs that end by themselves; ``limits`` are options of the stream's own source."""

    limits: dict = field(default_factory=dict)

    def limited(self):
        reader = self.spark.readStream.schema(self.rows).options(**self.limits)
        return reader.parquet(f"{self.input}/*.parquet")

    def night(self, processor, **trigger):
        """One run; by batch the rows of the stream's source and of the backfill source."""
        query = self.start(self.result(processor), **(trigger or NIGHTLY))
        assert query.awaitTermination(120)
        taken = [[s.numInputRows for s in each.sources] for each in query.recentProgress]
        return [tuple(each) for each in taken if any(each)]


@dataclass
class Nightly(Nights, ControlPipeline):
    """On Spark's own state."""

    def stream(self):
        return with_backfill(self.limited(), self.by, checkpoint=self.checkpoint)

    def variables(self):
        """Those of the processor; Spark has others for its timers."""
        return {name for name in super().variables() if not name.startswith("$")}


@dataclass
class NightlyOnPages(Nights, TallyPages):
    """On pages, each of one key, so that they migrate as keys do; none has an empty family."""

    pages: int = 62

    def stream(self):
        return self.limited()


@pytest.fixture
def code(scripts):
    folder = scripts.write()

    def made(pipeline):
        if isinstance(pipeline, NightlyOnPages):
            return migrated(AmountsTally(), migrations=folder)
        return migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)

    made.folder = folder
    return made


def begun(pipeline, **trigger):
    """A query with state in the oldest format."""
    pipeline.expected = Expected()
    rows = batch("first", range(KEYS))
    pipeline.feed(rows)
    pipeline.expected.process(rows, CENTS)
    pipeline.night(CentsTally(), **trigger)
    pipeline.before = pipeline.expected.output.copy()
    pipeline.handed.clear()
    return pipeline


@pytest.fixture(params=[Nightly, NightlyOnPages])
def nightly(request, spark, tmp_path):
    return begun(request.param(spark, tmp_path / "pipeline"))


@pytest.fixture
def nightly_in_processing_time(spark, tmp_path):
    return begun(Nightly(spark, tmp_path / "pipeline", time_mode="ProcessingTime"), once=True)


def test_a_nightly_run_drains_what_is_planned_and_the_next_drops_what_is_empty(nightly, code):
    plan = backfill(nightly.checkpoint, migrations=code.folder, keys_per_chunk=4)
    live = [batch(f"live {number}", range(number, number + 3)) for number in range(3)]
    nightly.feed(*live)
    nightly.limits = {"maxFilesPerTrigger": 1, "latestFirst": "true"}
    taken = nightly.night(code(nightly))
    assert [rows for rows, _ in taken] == [3, 3, 3, 0, 0], "the stream's own limit holds"
    assert len([keys for _, keys in taken if keys]) == plan.chunks == 5, "one chunk a batch"
    for rows in reversed(live):
        nightly.expected.process(rows, AMOUNTS)
    nightly.expected.drain(AMOUNTS)
    check_families(nightly, nightly.expected, CENTS, AMOUNTS)

    nightly.handed.clear()
    if isinstance(nightly, Nightly):
        nightly.night(code(nightly))
        assert [rows for _, rows in nightly.handed] == [[]], "a batch without a row"
        nightly.handed.clear()
    check_families(nightly, nightly.expected, AMOUNTS)
    nightly.night(code(nightly))
    assert not nightly.handed, "and nothing runs for nothing"
    status = backfill_status(nightly.checkpoint, migrations=code.folder)
    assert (status.keys_left, status.waiting, status.consumed) == (0, 0, plan.chunks)


def test_once_takes_all_chunks_in_one_batch_and_after_a_kill_only_the_killed_one(nightly, code):
    nightly.limits = {"maxFilesPerTrigger": 1}
    live = [batch(f"live {number}", range(number, number + 3)) for number in range(2)]
    nightly.feed(live[0])
    nightly.fail_on = {1}
    with pytest.raises(StreamingQueryException, match="refuses batch 1 once"):
        nightly.night(code(nightly), once=True)
    nightly.feed(live[1])
    plan = backfill(nightly.checkpoint, migrations=code.folder, keys_per_chunk=4)
    assert (plan.keys, plan.chunks) == (KEYS, 5)
    assert nightly.night(code(nightly), once=True) == [(3, 0)], "Spark repeats the batch, no more"
    assert nightly.night(code(nightly), once=True) == [(3, KEYS)], "no limit of a source counts"
    for rows in live:
        nightly.expected.process(rows, AMOUNTS)
    nightly.expected.drain(AMOUNTS)
    check_families(nightly, nightly.expected, CENTS, AMOUNTS)
    assert nightly.handed_rows == nightly.expected.output - nightly.before


def test_what_is_planned_during_a_nightly_run_waits_for_the_next(nightly, code):
    backfill(nightly.checkpoint, migrations=code.folder, keys_per_chunk=6)
    nightly.limits = {"maxBytesPerTrigger": 1}
    live = batch("live", range(3))
    nightly.feed(live)
    reached, may_go_on = threading.Event(), threading.Event()
    hand_on = nightly.sink

    def sink(rows, number):
        reached.set()
        assert may_go_on.wait(120)
        hand_on(rows, number)

    nightly.sink = sink
    query = nightly.start(nightly.result(code(nightly)), **NIGHTLY)
    try:
        assert reached.wait(120)
        again = backfill(nightly.checkpoint, migrations=code.folder, keys_per_chunk=9)
        may_go_on.set()
        assert query.awaitTermination(120)
    finally:
        query.stop()
    assert (again.withdrawn, again.chunks) == (2, 2)
    status = backfill_status(nightly.checkpoint, migrations=code.folder)
    assert (status.waiting, status.consumed) == (2, 0)
    assert 0 < status.keys_left < KEYS
    assert len([keys for _, keys in nightly.night(code(nightly)) if keys]) == 2
    nightly.expected.process(live, AMOUNTS)
    nightly.expected.drain(AMOUNTS)
    check_families(nightly, nightly.expected, CENTS, AMOUNTS)


@dataclass
class OfRate(Nightly):
    """The rate source, which does not know where ``availableNow`` is to end."""

    def stream(self):
        rate = self.spark.readStream.format("rate").option("rowsPerSecond", 9).load()
        rows = rate.selectExpr(
            f"concat('k', value % {KEYS}) AS key", "value AS cents", "'r' AS name"
        )
        return with_backfill(rows, self.by, checkpoint=self.checkpoint)

    def night(self, processor, **trigger):
        taken = super().night(processor, **trigger)
        rows = sum(rows for rows, _ in taken)
        self.live = [
            (f"k{value % KEYS}", value, "r") for value in range(self.seen, self.seen + rows)
        ]
        self.seen += rows
        return taken


def test_with_a_source_that_knows_no_available_now_all_is_one_batch(spark, tmp_path, code):
    rate = OfRate(spark, tmp_path / "rate")
    rate.seen = 0
    expected = Expected()
    while rate.seen < KEYS:
        rate.night(CentsTally())
        expected.process(rate.live, CENTS)
    plan = backfill(rate.checkpoint, migrations=code.folder, keys_per_chunk=9)
    assert (plan.keys, plan.chunks) == (KEYS, 2)
    assert [keys for _, keys in rate.night(code(rate))] == [KEYS]
    expected.process(rate.live, AMOUNTS)
    expected.drain(AMOUNTS)
    assert rate.all_state() == expected.stored(CENTS, AMOUNTS)


def test_spark_goes_on_in_processing_time_unless_batches_without_data_are_off(
    spark, nightly_in_processing_time, code
):
    nightly = nightly_in_processing_time
    backfill(nightly.checkpoint, migrations=code.folder, keys_per_chunk=9)
    query = nightly.start(nightly.result(code(nightly)), **NIGHTLY)
    try:
        eventually(lambda: len(nightly.handed) > 4)
        assert query.isActive
    finally:
        query.stop()
    nightly.expected.drain(AMOUNTS)
    check_families(nightly, nightly.expected, CENTS, AMOUNTS)
    spark.conf.set(WITHOUT_DATA, "false")
    try:
        nightly.night(code(nightly))
    finally:
        spark.conf.unset(WITHOUT_DATA)
    check_families(nightly, nightly.expected, AMOUNTS)


def test_a_continuous_query_with_state_is_refused_by_spark(nightly, code):
    writer = nightly.result(code(nightly)).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(nightly.checkpoint))
    with pytest.raises(AnalysisException, match="ontinuous"):
        writer.trigger(continuous="1 second").start()
    check_families(nightly, nightly.expected, CENTS)
