"""Embedded queries with ``availableNow`` or ``once``: what is left when a run has ended."""

from dataclasses import replace

import pytest
from pyspark.errors import AnalysisException
from stored_state import manifest_of
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import BackfillOptions, migrated
from statemigrate.errors import TransformError

pytestmark = pytest.mark.spark

SMALL = BackfillOptions(initial_rows=4, maximum_rows=4)
DRAIN = replace(SMALL, drain=True)
KEYS = 30


@pytest.fixture
def expected(pipeline) -> Expected:
    """State in the oldest format, and the same computed."""
    made = Expected()
    rows = batch("first", range(KEYS))
    pipeline.feed(rows)
    made.process(rows, CENTS)
    run(pipeline, CentsTally())
    return made


def run(pipeline, code, backfill=SMALL, **trigger):
    running = pipeline.query(code, backfill=backfill).start(**(trigger or {"availableNow": True}))
    assert running.awaitTermination(180)
    return running


def left(pipeline) -> int:
    return manifest_of(pipeline.checkpoint).left("tally") or 0


@pytest.mark.long
def test_nightly_runs_migrate_what_they_touch_and_a_chunk_and_with_drain_all(
    pipeline, scripts, expected
):
    code = migrated(AmountsTally(), migrations=scripts.write())
    running = run(pipeline, code)
    assert len(running.progress) == 1, "without input"
    assert left(pipeline) == KEYS - running.progress[0].backfilled > 0
    assert running.drained is None

    live = batch("live", range(5))
    pipeline.feed(live)
    touched = run(pipeline, code, DRAIN)
    expected.process(live, AMOUNTS)
    expected.drain(AMOUNTS)
    assert touched.drained.migrated > 0
    assert touched.drained.left == {"tally": 0}
    assert pipeline.stored() == expected.stored(AMOUNTS), "what is empty is dropped at once"
    assert pipeline.handed_rows == expected.output

    after = run(pipeline, code, DRAIN)
    assert after.drained is None
    assert [each.rows for each in after.progress] == [0], "one batch was asked for before the drain"
    assert run(pipeline, code, DRAIN).progress == [], "nothing runs for nothing"
    more = batch("more", range(3, 9))
    pipeline.feed(more)
    run(pipeline, code, DRAIN)
    expected.process(more, AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output


@pytest.mark.long(weight=1 / 3)
def test_a_value_that_fails_ends_the_run_with_its_error_and_keeps_what_was_committed(
    pipeline, scripts, expected
):
    last = f'value["cents"] == {3 * (KEYS - 1) + 7}'
    refusing = AMOUNTS_SCRIPT.replace(
        "def upgrade(value):",
        f'def upgrade(value):\n    if {last}:\n        raise ArithmeticError("not this one")',
    )
    code = migrated(AmountsTally(), migrations=scripts.write(refusing))
    live = batch("live", range(5))
    pipeline.feed(live)
    quiet = replace(DRAIN, initial_rows=1, maximum_rows=1)
    running = pipeline.query(code, backfill=quiet).start(once=True)
    with pytest.raises(TransformError, match="not this one"):
        running.awaitTermination(180)
    assert isinstance(running.exception(), TransformError)
    stored = pipeline.stored()
    expected.process(live, AMOUNTS)
    for key in stored[f"tally@{AMOUNTS}"]:
        expected.move(key, AMOUNTS)
    assert stored == expected.stored(CENTS, AMOUNTS)

    edited = migrated(AmountsTally(), migrations=scripts.write(), accept_edited=(AMOUNTS,))
    run(pipeline, edited, DRAIN, once=True)
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output


def test_a_continuous_run_is_refused_by_spark_and_leaves_nothing_behind(pipeline, expected):
    with pytest.raises(AnalysisException, match="continuous"):
        pipeline.query(CentsTally()).start(continuous="1 second")
    more = batch("more", range(3))
    pipeline.feed(more)
    run(pipeline, CentsTally())
    expected.process(more, CENTS)
    assert pipeline.stored() == expected.stored(CENTS)
