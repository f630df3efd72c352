"""Two operators on pages in one query: each has a name, a record and a backfill source."""

import pytest
from pyspark.errors import StreamingQueryException
from two_paged import Counts, Model, NewCounts, NewTally, Tally, TwoPaged, write_scripts

from statemigrate import StartupError, backfill, backfill_status, get, migrated, status
from statemigrate.errors import CheckpointError

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS = 20


def rows(numbers, names=1):
    return [(f"k{number}", 3 * number + 7, f"n{number % names}") for number in numbers]


def begun(spark, root, model, code=(Tally, Counts), **parts):
    query = TwoPaged(spark, root, **parts)
    query.feed(model.add(rows(range(KEYS), 7)))
    query.deploy_natively(tuple(each() for each in code))
    return query


def test_two_begin_start_again_and_are_migrated_one_after_the_other(spark, scripts, tmp_path):
    model, folder = Model(), write_scripts(scripts)
    query = begun(spark, tmp_path / "two", model)
    assert query.values("tally", None, "tallies") == model.old_tallies()
    assert query.values("counts", None, "counts") == model.old_counts()
    query.feed(model.add(rows([1, 2], 7)))
    query.deploy_natively((Tally(), Counts()))
    assert query.values("tally", None, "tallies") == model.old_tallies()
    assert query.values("counts", None, "counts") == model.old_counts()
    # One of them is migrated, the other goes on as it was.
    query.feed(model.add(rows([3], 7)))
    query.deploy_natively((migrated(NewTally(), migrations=folder), Counts()))
    named = {"migrations": folder, "operator": "tallies"}
    left = backfill_status(query.checkpoint, **named).keys_left
    assert 0 < left < KEYS
    assert backfill(query.checkpoint, keys_per_chunk=1, **named).keys == left
    assert list(
        (query.checkpoint / "statemigrate/control/operator-tallies/chunks").rglob("*.parquet")
    )
    assert not (query.checkpoint / "statemigrate/control/operator-counts/plan.json").exists()
    query.deploy_natively((migrated(NewTally(), migrations=folder), Counts()))
    (store,) = status(query.checkpoint, **named).stores
    assert (store.store, store.left, store.in_target) == ("tally", 0, KEYS)
    assert backfill_status(query.checkpoint, **named).is_finished
    assert query.values("tally", folder, "tallies") == model.new_tallies()
    assert query.values("counts", None, "counts") == model.old_counts()
    (store,) = status(query.checkpoint, migrations=folder, operator="counts").stores
    assert (store.store, store.target, store.in_target) == ("counts", "base", 7)
    # The other one follows, and both go on after another start.
    query.feed(model.add(rows([4], 7)))
    both = migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder)
    query.deploy_natively(both)
    backfill(query.checkpoint, keys_per_chunk=1, migrations=folder, operator="counts")
    query.feed(model.add(rows([5, 30], 7)))
    query.deploy_natively(
        (migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder))
    )
    assert backfill_status(query.checkpoint, migrations=folder, operator="counts").keys_left == 0
    assert query.values("counts", folder, "counts") == model.new_counts()
    assert query.values("tally", folder, "tallies") == model.new_tallies(
        lambda key: 0 if key == "k30" else 1
    )


def test_names_that_differ_at_a_later_start_are_refused_and_nothing_changes(spark, tmp_path):
    model = Model()
    query = begun(spark, tmp_path / "named", model)
    query.feed(model.add(rows([1, 2], 7)))
    other = TwoPaged(spark, query.root, names=("tallies", "others"))
    with pytest.raises(StartupError, match="no operator on pages named others") as caught:
        other.deploy_natively((Tally(), Counts()))
    assert caught.value.data["operators"] == ["counts", "tallies"]
    assert "operator='counts' or operator='tallies'" in str(caught.value)
    without = TwoPaged(spark, query.root, names=(None, "counts"))
    with pytest.raises(StartupError, match="no operator on pages without a name"):
        without.deploy_natively((Tally(), Counts()))
    assert not (query.checkpoint / "offsets" / "1").exists()
    query.deploy_natively((Tally(), Counts()))
    assert query.values("tally", None, "tallies") == model.old_tallies()
    assert query.values("counts", None, "counts") == model.old_counts()


ENCODING = "spark.sql.streaming.stateStore.encodingFormat"


@pytest.fixture
def encodings(spark):
    """Sets how Spark's state is encoded, for one test."""
    yield lambda name: spark.conf.set(ENCODING, name)
    spark.conf.unset(ENCODING)


@pytest.mark.parametrize("encoding", ["unsaferow", "avro"])
def test_names_that_are_exchanged_are_refused_before_a_batch(spark, tmp_path, encodings, encoding):
    """Both operators are alike: nothing but the type of a variable tells one from the other."""
    encodings(encoding)
    model, alike = Model(), {"groups": ("key", "key"), "numbers": (4, 4)}
    query = begun(
        spark, tmp_path / "alike", model, names=("one", "two"), code=(Tally, Tally), **alike
    )
    query.feed(model.add(rows([1, 40])))
    exchanged = TwoPaged(spark, query.root, names=("two", "one"), **alike)
    with pytest.raises(StreamingQueryException) as caught:
        exchanged.deploy_natively((Tally(), Tally()))
    assert "operator_one" in str(caught.value)
    assert "operator_two" in str(caught.value)
    assert not (query.checkpoint / "commits" / "1").exists()
    query.deploy_natively((Tally(), Tally()))
    for name in ("one", "two"):
        assert query.values("tally", None, name) == model.old_tallies()


def test_a_second_of_one_name_is_refused_before_a_batch(spark, tmp_path):
    for number, names in enumerate([(None, None), ("one", "one")]):
        query = TwoPaged(spark, tmp_path / str(number), names=names)
        query.feed(rows(range(2)))
        with pytest.raises(StreamingQueryException, match="has begun with the check") as caught:
            query.deploy_natively((Tally(), Counts()))
        assert "operator='...'" in str(caught.value)
        assert not list((query.checkpoint / "commits").glob("[0-9]*"))


def test_both_are_backfilled_at_once_and_verbs_ask_which_is_meant(spark, scripts, tmp_path):
    """One of the two has no name."""
    model, folder = Model(), write_scripts(scripts)
    query = begun(spark, tmp_path / "both", model, names=(None, "counts"))

    def deploy():
        query.deploy_natively(
            (migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder))
        )

    for ask in (status, backfill, backfill_status):
        with pytest.raises(CheckpointError, match="could be meant") as caught:
            ask(query.checkpoint, migrations=folder)
        assert caught.value.data["operators"] == [0, 1]
        assert "counts" in str(caught.value)
    with pytest.raises(CheckpointError, match="others"):
        status(query.checkpoint, migrations=folder, operator="others")
    assert get("counts", query.checkpoint, "n3", migrations=None, operator="counts") == {"n": 3}
    query.feed(model.add(rows([1], 7)))
    deploy()
    for operator in ("counts", ""):
        assert backfill(
            query.checkpoint, keys_per_chunk=1, migrations=folder, operator=operator
        ).pages
    deploy()
    for operator in ("counts", ""):
        found = backfill_status(query.checkpoint, migrations=folder, operator=operator)
        assert (found.keys_left, found.waiting) == (0, 0)
        assert found.consumed == found.chunks > 0
    assert query.values("tally", folder, "") == model.new_tallies()
    assert query.values("counts", folder, "counts") == model.new_counts()
