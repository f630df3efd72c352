"""A query on Spark's own state is adopted, migrated and looked at on a remote file system."""

from dataclasses import dataclass

import pytest
from native_pipeline import NativePipeline
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, Scripts, batch

from statemigrate import (
    backfill,
    backfill_status,
    dry_run,
    export,
    get,
    migrated,
    status,
    with_backfill,
)
from statemigrate.commands.adopt import adopt
from statemigrate.commands.backfill import retire
from statemigrate.files.open import open_files

pytestmark = pytest.mark.integration


@dataclass
class Remote(NativePipeline):
    """Its input is local, its checkpoint ``place``."""

    place: str = ""

    @property
    def checkpoint(self):
        return self.place


@dataclass
class RemoteControl(Remote):
    """With the backfill source."""

    def stream(self):
        return with_backfill(super().stream(), self.by, checkpoint=self.place)


def test_an_existing_query_is_adopted_migrated_and_drained(spark, remote, tmp_path):
    folder = Scripts(tmp_path / "migrations").write()
    place, expected = f"{remote}/checkpoint", Expected()
    plain = Remote(spark, tmp_path / "pipeline", place=place)
    fed(plain, expected, "first", range(40), CENTS)
    plain.deploy_natively(CentsTally())
    expected_values = expected.stored(CENTS)
    assert plain.all_state() == expected_values

    assert dry_run("tally", place, migrations=folder).passed == 40
    assert adopt(place).state == "would prepare"
    done = adopt(place, apply=True, wait=0.1)
    assert (done.state, done.sources) == ("prepared", 1)
    assert open_files(place).get(done.files[-1].path).endswith(b"\n-")

    plan = backfill(place, migrations=folder, keys_per_chunk=15)
    assert (plan.keys, plan.chunks) == (40, 3)
    control = RemoteControl(spark, tmp_path / "pipeline", place=place)
    fed(control, expected, "second", range(30, 45), AMOUNTS)
    processor = migrated(AmountsTally(), migrations=folder, checkpoint=place)
    control.deploy_natively(processor)
    expected.drain(AMOUNTS)
    assert control.all_state() == expected.stored(CENTS, AMOUNTS)

    assert backfill_status(place, migrations=folder).keys_left == 0
    assert status(place, migrations=folder).left == 0
    assert (
        get("tally", place, "k3", migrations=folder)
        == expected.stored(AMOUNTS)[f"tally@{AMOUNTS}"]["k3"]
    )
    assert export("tally", place, tmp_path / "out.jsonl", migrations=folder).keys == 45
    assert retire(place, migrations=folder)


def fed(pipeline, expected, name, keys, target):
    rows = batch(name, keys)
    pipeline.feed(rows)
    expected.process(rows, target)
