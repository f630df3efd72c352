"""Backfill of Spark's own state: planned in chunks, fed one a batch, down to the last key."""

import os

import pytest
from control_pipeline import AmountsInPandas, CentsInPandas, ControlPipeline, StrictAmounts
from function_deployments import Deployments
from paged_pipeline import PagedPipeline, TallyPages, check_families
from pipelines import PARTITIONS
from pyspark.errors import StreamingQueryException
from support.waiting import eventually
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    NESTED,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    batch,
)
from tally_functions import envelopes

from statemigrate import (
    BackfillListener,
    BackfillPlan,
    backfill,
    backfill_status,
    migrated,
    pause_backfill,
)
from statemigrate.native.operators import chunk_files

pytestmark = pytest.mark.spark

BASE = {"tally": CENTS}
ON_BOTH = pytest.mark.parametrize(
    "tally", ["native", pytest.param("paged", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture
def tally(request, spark, tmp_path):
    """A query on Spark's own state, or on so few pages that each has several keys."""
    if getattr(request, "param", "native") == "paged":
        return TallyPages(spark, tmp_path / "pipeline", pages=16)
    return ControlPipeline(spark, tmp_path / "pipeline")


def begun(pipeline, keys, processor=None) -> Expected:
    """State in the oldest format, by plain Spark unless told otherwise, and the same computed."""
    expected = Expected()
    rows = batch("first", keys)
    pipeline.feed(rows)
    pipeline.deploy_natively(processor or CentsTally())
    expected.process(rows, CENTS)
    return expected


def is_paged(pipeline):
    return isinstance(pipeline, PagedPipeline)


def per_chunk(pipeline, keys):
    """So many keys a chunk that there are as many chunks where a few of them are in a page."""
    return -(-keys // 3) if is_paged(pipeline) else keys


@pytest.mark.long
def test_an_idle_query_is_drained_chunk_by_chunk(spark, tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(40))
    plan = backfill(tally.checkpoint, migrations=folder, keys_per_chunk=15)
    assert plan == BackfillPlan(40, 3, {"tally": 40}, 0)
    chunks, partitions = tally.chunks(), tally.partitions("tally")
    assert sorted(key for keys in chunks for key in keys) == sorted(expected.values)
    for keys in chunks:
        assert {partitions[key] for key in keys} == set(range(PARTITIONS))
        assert len(keys) <= 15
    status = backfill_status(tally.checkpoint, migrations=folder)
    assert (status.keys_left, status.families) == (40, {"tally": 40})
    assert (status.chunks, status.consumed, status.waiting) == (3, 0, 3)

    figures = []
    listener = BackfillListener(tally.checkpoint, figures.append)
    spark.streams.addListener(listener)
    try:
        query = tally.deploy_natively(migrated(StrictAmounts(), migrations=folder))
        eventually(lambda: len(figures) == 3)
    finally:
        spark.streams.removeListener(listener)
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output
    assert len(query.recentProgress) >= 3, "one chunk a batch"
    assert [each.chunks_consumed for each in figures] == [1, 2, 3]
    assert {(each.keys_planned, each.chunks) for each in figures} == {(40, 3)}
    assert sum(each.keys for each in figures) == 40
    assert figures[-1].keys_asked == 40
    assert listener.latest == figures[-1]
    status = backfill_status(tally.checkpoint, migrations=folder)
    assert (status.keys_left, status.consumed, status.waiting) == (0, 3, 0)
    assert status.is_finished
    assert status.quarantined == 0
    back = backfill_status(tally.checkpoint, migrations=folder, targets=BASE)
    assert (back.keys_left, back.unplanned) == (40, (f"tally@{AMOUNTS}",))
    assert (back.is_finished, back.quarantined, back.is_under_way) == (False, 0, False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new"), [(CentsTally, StrictAmounts), (CentsInPandas, AmountsInPandas)]
)
def test_a_busy_query_migrates_beside_live_rows_of_the_same_keys(tally, scripts, old, new):
    folder = scripts.write()
    tally.in_pandas = new is AmountsInPandas
    expected = begun(tally, range(40), migrated(old(), migrations=folder, targets=BASE))
    backfill(tally.checkpoint, migrations=folder, keys_per_chunk=14)
    for number in range(3):
        rows = batch(f"live {number}", range(10 * number, 10 * number + 15), rows_a_key=2)
        tally.feed(rows)
        expected.process(rows, AMOUNTS)
    tally.deploy_natively(migrated(new(), migrations=folder))
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output


@pytest.mark.long
@ON_BOTH
def test_available_now_drains_what_was_planned_and_three_revisions_end_in_one(tally, scripts):
    scripts.write()
    expected = begun(tally, range(30))
    rows = batch("second", [29, *range(30, 40)] if is_paged(tally) else range(10, 40))
    tally.feed(rows)
    tally.deploy_natively(migrated(AmountsTally(), migrations=scripts.directory))
    expected.process(rows, AMOUNTS)
    if is_paged(tally):
        tally.moved_along(expected, range(29, 40), AMOUNTS)
    folder = scripts.write(nested=NESTED_SCRIPT)
    plan = backfill(tally.checkpoint, migrations=folder, keys_per_chunk=per_chunk(tally, 24))
    stored = expected.stored(CENTS, AMOUNTS)
    assert plan.families == {name: len(values) for name, values in stored.items()}
    assert min(plan.families.values()) > 0
    assert (plan.keys, plan.chunks, plan.withdrawn) == (40, 2, 0)
    processor = migrated(NestedTally(), migrations=folder)
    query = tally.start(tally.result(processor), availableNow=True)
    assert query.awaitTermination(60)
    expected.drain(NESTED)
    check_families(tally, expected, CENTS, AMOUNTS, NESTED)
    assert tally.handed_rows == expected.output
    assert backfill(tally.checkpoint, migrations=folder).keys == 0


@pytest.mark.long
@ON_BOTH
def test_a_paused_backfill_is_resumed_by_planning_again(tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(40))
    backfill(tally.checkpoint, migrations=folder, keys_per_chunk=per_chunk(tally, 11))
    tally.fail_on = {2}
    with pytest.raises(StreamingQueryException):
        tally.deploy_natively(migrated(StrictAmounts(), migrations=folder))
    # Of four chunks one was committed, one was being processed, two are waiting.
    status = backfill_status(tally.checkpoint, migrations=folder)
    assert (status.chunks, status.consumed, status.waiting) == (4, 1, 2)
    assert 0 < status.keys_left < 40
    assert pause_backfill(tally.checkpoint) == 2
    assert pause_backfill(tally.checkpoint) == 0
    paused = backfill_status(tally.checkpoint, migrations=folder)
    assert (paused.keys_left, paused.chunks, paused.waiting) == (status.keys_left, 0, 0)
    assert len(chunk_files(tally.checkpoint).written()) == 1, (
        "only the chunk being processed is kept"
    )
    again = backfill(tally.checkpoint, migrations=folder, keys_per_chunk=per_chunk(tally, 11))
    assert again.keys == status.keys_left
    tally.deploy_natively(migrated(StrictAmounts(), migrations=folder))
    expected.drain(AMOUNTS)
    check_families(tally, expected, CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output


@pytest.mark.long
@ON_BOTH
def test_planning_and_pausing_while_the_query_runs(tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(60))
    query = tally.start(tally.result(migrated(StrictAmounts(), migrations=folder)))
    try:
        live = [batch(f"live {number}", range(number, 60, 7)) for number in range(3)]
        for rows in live:
            expected.process(rows, AMOUNTS)
        tally.feed(*live)
        backfill(tally.checkpoint, migrations=folder, keys_per_chunk=3)
        pause_backfill(tally.checkpoint)
        backfill(tally.checkpoint, migrations=folder, keys_per_chunk=25)
        query.processAllAvailable()
    finally:
        query.stop()
    expected.drain(AMOUNTS)
    check_families(tally, expected, CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output
    assert backfill_status(tally.checkpoint, migrations=folder).is_finished


@pytest.mark.long
@ON_BOTH
def test_a_later_plan_works_whatever_time_its_files_have_and_goes_back(tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(12))
    backfill(tally.checkpoint, migrations=folder, keys_per_chunk=12)
    (chunk,) = (tally.checkpoint / "statemigrate/control").rglob("chunks/**/*.parquet")
    later = chunk.stat().st_mtime + 60 * 24 * 3600
    os.utime(chunk, (later, later))
    tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.drain(AMOUNTS)
    check_families(tally, expected, CENTS, AMOUNTS)
    # Sixty days older than the newest file the source has seen.
    backfill(tally.checkpoint, migrations=folder, targets=BASE, keys_per_chunk=6)
    tally.deploy_natively(migrated(CentsTally(), migrations=folder, targets=BASE))
    expected.drain(CENTS)
    check_families(tally, expected, CENTS, AMOUNTS)
    status = backfill_status(tally.checkpoint, migrations=folder, targets=BASE)
    assert (status.keys_left, status.chunks, status.consumed) == (0, 2, 2)


@pytest.mark.long
def test_a_poison_value_fails_the_batch_until_its_script_is_corrected(tally, scripts):
    poison = '    if value["cents"] == 3 * 5 + 7:\n        raise ValueError("unlucky")\n'
    folder = scripts.write(
        AMOUNTS_SCRIPT.replace("upgrade(value):\n", f"upgrade(value):\n{poison}")
    )
    expected = begun(tally, range(12))
    backfill(tally.checkpoint, migrations=folder)
    with pytest.raises(StreamingQueryException) as caught:
        tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    for part in ("Store 'tally'", "key ('k5',)", f"base to {AMOUNTS}", "ValueError: unlucky"):
        assert part in str(caught.value)
    assert tally.state("tally") == expected.stored(CENTS)["tally"]
    tally.deploy_natively(migrated(AmountsTally(), migrations=scripts.write()))
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_the_envelopes_of_a_function_are_drained(tally, scripts):
    deployments = Deployments(tally, scripts.write(nested=NESTED_SCRIPT))
    deployments.process(CENTS, batch("first", range(12)))
    deployments.process(AMOUNTS, batch("second", range(8, 16)))
    plan = backfill(tally.checkpoint, migrations=deployments.folder, keys_per_chunk=10)
    assert plan == BackfillPlan(16, 2, {"tally": 8, f"tally@{AMOUNTS}": 8}, 0)
    deployments.process(NESTED, batch("third", range(2)))
    deployments.expected.drain(NESTED)
    assert deployments.stored() == envelopes(deployments.expected)
    assert tally.handed_rows == deployments.expected.output
    status = backfill_status(tally.checkpoint, migrations=deployments.folder)
    assert (status.keys_left, status.consumed, status.families) == (0, 2, {})
