"""Planning a backfill of Spark's own state compares the scripts as the query's start does."""

import pytest
from control_pipeline import ControlPipeline, StrictAmounts
from paged_pipeline import TallyPages
from tally import AMOUNTS, CentsTally, batch

from statemigrate import backfill, migrated
from statemigrate.errors import StartupError
from statemigrate.native.chunks import ChunkFiles

pytestmark = pytest.mark.spark


@pytest.mark.long
@pytest.mark.parametrize("kind", [ControlPipeline, TallyPages])
def test_an_edited_script_is_refused_before_anything_is_planned(spark, tmp_path, scripts, kind):
    pipeline, folder = kind(spark, tmp_path / "pipeline"), scripts.write()
    is_paged = kind is TallyPages
    pipeline.pages = 16
    pipeline.feed(batch("first", range(20)))
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(batch("second", range(5)))
    place = {} if is_paged else {"checkpoint": pipeline.checkpoint}
    pipeline.deploy_natively(migrated(StrictAmounts(), migrations=folder, **place))
    left = len(pipeline.all_state()["tally"])
    assert 0 < left <= 15
    for script in (folder / "versions").glob("*.py"):
        script.write_text(f"{script.read_text()}\nEDITED = True\n")
    with pytest.raises(StartupError, match="was edited after it was applied"):
        backfill(pipeline.checkpoint, migrations=folder)
    assert not ChunkFiles(pipeline.checkpoint).written()
    asked = []

    def session():
        asked.append(spark)
        return spark

    plan = backfill(pipeline.checkpoint, migrations=folder, accept_edited=[AMOUNTS], spark=session)
    assert (plan.keys, len(asked)) == (left, 1)
