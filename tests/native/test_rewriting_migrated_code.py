"""A rewrite does not run scripts on variables that `migrated` code reads under other names."""

import pytest
from native_pipeline import NativePipeline
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

import statemigrate
from statemigrate import migrated
from statemigrate.errors import RewriteError

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_script_of_a_variable_that_migrates_live_is_no_part_of_a_rewrite(
    pipeline, scripts, tmp_path
):
    folder, expected = scripts.write(), Expected()
    old, new = pipeline.checkpoint, tmp_path / "other" / pipeline.checkpoint.name
    for rows in (batch("first", range(5)), batch("second", range(3, 8))):
        pipeline.feed(rows)
        before = migrated(
            CentsTally(), migrations=folder, targets={"tally": "base"}, checkpoint=old
        )
        pipeline.deploy_natively(before)
        expected.process(rows, CENTS)

    with pytest.raises(RewriteError) as refusal:
        statemigrate.rewrite(old, new, migrations=folder, spark=pipeline.spark, apply=True)
    assert refusal.value.code == "SM-REWRITE-062"
    assert not new.exists()

    # Both ways that the message names lead on.
    statemigrate.rewrite(
        old,
        new,
        migrations=folder,
        targets={"tally": "base"},
        spark=pipeline.spark,
        apply=True,
    )
    rows = batch("third", range(8))
    pipeline = NativePipeline(pipeline.spark, tmp_path / "other")
    pipeline.feed(rows)
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder, checkpoint=new))
    expected.process(rows, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
