"""A source that is no file source, operators before and after ours, copies of the checkpoint."""

import shutil

import pytest
from rate_query import SEEN, TALLY, RateQuery, tally_of, updates_of
from support.offset_logs import tree
from tally import AMOUNTS, AmountsTally, Scripts

from statemigrate import backfill, dry_run, migrated, open_state, status, with_backfill
from statemigrate.commands.backfill import backfill_status
from statemigrate.commands.new_script import baseline
from statemigrate.errors import CheckpointError
from statemigrate.native.adoption import adopt
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]


class Ran:
    """The whole change, with a copy of the checkpoint taken while some values are migrated."""

    def __init__(self, spark, root):
        self.spark = spark
        self.scripts = Scripts(root / "migrations").write()
        self.query = RateQuery(spark, root / "checkpoint", self.scripts)
        self.query.run_plain()
        self.query.run_plain()
        self.plain_rows = self.query.rows()
        self.refused = self.refusals()
        adopt(str(self.query.checkpoint), apply=True, wait=0)
        self.query.run_migrated()
        self.half_rows = self.query.rows()
        self.half = root / "half"
        shutil.copytree(self.query.checkpoint, self.half)
        named = {"migrations": self.scripts, "operator": TALLY, "spark": spark}
        self.plan = backfill(self.query.checkpoint, keys_per_chunk=20, **named)
        self.query.run_migrated()
        self.left = backfill_status(self.query.checkpoint, **named)

    def refusals(self):
        """What is said before the query is adopted, by what was asked."""
        checkpoint, stream = self.query.checkpoint, self.query.stream()
        asked = {
            "backfill": lambda: backfill(checkpoint, migrations=self.scripts),
            "with_backfill": lambda: with_backfill(stream, "key", checkpoint=checkpoint),
            "status": lambda: status(checkpoint, migrations=self.scripts),
            "migrated": lambda: migrated(
                AmountsTally(), migrations=self.scripts, checkpoint=checkpoint
            ),
            "wrong": lambda: status(checkpoint, migrations=self.scripts, operator=9),
        }
        return {name: self.refusal(call) for name, call in asked.items()}

    def refusal(self, call):
        with pytest.raises(CheckpointError) as caught:
            call()
        return caught.value

    def read(self, checkpoint, store, operator):
        with open_state(
            checkpoint, migrations=self.scripts, operator=operator, spark=self.spark
        ) as state:
            return {key[0]: value for key, value in state[store].entries()}


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory):
    return Ran(spark, tmp_path_factory.mktemp("rate"))


def test_every_key_equals_a_plain_computation_whether_touched_or_backfilled(ran):
    rows = ran.query.rows()
    assert rows > ran.half_rows > ran.plain_rows
    found = ran.read(ran.query.checkpoint, "tally", TALLY)
    assert found == tally_of(rows, ran.plain_rows)
    assert sum(value["moved"] for value in found.values()) > ran.plan.keys > 0
    assert (ran.left.keys_left, ran.left.is_finished) == (0, True)


def test_the_operator_after_ours_saw_live_rows_alone(ran):
    found = ran.read(ran.query.checkpoint, "seen", SEEN)
    assert {key: value["n"] for key, value in found.items()} == updates_of(ran.query.rows())


def test_before_the_adoption_it_is_said_what_to_do(ran):
    for name in ("backfill", "with_backfill"):
        assert "has run without the backfill source" in str(ran.refused[name])
        assert "--prepare" in ran.refused[name].next_action


def test_where_two_operators_could_be_meant_both_are_named(ran):
    for name in ("status", "migrated"):
        error = ran.refused[name]
        assert "operator 0 (transformWithState" in error.found
        assert "with seen" in error.found
        assert "with tally" in error.found
        assert "--operator 0 or 1" in error.next_action
    assert "operator 9 of" in str(ran.refused["wrong"])


@pytest.fixture(params=["the original gone", "the original altered"])
def copy(ran, request, tmp_path):
    """A copy of the half-migrated checkpoint, whose metadata name another place."""
    original = ran.query.checkpoint
    copied = tmp_path / "copy"
    shutil.copytree(ran.half, copied)
    metadata = list(copied.glob("state/[01]/_metadata/v2/[0-9]*"))
    assert metadata
    assert all(f"{original}/state/" in each.read_text() for each in metadata)
    if request.param == "the original gone":
        original.rename(tmp_path / "gone")
    else:
        shutil.copytree(original, tmp_path / "gone")
        for schema in original.glob("state/*/_stateSchema/*/*"):
            schema.write_text("none of the copy's")
            schema.with_name(f".{schema.name}.crc").unlink(missing_ok=True)
    yield copied
    shutil.rmtree(original, ignore_errors=True)
    (tmp_path / "gone").rename(original)


def test_a_copy_is_read_from_its_own_files_and_never_changed(ran, copy, tmp_path):
    before = tree(copy)
    named = {"migrations": ran.scripts, "operator": TALLY, "spark": ran.spark}
    expected = tally_of(ran.half_rows, ran.plain_rows)
    found = ran.read(copy, "tally", TALLY)
    untouched = ran.plan.keys
    assert found == expected
    (store,) = status(copy, **named).stores
    assert (store.store, store.target, store.left) == ("tally", AMOUNTS, untouched)
    report = dry_run("tally", copy, **named)
    assert (report.families[0].tried, report.failed) == (untouched, False)
    fresh = ScriptFolder.create(tmp_path / "fresh")
    (written,) = baseline(
        copy, migrations=tmp_path / "fresh", store="seen", operator=SEEN, spark=ran.spark
    )
    assert "n BIGINT" in written.path.read_text()
    assert fresh.stores() == ("seen",)
    assert tree(copy) == before


@pytest.mark.parametrize("copy", ["the original gone"], indirect=True)
def test_a_moved_checkpoint_goes_on_where_it_is_once_it_was_adopted(ran, copy):
    moved = RateQuery(ran.spark, copy, ran.scripts)
    with pytest.raises(CheckpointError, match="was moved") as caught:
        moved.run_migrated()
    assert f"statemigrate backfill {copy} --prepare" in caught.value.next_action
    done = adopt(str(copy), apply=True, wait=0)
    assert (done.state, done.moved_from) == ("relocated", (f"file:{ran.query.checkpoint}",))
    backfill(copy, migrations=ran.scripts, operator=TALLY, spark=ran.spark)
    moved.run_migrated()
    assert moved.rows() > ran.half_rows
    assert ran.read(copy, "tally", TALLY) == tally_of(moved.rows(), ran.plain_rows)
    left = backfill_status(copy, migrations=ran.scripts, operator=TALLY, spark=ran.spark)
    assert left.keys_left == 0
