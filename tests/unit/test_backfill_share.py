"""What the backfill's share of a batch is reckoned from."""

import pytest

from statemigrate import StartupError, migrated
from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.embedded.batches import RecentBatches, tuned, without_backfill
from statemigrate.embedded.task_plan import BatchPlan, PartitionReport


def plan(batch_ms: float, after_rows: bool = False, tuner: Tuner | None = None) -> BatchPlan:
    made = BatchPlan.__new__(BatchPlan)
    object.__setattr__(made, "tuner", tuner)
    object.__setattr__(made, "batch_ms", batch_ms)
    object.__setattr__(made, "after_rows", after_rows)
    return made


@pytest.mark.parametrize(
    ("rows", "live_ms", "batch_ms", "expected"),
    [
        (0, 0.0, 3000.0, 1000.0),  # idle: the time for idle batches
        (5, 2.0, 3000.0, 1000.0),  # a quarter of a batch of 3 s and what is added to it
        (5, 6000.0, 3000.0, 2000.0),  # the rows of this batch take longer than the one before
        (5, 2.0, 0.0, 20.0),  # a run's first batch: the least there is
    ],
)
def test_the_share_is_one_of_the_whole_batch(rows, live_ms, batch_ms, expected) -> None:
    tuner = Tuner.start(BackfillOptions(share=0.25, idle_milliseconds=1000.0))
    assert tuner.budget(plan(batch_ms).shared_batch_ms(rows, live_ms)).milliseconds == expected


@pytest.mark.parametrize(("after_rows", "expected"), [(True, 1000.0), (False, 5.0)])
def test_a_partition_without_rows_is_idle_only_where_the_others_are_too(
    after_rows, expected
) -> None:
    tuner = Tuner.start(BackfillOptions(share=0.25, idle_milliseconds=5.0))
    assert tuner.budget(plan(3000.0, after_rows).shared_batch_ms(0, 0.0)).milliseconds == expected


def test_the_backfill_is_charged_with_its_part_of_the_commit() -> None:
    report = PartitionReport(0, backfill_ms=30.0, commit_ms=100.0, chunk={"milliseconds": 20.0})
    report.charge(60.0)
    assert (report.backfill_ms, report.commit_ms) == (90.0, 40.0)
    assert report.chunk == {"milliseconds": 80.0}
    PartitionReport(0).charge(0.0)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(4, 1700.0), (2, 700.0), (1, 200.0)],
)
def test_partitions_that_wait_for_a_core_share_the_batch(cores: int, expected: float) -> None:
    reports = [{"backfill_ms": each} for each in (100.0, 300.0, 200.0, 0.0)]
    assert without_backfill(2000.0, reports, cores) == expected


def test_a_batch_is_never_shorter_than_nothing() -> None:
    assert without_backfill(100.0, [{"backfill_ms": 300.0}], 1) == 0.0


LIVE, IDLE = [{"backfill_ms": 100.0, "rows": 5}], [{"backfill_ms": 10.0, "rows": 0}]


def test_batches_without_rows_do_not_make_those_with_rows_look_short() -> None:
    """They come between the others for the backfill alone, and take less."""
    lately = RecentBatches().after(70.0, IDLE, 1)
    assert (lately.batch_ms, lately.had_rows) == (60.0, False)  # better than nothing
    lately = lately.after(1100.0, LIVE, 1)
    assert (lately.batch_ms, lately.had_rows) == (1000.0, True)
    lately = lately.after(60.0, IDLE, 1).after(50.0, IDLE, 1)
    assert (lately.batch_ms, lately.had_rows) == (1000.0, False)


def test_batches_that_store_a_snapshot_do_not_make_the_others_look_long() -> None:
    lately = RecentBatches()
    for number in range(40):
        lately = lately.after(5100.0 if number % 10 >= 6 else 1100.0, LIVE, 1)
        if number >= 8:
            assert lately.batch_ms == 1000.0
    # A load that has changed is known after five batches.
    for _ in range(5):
        lately = lately.after(2100.0, LIVE, 1)
    assert lately.batch_ms == 2000.0


def reports_of(migrated: int, milliseconds: float, rows: int, live_ms: float) -> list[object]:
    chunk = {"migrated": migrated, "quarantined": 0, "milliseconds": milliseconds}
    return [{"chunk": {**chunk, "finished": False}, "rows": rows, "live_ms": live_ms}]


def test_a_batch_without_rows_leaves_the_chunk_beside_rows_as_large_as_it_was() -> None:
    """It is bounded by its time, in which there is place for a fiftieth of that chunk."""
    options = BackfillOptions(share=0.25, idle_milliseconds=2.0, initial_rows=5_000)
    beside = plan(300.0, tuner=Tuner.start(options))
    learned = tuned(beside, reports_of(5_000, 100.0, 10, 300.0))
    assert learned == {"rows": 5_000, "rows_per_millisecond": 50.0}
    idle = plan(300.0, tuner=Tuner(options, **learned))
    assert tuned(idle, reports_of(100, 2.0, 0, 0.0)) == learned
    # Also where its rate is another: that is smoothed as ever.
    assert tuned(idle, reports_of(50, 2.0, 0, 0.0)) == {"rows": 5_000, "rows_per_millisecond": 40.0}
    # A longer idle time is one in which more is learned of.
    patient = BackfillOptions(share=0.25, idle_milliseconds=1000.0)
    longer = tuned(plan(300.0, tuner=Tuner(patient, **learned)), reports_of(5_000, 100.0, 0, 0.0))
    assert longer == {"rows": 10_000, "rows_per_millisecond": 50.0}


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"share": 1.0}, "share"),
        ({"share": 25}, "share"),
        ({"share": -0.1}, "share"),
        ({"share": float("nan")}, "share"),
        ({"idle_milliseconds": -1}, "idle_milliseconds"),
        ({"minimum_milliseconds": float("nan")}, "minimum_milliseconds"),
        ({"initial_rows": 0}, "initial_rows"),
        ({"maximum_rows": 0}, "maximum_rows"),
    ],
)
def test_options_that_cannot_work_are_named(options, parameter) -> None:
    with pytest.raises(StartupError) as refused:
        BackfillOptions(**options)
    assert (refused.value.code, refused.value.data["parameter"]) == ("SM-BACKFILL-018", parameter)


@pytest.mark.parametrize("given", ["Raise", "fail", "null", "", None])
def test_a_misspelt_word_leaves_no_value_behind(given) -> None:
    calls = [lambda: BackfillOptions(on_error=given), lambda: migrated(on_error=given)]
    for call in calls:
        with pytest.raises(StartupError) as refused:
            call()
        assert refused.value.code == "SM-START-035"
