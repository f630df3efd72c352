"""A batch that runs again gives what it gave, whatever is on the local disk."""

import shutil
from collections import Counter

import pytest
from pipelines import Pipeline
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import BackfillOptions, migrated
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.versions import retained_versions

pytestmark = pytest.mark.spark

BATCHES = [batch("one", range(20), 2), batch("two", range(10, 30)), batch("three", range(15, 35))]


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("working", ["kept", "lost", "of an older version"])
def test_a_batch_whose_sink_failed_runs_again_with_the_same_result(pipeline, tmp_path, working):
    expected = Expected()
    for rows in BATCHES:
        expected.process(rows, CENTS)
    pipeline.feed(BATCHES[0])
    pipeline.deploy(CentsTally())
    shutil.copytree(pipeline.working, tmp_path / "older")
    pipeline.feed(*BATCHES[1:])
    pipeline.fail_on = {2}
    with pytest.raises(RuntimeError, match="refuses batch 2 once"):
        pipeline.deploy(CentsTally())
    if working != "kept":
        pipeline.lose_working_copy()
    if working == "of an older version":
        shutil.copytree(tmp_path / "older", pipeline.working)

    pipeline.deploy(CentsTally())
    assert [number for number, _ in pipeline.handed] == [0, 1, 2, 2]
    first, second = (Counter(rows) for _, rows in pipeline.handed[2:])
    assert first == second
    assert pipeline.stored() == expected.stored(CENTS)
    assert pipeline.handed_rows == expected.output


def test_the_very_first_batch_runs_again_from_nothing(pipeline):
    expected = Expected()
    expected.process(BATCHES[0], CENTS)
    pipeline.feed(BATCHES[0])
    pipeline.fail_on = {0}
    with pytest.raises(RuntimeError, match="refuses batch 0 once"):
        pipeline.deploy(CentsTally())
    pipeline.deploy(CentsTally())
    assert pipeline.stored() == expected.stored(CENTS)


@pytest.mark.long
@pytest.mark.parametrize("code_of_the_second_run", ["the same", "the older"])
def test_a_migrating_batch_runs_again(pipeline, scripts, code_of_the_second_run):
    expected = Expected()
    pipeline.feed(BATCHES[0])
    expected.process(BATCHES[0], CENTS)
    pipeline.deploy(CentsTally())
    pipeline.feed(BATCHES[1])
    pipeline.fail_on = {1}
    code = migrated(AmountsTally(), migrations=scripts.write())
    with pytest.raises(RuntimeError, match="refuses batch 1 once"):
        pipeline.deploy(code)

    if code_of_the_second_run == "the older":
        # Nothing of the new revision was committed: the old code needs no scripts even.
        pipeline.deploy(CentsTally())
        expected.process(BATCHES[1], CENTS)
        assert pipeline.stored() == expected.stored(CENTS)
    else:
        pipeline.deploy(code)
        expected.process(BATCHES[1], AMOUNTS)
        expected.drain(AMOUNTS)
        assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output


@pytest.mark.long(weight=1 / 3)
def test_an_abandoned_newer_working_copy_is_not_believed(pipeline, tmp_path):
    expected = Expected()
    pipeline.feed(BATCHES[0])
    pipeline.deploy(CentsTally())
    shutil.copytree(pipeline.checkpoint, tmp_path / "at one")
    pipeline.feed(BATCHES[1])
    pipeline.deploy(CentsTally())
    # The checkpoint goes back; the working copy does not know.
    shutil.rmtree(pipeline.checkpoint)
    shutil.copytree(tmp_path / "at one", pipeline.checkpoint)
    pipeline.deploy(CentsTally())
    for rows in BATCHES[:2]:
        expected.process(rows, CENTS)
    assert pipeline.stored() == expected.stored(CENTS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["moved", "to [here] {100%} 50%25"])
def test_a_checkpoint_goes_on_at_another_path(spark, pipeline, tmp_path, scripts, name):
    expected = Expected()
    pipeline.feed(BATCHES[0])
    expected.process(BATCHES[0], CENTS)
    pipeline.deploy(CentsTally())
    pipeline.feed(BATCHES[1])
    pipeline.fail_on = {1}
    code = migrated(AmountsTally(), migrations=scripts.write())
    with pytest.raises(RuntimeError, match="refuses batch 1 once"):
        pipeline.deploy(code)

    # A batch is under way that names a heartbeat file of the old place.
    elsewhere = tmp_path / name / "checkpoint"
    moved = Pipeline(spark, pipeline.root, checkpoint_directory=elsewhere)
    shutil.move(pipeline.checkpoint, elsewhere)
    moved.deploy(code, backfill=BackfillOptions(initial_rows=3, maximum_rows=3))
    expected.process(BATCHES[1], AMOUNTS)
    expected.drain(AMOUNTS)
    assert moved.stored() == expected.stored(AMOUNTS)
    assert (pipeline.handed_rows | moved.handed_rows) == expected.output


@pytest.mark.long
def test_snapshots_and_retention_leave_enough_to_restore(pipeline):
    expected = Expected()
    rows = [batch(f"b{n}", range(n, n + 6)) for n in range(7)]
    pipeline.feed(*rows)
    pipeline.deploy(CentsTally(), snapshot_every=2, retain=2)
    for each in rows:
        expected.process(each, CENTS)
    assert pipeline.stored() == expected.stored(CENTS)
    assert retained_versions(Layout.of(pipeline.checkpoint)) == [5, 6]
    pipeline.lose_working_copy()
    pipeline.feed(batch("last", range(13)))
    pipeline.deploy(CentsTally(), snapshot_every=2, retain=2)
    expected.process(batch("last", range(13)), CENTS)
    assert pipeline.stored() == expected.stored(CENTS)
    assert pipeline.handed_rows == expected.output
