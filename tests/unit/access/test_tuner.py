"""The backfill's tuner, as the pure functions it is."""

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from statemigrate.budget import BackfillOptions, Budget, Chunk, Tuner

OPTIONS = BackfillOptions(
    share=0.25, idle_milliseconds=1000.0, minimum_milliseconds=20.0, initial_rows=100,
    maximum_rows=10_000,
)  # fmt: skip
START = Tuner.start(OPTIONS)


def cut(migrated, milliseconds):
    """A chunk that its budget ended."""
    return Chunk(migrated, 0, milliseconds, finished=False)


@pytest.mark.parametrize(
    ("live", "milliseconds"), [(300.0, 100.0), (3000.0, 1000.0), (6.0, 20.0), (0.0, 1000.0)]
)
def test_the_time_is_the_wanted_share_of_the_whole_batch(live, milliseconds):
    assert START.budget(live) == Budget(100, milliseconds)


def test_the_rows_follow_the_rate_that_was_reached():
    tuner = START.observe(cut(100, 200.0), 300.0)
    assert tuner.rows_per_millisecond == 0.5
    assert tuner.rows == 50


def test_the_rate_is_smoothed():
    tuner = START.observe(cut(100, 100.0), 300.0).observe(cut(100, 50.0), 300.0)
    assert tuner.rows_per_millisecond == pytest.approx(0.4 * 2.0 + 0.6 * 1.0)
    assert tuner.rows == 140


def test_the_rows_at_most_double_in_one_step():
    assert START.observe(cut(100, 1.0), 3000.0).rows == 200


def test_the_rows_stay_within_their_bounds():
    fast = replace(START, rows=9_000).observe(cut(9_000, 1.0), 3000.0)
    slow = START.observe(cut(1, 100_000.0), 3.0)
    assert (fast.rows, slow.rows) == (10_000, 1)


@pytest.mark.parametrize(
    "chunk", [Chunk(), Chunk(50, 0, 10.0, finished=True), Chunk(0, 5, 10.0), Chunk(5, 0, 0.0)]
)
def test_a_chunk_that_says_nothing_of_the_rate_changes_nothing(chunk):
    assert START.observe(chunk, 100.0) == START


@given(
    rate=st.floats(0.01, 50.0),
    live=st.floats(50.0, 5_000.0),
    initial=st.integers(1, 10_000),
)
def test_at_a_steady_rate_the_chunk_takes_its_share_before_long(rate, live, initial):
    tuner = Tuner.start(replace(OPTIONS, initial_rows=initial, maximum_rows=1_000_000))
    wanted = tuner.budget(live).milliseconds
    for _ in range(25):
        budget = tuner.budget(live)
        taken = min(float(budget.rows), max(1.0, rate * budget.milliseconds))
        tuner = tuner.observe(cut(max(1, int(taken)), max(1, int(taken)) / rate), live)
    assert tuner.rows == pytest.approx(rate * wanted, rel=0.01, abs=1.0)
