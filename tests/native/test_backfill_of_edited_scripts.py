"""Planning a backfill of Spark's own state compares the scripts as the query's start does."""

import pytest
from control_pipeline import ControlPipeline, StrictAmounts
from tally import AMOUNTS, CentsTally, batch

from statemigrate import backfill, migrated
from statemigrate.errors import StartupError

pytestmark = pytest.mark.spark


def test_an_edited_script_is_refused_before_anything_is_planned(spark, tmp_path, scripts):
    pipeline, folder = ControlPipeline(spark, tmp_path / "pipeline"), scripts.write()
    pipeline.feed(batch("first", range(20)))
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(batch("second", range(5)))
    pipeline.deploy_natively(
        migrated(StrictAmounts(), migrations=folder, checkpoint=pipeline.checkpoint)
    )
    for script in (folder / "versions").glob("*.py"):
        script.write_text(f"{script.read_text()}\n# Edited after it was applied.\n")
    with pytest.raises(StartupError, match="was edited after it was applied"):
        backfill(pipeline.checkpoint, migrations=folder)
    assert pipeline.chunks() == []
    asked = []

    def session():
        asked.append(spark)
        return spark

    plan = backfill(pipeline.checkpoint, migrations=folder, accept_edited=[AMOUNTS], spark=session)
    assert (plan.keys, len(asked)) == (15, 1)
