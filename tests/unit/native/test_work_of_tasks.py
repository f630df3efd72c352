"""How long tasks are busy with a backfill's keys beside live ones, as they time and tell it."""

import pytest

from statemigrate.native.deployed_variables import Stopwatch, Work, _ByBatch


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_each_moment_counts_for_the_visit_that_ends_next():
    clock = Clock()
    stopwatch = Stopwatch(clock)
    for passed, asked in ((0.010, False), (0.030, True), (0.040, False), (0.020, True)):
        stopwatch.begin()
        clock.now += passed
        stopwatch.end(asked=asked)
    assert stopwatch.work.asked == pytest.approx(50.0)
    assert stopwatch.work.spans == (pytest.approx((100_000.0, 100_100.0)),)


def test_what_lies_between_two_visits_is_of_the_later_one_and_what_was_before_the_first_of_none():
    clock = Clock()
    stopwatch = Stopwatch(clock)
    clock.now += 5.0
    stopwatch.begin()
    stopwatch.end(asked=False)
    clock.now += 0.5
    stopwatch.begin()
    clock.now += 0.25
    stopwatch.end(asked=True)
    assert stopwatch.work == Work(750.0, ((105_000.0, 105_750.0),))


def test_the_first_visit_of_a_task_which_live_rows_would_have_too_is_not_the_backfills():
    clock = Clock()
    stopwatch = Stopwatch(clock)
    for passed in (0.5, 0.25):
        stopwatch.begin()
        clock.now += passed
        stopwatch.end(asked=True)
    assert stopwatch.work == Work(250.0, ((100_000.0, 100_750.0),))


def test_a_task_without_a_visit_tells_nothing():
    assert Stopwatch().work is None


def test_a_batch_is_what_its_tasks_are_together():
    adding = _ByBatch()
    told = adding.zero({("query", "7"): Work(1, ((1, 1),))})
    assert told == {}
    for work in (Work(10, ((1_000, 1_040),)), Work(20, ((1_010, 1_090),))):
        told = adding.addInPlace(told, {("query", "7"): work})
    told = adding.addInPlace(told, {("query", "8"): Work(0, ((2_000, 2_005),))})
    assert told == {
        ("query", "7"): Work(30, ((1_000, 1_040), (1_010, 1_090))),
        ("query", "8"): Work(0, ((2_000, 2_005),)),
    }


ONE_AFTER_THE_OTHER = ((0, 100), (100, 200), (200, 300))
TWO_AND_ONE = ((0, 100), (10, 110), (110, 200))
SIDE_BY_SIDE = ((0, 100), (10, 110), (20, 110))


@pytest.mark.parametrize(
    ("spans", "asked"), [(ONE_AFTER_THE_OTHER, 60), (TWO_AND_ONE, 40), (SIDE_BY_SIDE, 20)]
)
def test_by_the_clock_tasks_that_run_side_by_side_take_as_long_as_one(spans, asked):
    assert Work(60, spans).asked_by_clock == pytest.approx(asked)


def test_only_the_last_batches_are_kept():
    adding = _ByBatch()
    told = adding.zero({})
    for number in range(200):
        told = adding.addInPlace(told, {("query", str(number)): Work(0, ((0, 1),))})
    assert list(told) == [("query", str(number)) for number in range(184, 200)]
