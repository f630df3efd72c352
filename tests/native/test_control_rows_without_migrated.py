"""The backfill source stays in a query for good; without `migrated` nobody sees what it sends."""

import pytest
from control_pipeline import ControlPipeline, Strict, StrictAmounts
from pyspark.errors import StreamingQueryException
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, backfill_status, migrated
from statemigrate.errors import StartupError

pytestmark = [pytest.mark.spark, pytest.mark.long]
BASE = {"tally": "base"}


class StrictCents(Strict, CentsTally):
    """Plain code that would fail on any row that is not the user's own."""


class ByName(Strict, AmountsTally):
    """Plain code that declares both families by their names."""

    def init(self, handle):
        self.old = handle.getValueState("tally", CentsTally.ddl)
        self.state = handle.getValueState(f"tally@{AMOUNTS}", self.ddl)


def test_control_rows_are_harmless_and_forgetting_is_refused(spark, tmp_path, scripts):
    pipeline, folder = ControlPipeline(spark, tmp_path / "pipeline"), scripts.write()
    expected = Expected()

    def run(processor, revision, name, keys):
        pipeline.feed(rows := batch(name, keys))
        pipeline.deploy_natively(processor)
        expected.process(rows, revision)

    run(StrictCents(), CENTS, "first", range(20))
    assert backfill(pipeline.checkpoint, migrations=folder, keys_per_chunk=10).keys == 20
    run(StrictCents(), CENTS, "second", range(15, 22))
    status = backfill_status(pipeline.checkpoint, migrations=folder)
    assert (status.consumed, status.waiting, status.keys_left) == (2, 0, 22)
    assert pipeline.all_state() == expected.stored(CENTS)

    assert backfill(pipeline.checkpoint, migrations=folder).keys == 22
    settings = {"migrations": folder, "checkpoint": pipeline.checkpoint}
    run(migrated(StrictAmounts(), **settings), AMOUNTS, "third", range(3))
    expected.drain(AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)

    assert backfill(pipeline.checkpoint, migrations=folder, targets=BASE).keys == 22
    with pytest.raises(StartupError, match="StrictCents is not migrated") as caught:
        pipeline.deploy_natively(StrictCents())
    assert f"Spark would forget tally@{AMOUNTS} with every value in it" in str(caught.value)

    run(ByName(), AMOUNTS, "fourth", range(5))
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output

    assert backfill(pipeline.checkpoint, migrations=folder, targets=BASE).keys == 22
    elsewhere = pipeline.stream().where("cents >= 0")
    with pytest.raises(StreamingQueryException, match="Call with_backfill last"):
        pipeline.deploy_natively(migrated(StrictAmounts(), **settings), elsewhere)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
