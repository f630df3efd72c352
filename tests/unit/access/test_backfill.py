"""The backfill's loop: budget, cursor, losing to newer values, quarantine."""

import pytest
from support.benches import Batch
from support.notes import MIDDLE, NEW, OLD, POISON, note
from support.shorthand import entries, key, short

from statemigrate.budget import Budget, Chunk, run_chunk
from statemigrate.errors import TransformError

PLENTY = Budget(1_000, 60_000.0)


class Clock:
    """Time that passes by a fixed number of milliseconds with every look."""

    def __init__(self, milliseconds):
        self.now = 100.0
        self.step = milliseconds / 1000

    def __call__(self):
        self.now += self.step
        return self.now


class RowClock:
    """Time that passes by a fixed number of milliseconds with every row that was migrated."""

    def __init__(self, counts, milliseconds):
        self.counts = counts
        self.step = milliseconds / 1000

    def __call__(self):
        return 100.0 + self.step * self.counts.backfilled


def opened(bench, families, target=MIDDLE):
    for revision, texts in families.items():
        bench.seed("notes", revision, entries(revision, texts))
    bench.open(Batch(target, {"notes": frozenset(families)}))
    return bench.accesses["notes"]


def run(bench, budget, *, source=0, clock=None, on_error="raise"):
    access = bench.accesses["notes"]
    clocks = {} if clock is None else {"clock": clock}
    return run_chunk(
        access, access.sources[source], bench.ledger, budget, on_error=on_error, **clocks
    )


def contents(bench, revision):
    return {name: short(value) for name, value in bench.contents("notes", revision).items()}


TEN = {number: f"n{number}" for number in range(10)}


def test_a_chunk_takes_no_more_rows_than_its_budget_in_key_order(bench):
    opened(bench, {OLD: TEN, MIDDLE: {}})
    chunk = run(bench, Budget(3, 60_000.0), clock=Clock(0))
    assert chunk == Chunk(3, 0, 0.0, finished=False)
    assert contents(bench, MIDDLE) == {key(n): f"n{n}+1" for n in range(3)}
    assert sorted(contents(bench, OLD)) == [key(n) for n in range(3, 10)]
    assert bench.ledger.cursor("notes") == key(2)


def test_the_next_chunk_goes_on_behind_the_cursor_until_the_end(bench):
    access = opened(bench, {OLD: TEN, MIDDLE: {}})
    chunks = [run(bench, Budget(4, 60_000.0)) for _ in range(3)]
    assert [(chunk.migrated, chunk.finished) for chunk in chunks] == [
        (4, False), (4, False), (2, True),
    ]  # fmt: skip
    assert contents(bench, MIDDLE) == {key(n): f"n{n}+1" for n in range(10)}
    assert access.sources == ()
    assert access.counts.backfilled == 10


def test_the_cursor_is_committed_with_the_chunk(bench):
    opened(bench, {OLD: TEN, MIDDLE: {}})
    run(bench, Budget(4, 60_000.0))
    bench.commit()
    bench.open(bench.batch)
    run(bench, Budget(2, 60_000.0))
    assert bench.ledger.cursor("notes") == key(5)
    bench.crash("abandoned")
    bench.open(bench.batch)
    assert bench.ledger.cursor("notes") == key(3)
    assert sorted(contents(bench, OLD)) == [key(n) for n in range(4, 10)]


def test_time_ends_a_chunk_at_the_row_where_it_is_up(bench):
    access = opened(bench, {OLD: TEN, MIDDLE: {}})
    # One row, then as many as there is time for, then one more since there is time left.
    chunk = run(bench, Budget(1_000, 35.0), clock=RowClock(access.counts, 10))
    assert (chunk.migrated, chunk.finished) == (4, False)
    assert chunk.milliseconds == pytest.approx(40.0)
    assert len(contents(bench, OLD)) == 6


def test_a_chunk_without_time_still_gets_one_row_further(bench):
    opened(bench, {OLD: TEN, MIDDLE: {}})
    assert run(bench, Budget(5, 0.0)).migrated == 1
    assert run(bench, Budget(5, 0.0)).migrated == 1
    assert sorted(contents(bench, MIDDLE)) == [key(0), key(1)]


def test_a_chunk_of_no_rows_does_nothing(bench):
    opened(bench, {OLD: TEN, MIDDLE: {}})
    chunk = run(bench, Budget(0, 60_000.0))
    assert (chunk.migrated, chunk.finished) == (0, False)
    assert bench.ledger.cursor("notes") is None


def test_a_newer_value_wins_over_the_backfill(bench):
    access = opened(bench, {OLD: {1: "old", 2: POISON, 3: "old"}, MIDDLE: {1: "new", 2: "new"}})
    chunk = run(bench, PLENTY)
    assert (chunk.migrated, chunk.quarantined, chunk.finished) == (3, 0, True)
    assert contents(bench, MIDDLE) == {key(1): "new", key(2): "new", key(3): "old+1"}
    assert contents(bench, OLD) == {}
    assert (access.counts.backfilled, access.counts.superseded) == (1, 2)


def test_a_value_in_a_newer_source_wins_over_the_backfill_of_an_older_one(bench):
    access = opened(bench, {OLD: {1: "older"}, MIDDLE: {1: "newer"}, NEW: {}}, NEW)
    run(bench, PLENTY, source=1)
    assert contents(bench, OLD) == {}
    assert contents(bench, NEW) == {}
    run(bench, PLENTY)
    assert contents(bench, NEW) == {key(1): "newer+1"}
    assert access.sources == ()


def test_values_written_live_are_not_chased(bench):
    access = opened(bench, {OLD: TEN, MIDDLE: {}})
    for number in (0, 5):
        access.put(key(number), note(MIDDLE, "live"))
    access.delete(key(6))
    chunk = run(bench, PLENTY)
    assert chunk.migrated == 7
    assert access.counts.superseded == 0
    expected = {key(n): f"n{n}+1" for n in range(10)}
    del expected[key(6)]
    assert contents(bench, MIDDLE) == {**expected, key(0): "live", key(5): "live"}


def test_a_value_that_does_not_migrate_stops_the_chunk_unless_it_may_be_set_aside(bench):
    opened(bench, {OLD: {1: "one", 2: POISON, 3: "three"}, MIDDLE: {}})
    with pytest.raises(TransformError, match=POISON):
        run(bench, PLENTY)
    bench.crash("abandoned")
    bench.open(bench.batch)
    assert sorted(contents(bench, OLD)) == [key(1), key(2), key(3)]


def test_what_is_quarantined_stays_and_the_chunk_goes_on(bench):
    access = opened(bench, {OLD: {1: "one", 2: POISON, 3: "three"}, MIDDLE: {}})
    chunk = run(bench, PLENTY, on_error="quarantine")
    assert (chunk.migrated, chunk.quarantined, chunk.finished) == (2, 1, True)
    assert contents(bench, OLD) == {key(2): POISON}
    assert contents(bench, MIDDLE) == {key(1): "one+1", key(3): "three+1"}
    again = run(bench, PLENTY, on_error="quarantine")
    assert (again.migrated, again.quarantined, again.finished) == (0, 0, True)
    assert len(access.sources) == 1


def test_quarantined_values_count_towards_the_budget(bench):
    opened(bench, {OLD: {1: POISON, 2: POISON, 3: "three"}, MIDDLE: {}})
    chunk = run(bench, Budget(2, 60_000.0), on_error="quarantine")
    assert (chunk.migrated, chunk.quarantined, chunk.finished) == (0, 2, False)


def test_a_fresh_run_tries_the_quarantined_ones_again(bench):
    opened(bench, {OLD: {1: POISON, 2: "two"}, MIDDLE: {}})
    run(bench, PLENTY, on_error="quarantine")
    bench.commit()
    bench.open(Batch(MIDDLE, {"notes": frozenset({OLD})}, first_of_run=True))
    assert bench.ledger.cursor("notes") is None
    assert run(bench, PLENTY, on_error="quarantine").quarantined == 1


def test_a_live_write_takes_a_quarantined_key_out_of_quarantine(bench):
    access = opened(bench, {OLD: {1: POISON, 2: "two"}, MIDDLE: {}})
    run(bench, PLENTY, on_error="quarantine")
    access.put(key(1), note(MIDDLE, "fresh"))
    assert access.sources == ()
    bench.commit()
    if hasattr(bench, "state"):
        assert bench.state.quarantined == {}
        assert bench.state.entries == {
            "lists": 0, "lists@r1": 0, "maps": 0, "maps@r1": 0, "notes": 0, "notes@r1": None,
        }  # fmt: skip
