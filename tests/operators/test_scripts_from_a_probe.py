"""`new --from-checkpoint OLD --like PROBE`: what takes an operator's state to that of new code."""

import pytest
from queries import ORDERS

from statemigrate import autogenerate_like, baseline, dry_run
from statemigrate.errors import CheckpointError, LineageError, ScriptError
from statemigrate.formats import Struct
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 6)]


@pytest.fixture
def folder(tmp_path):
    return ScriptFolder.create(tmp_path / "m")


@pytest.mark.long(weight=1 / 3)
def test_columns_go_by_name_and_what_is_not_told_is_asked(checkpoint_of, folder):
    old, probe = checkpoint_of("aggregation"), checkpoint_of("wider")
    (written,) = autogenerate_like(old, probe, "by amount", migrations=folder.directory)
    (migration,) = folder.lineage("aggregation-0").migrations
    assert migration.old == Struct(
        "count BIGINT, sum BIGINT, sum_2 DOUBLE, count_2 BIGINT, max BIGINT"
    )
    assert migration.new_key == Struct("customer STRING, amount BIGINT")
    value = {"count": 2, "sum": 5, "sum_2": 5.0, "count_2": 2, "max": 9}
    assert migration.upgrade(dict(value)) == {**value, "min": None}
    assert migration.rekey({"customer": "c"}, value) == {"customer": "c", "amount": None}
    asked = [question.text for question in written.questions]
    assert any("min" in each for each in asked)
    assert any("what is the `amount` (long) of an old key?" in each for each in asked)
    assert (migration.downgrade, migration.merge) == (None, None)


def test_lenses_say_what_differs_where_keys_stay(checkpoint_of, folder):
    old, probe = checkpoint_of("aggregation"), checkpoint_of("with more")
    (written,) = autogenerate_like(old, probe, "the least", migrations=folder.directory)
    (migration,) = folder.lineage("aggregation-0").migrations
    assert written.is_declared
    assert [question.text for question in written.questions] != []
    assert migration.change.words == ("adds min",)
    value = {"count": 2, "sum": 5, "sum_2": 5.0, "count_2": 2, "max": 9}
    assert migration.upgrade(dict(value)) == {**value, "min": None}
    assert migration.downgrade({**value, "min": "north"}) == value


def test_functions_are_written_where_they_are_asked_for(checkpoint_of, folder):
    old, probe = checkpoint_of("aggregation"), checkpoint_of("with more")
    how = {"lens": False, "migrations": folder.directory}
    (written,) = autogenerate_like(old, probe, "the least", **how)
    assert not written.is_declared
    assert folder.lineage("aggregation-0").migrations[0].change is None


@pytest.mark.long(weight=1 / 3)
def test_keys_that_may_meet_need_a_merge(checkpoint_of, folder, spark):
    old, probe = checkpoint_of("duplicates"), checkpoint_of("fewer")
    (written,) = autogenerate_like(old, probe, "by customer", migrations=folder.directory)
    assert written.questions == ()
    report = dry_run("deduplicate-0", old, migrations=folder.directory, spark=spark)
    assert report.in_order
    assert report.meetings.keys == len({each["customer"] for each in ORDERS})


def test_what_two_values_make_stays_open_until_it_is_written(checkpoint_of, folder):
    old, probe = checkpoint_of("wider"), checkpoint_of("aggregation")
    (written,) = autogenerate_like(
        old, probe, "by customer", store="aggregation-0", migrations=folder.directory
    )
    assert "what do two values make" in written.questions[-1].text
    with pytest.raises(ScriptError, match="`merge` is not written yet"):
        folder.lineage("aggregation-0")


def test_a_script_follows_what_is_there_and_nothing_is_written_for_the_same(checkpoint_of, folder):
    old, probe = checkpoint_of("aggregation"), checkpoint_of("wider")
    baseline(old, migrations=folder.directory)
    assert autogenerate_like(old, old, "nothing", migrations=folder.directory) == ()
    autogenerate_like(old, probe, "by amount", migrations=folder.directory)
    assert len(folder.lineage("aggregation-0").migrations) == 2
    with pytest.raises(LineageError, match="leads to another format than the checkpoint holds"):
        autogenerate_like(old, probe, "again", migrations=folder.directory)


def test_a_store_must_be_in_both(checkpoint_of, folder):
    old, probe = checkpoint_of("aggregation"), checkpoint_of("fewer")
    with pytest.raises(CheckpointError, match="has no operator whose state is aggregation-0"):
        autogenerate_like(old, probe, "x", store="aggregation-0", migrations=folder.directory)
