"""Value state of plain Spark and in pages, migrated in place by a decorator and a script."""

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages, check_families
from tally import (
    AMOUNTS,
    CENTS,
    NESTED,
    NESTED_SCRIPT,
    AmountsReader,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    batch,
)

from statemigrate import migrated

pytestmark = pytest.mark.spark


@pytest.fixture(params=[NativePipeline, pytest.param(TallyPages, marks=pytest.mark.long)])
def pipeline(request, spark, tmp_path):
    """A stream of tally rows with a checkpoint of its own."""
    many = {"pages": 16} if request.param is TallyPages else {}
    return request.param(spark, tmp_path / "pipeline", **many)


def process(pipeline, expected, rows, revision):
    """Let the model take a batch as the pipeline's kind of state does."""
    expected.process(rows, revision)
    if isinstance(pipeline, TallyPages):
        pipeline.moved_along(expected, {int(row[0][1:]) for row in rows}, revision)


def test_touched_values_are_migrated_and_the_others_stay(pipeline, scripts):
    folder = scripts.write()
    expected = Expected()
    first, second = batch("first", range(30)), batch("second", range(20, 40))
    pipeline.feed(first)
    pipeline.deploy_natively(CentsTally())
    process(pipeline, expected, first, CENTS)
    pipeline.feed(second)
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    process(pipeline, expected, second, AMOUNTS)
    check_families(pipeline, expected, CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output


@pytest.mark.long(weight=1 / 3)
def test_a_read_migrates_too(pipeline, scripts):
    folder = scripts.write()
    expected = Expected()
    pipeline.feed(batch("first", range(12)))
    pipeline.deploy_natively(CentsTally())
    process(pipeline, expected, batch("first", range(12)), CENTS)
    pipeline.feed(batch("look", range(0, 12, 2)))
    pipeline.deploy_natively(migrated(AmountsReader(), migrations=folder))
    for number in range(0, 12, 2):
        expected.move(f"k{number}", AMOUNTS)
    if isinstance(pipeline, TallyPages):
        pipeline.moved_along(expected, range(0, 12, 2), AMOUNTS)
    check_families(pipeline, expected, CENTS, AMOUNTS)


@pytest.mark.long(weight=1 / 3)
def test_reads_leave_values_where_they_are_when_told_so(pipeline, scripts):
    folder = scripts.write()
    expected = Expected()
    pipeline.feed(batch("first", range(12)))
    pipeline.deploy_natively(CentsTally())
    process(pipeline, expected, batch("first", range(12)), CENTS)
    pipeline.feed(batch("look", range(12)))
    pipeline.deploy_natively(migrated(AmountsReader(), migrations=folder, write_on_read=False))
    check_families(pipeline, expected, CENTS, AMOUNTS)
    seen = dict(pipeline.handed)[1]
    assert sorted(row[4] for row in seen) == [1] * 12


@pytest.mark.long
def test_keys_left_behind_in_each_of_three_revisions(pipeline, scripts):
    expected = Expected()
    deployments = [
        (CentsTally, CENTS, None, range(30)),
        (AmountsTally, AMOUNTS, None, range(20)),
        (NestedTally, NESTED, NESTED_SCRIPT, range(0, 30, 3)),
        (NestedTally, NESTED, NESTED_SCRIPT, range(5, 35)),
    ]
    for number, (made, revision, nested, keys) in enumerate(deployments):
        folder = scripts.write(nested=nested)
        rows = batch(f"batch {number}", keys)
        pipeline.feed(rows)
        processor = made() if number == 0 else migrated(made(), migrations=folder)
        pipeline.deploy_natively(processor)
        process(pipeline, expected, rows, revision)
    check_families(pipeline, expected, CENTS, AMOUNTS, NESTED)
    assert pipeline.handed_rows == expected.output


@pytest.mark.long
def test_the_older_code_takes_values_back(pipeline, scripts):
    folder = scripts.write(nested=NESTED_SCRIPT)
    expected = Expected()
    deployments = [
        (CentsTally, CENTS, range(30)),
        (NestedTally, NESTED, range(20)),
        (AmountsTally, AMOUNTS, range(10)),
        (CentsTally, CENTS, range(5, 25)),
    ]
    for number, (made, revision, keys) in enumerate(deployments):
        rows = batch(f"batch {number}", keys)
        pipeline.feed(rows)
        targets = {"tally": revision}
        pipeline.deploy_natively(migrated(made(), migrations=folder, targets=targets))
        process(pipeline, expected, rows, revision)
    check_families(pipeline, expected, CENTS, AMOUNTS, NESTED)
    assert pipeline.handed_rows == expected.output


@pytest.mark.long(weight=1 / 3)
def test_a_decorated_class_is_enough(pipeline, scripts):
    folder = scripts.write()
    pipeline.feed(batch("first", range(9)))
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(batch("second", range(4)))

    @migrated(migrations=folder)
    class Decorated(AmountsTally):
        pass

    pipeline.deploy_natively(Decorated())
    expected = Expected()
    process(pipeline, expected, batch("first", range(9)), CENTS)
    process(pipeline, expected, batch("second", range(4)), AMOUNTS)
    check_families(pipeline, expected, CENTS, AMOUNTS)
