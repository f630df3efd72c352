"""A second deployment on the checkpoint of the first, compared with a plain computation."""

import pytest
from pipelines import no_backfill
from tally import (
    AMOUNTS,
    CENTS,
    FAMILIES,
    NESTED,
    NESTED_SCRIPT,
    AmountsReader,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    batch,
)

from statemigrate import BackfillOptions, migrated

pytestmark = pytest.mark.spark

FIRST = batch("first", range(40), 2)
SECOND = batch("second", range(0, 50, 3))


@pytest.fixture
def expected(pipeline) -> Expected:
    """The state after a first deployment of the old code."""
    made = Expected()
    pipeline.feed(FIRST)
    made.process(FIRST, CENTS)
    pipeline.deploy(CentsTally())
    assert pipeline.stored() == made.stored(CENTS)
    assert pipeline.handed_rows == made.output
    return made


@pytest.mark.long(weight=1 / 3)
def test_without_a_backfill_only_touched_keys_are_migrated(pipeline, scripts, expected):
    pipeline.feed(SECOND)
    expected.process(SECOND, AMOUNTS)
    code = migrated(AmountsTally(), migrations=scripts.write())
    (last,) = pipeline.deploy(code, backfill=no_backfill())[-1:]
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output
    assert last.left == len(pipeline.stored()["tally"])


@pytest.mark.long(weight=1 / 2)
def test_an_idle_query_is_drained_without_any_new_input(pipeline, scripts, expected):
    progress = pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output
    assert sum(each.backfilled for each in progress) == 40
    assert sum(each.rows for each in progress) == 0
    assert [each.retired for each in progress if each.retired] == [("tally",)]


def test_lazy_migration_and_backfill_share_the_work(pipeline, scripts, expected):
    more = batch("third", range(35, 60))
    pipeline.feed(SECOND, more)
    small = BackfillOptions(initial_rows=3, maximum_rows=3)
    code = migrated(AmountsTally(), migrations=scripts.write())
    progress = pipeline.deploy(code, backfill=small)
    expected.process(SECOND, AMOUNTS)
    expected.process(more, AMOUNTS)
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output
    assert sum(each.touched + each.backfilled for each in progress) == 40
    assert all(each.backfilled <= 2 * 3 for each in progress)


@pytest.mark.long
def test_a_chain_of_three_revisions_finds_keys_left_behind_in_each(pipeline, scripts, expected):
    pipeline.feed(SECOND)
    code = migrated(AmountsTally(), migrations=scripts.write())
    pipeline.deploy(code, backfill=no_backfill())
    expected.process(SECOND, AMOUNTS)
    third = batch("third", range(0, 60, 2))
    pipeline.feed(third)
    code = migrated(NestedTally(), migrations=scripts.write(nested=NESTED_SCRIPT))
    pipeline.deploy(code, backfill=no_backfill())
    expected.process(third, NESTED)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS, NESTED)
    assert all(pipeline.stored().values()), "there are keys in each family"
    assert pipeline.handed_rows == expected.output

    progress = pipeline.deploy(code)
    expected.drain(NESTED)
    assert pipeline.stored() == expected.stored(NESTED)
    assert {name for each in progress for name in each.retired} == {
        FAMILIES[CENTS],
        FAMILIES[AMOUNTS],
    }


@pytest.mark.long
@pytest.mark.parametrize("backfilled", [False, True])
def test_older_code_takes_migrated_values_back_and_newer_code_forward_again(
    pipeline, scripts, expected, backfilled
):
    options = {} if backfilled else {"backfill": no_backfill()}
    live = (lambda *_: ()) if backfilled else (lambda *revisions: revisions)
    folder = scripts.write()
    forward = migrated(AmountsTally(), migrations=folder)
    back = migrated(CentsTally(), migrations=folder, targets={"tally": "base"})

    for code, target, rows in (
        (forward, AMOUNTS, SECOND),
        (back, CENTS, batch("back", range(0, 60, 2))),
        (forward, AMOUNTS, batch("again", range(0, 60, 5))),
    ):
        pipeline.feed(rows)
        pipeline.deploy(code, **options)
        expected.process(rows, target)
        if backfilled:
            expected.drain(target)
        assert pipeline.stored() == expected.stored(target, *live(CENTS, AMOUNTS))
    assert pipeline.handed_rows == expected.output


@pytest.mark.long(weight=1 / 2)
def test_pure_reads_leave_the_value_where_it_is(pipeline, scripts, expected):
    pipeline.feed(SECOND)
    folder = scripts.write()
    reading = migrated(AmountsReader(), migrations=folder, write_on_read=False)
    (last,) = pipeline.deploy(reading, backfill=no_backfill())[-1:]
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS), "not a single value moved"
    assert last.touched == 0
    seen = {row[0]: row[4] for row in pipeline.handed[-1][1]}
    assert seen == {f"k{n}": 1 if n < 40 else 0 for n in range(0, 50, 3)}, "but in the new format"


@pytest.mark.long(weight=1 / 2)
def test_writes_migrate_where_reads_do_not(pipeline, scripts, expected):
    pipeline.feed(SECOND)
    code = migrated(AmountsTally(), migrations=scripts.write(), write_on_read=False)
    pipeline.deploy(code, backfill=no_backfill())
    expected.process(SECOND, AMOUNTS)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output


@pytest.mark.long(weight=1 / 2)
def test_the_decorator_marks_a_class_as_well(pipeline, scripts, expected):
    @migrated(migrations=scripts.write())
    class Marked(AmountsTally):
        pass

    pipeline.deploy(Marked())
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
