"""`get`, `export`, `status` and baselines of what Spark's own operators keep, on both providers.

What they show is compared with a computation over the orders that the queries have read.
"""

import json
from collections import defaultdict
from datetime import timedelta

import pytest
from queries import ORDERS, START, run

from statemigrate import backfill, baseline, export, get, open_state, status
from statemigrate.commands.backfill import retire
from statemigrate.errors import CheckpointError, StartupError, UnsupportedError
from statemigrate.formats import Struct
from statemigrate.scripts import ScriptFolder

pytestmark = pytest.mark.spark

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def by(*columns):
    groups = defaultdict(list)
    for each in ORDERS:
        groups[tuple(each[name] for name in columns)].append(each)
    return groups


def exported(store, checkpoint, tmp_path, spark, **how):
    path = tmp_path / "state.jsonl"
    done = export(store, checkpoint, path, spark=spark, **how)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert done.keys == len(records)
    return {tuple(each["key"].values()): each["value"] for each in records}


def sums(orders):
    amounts, number = [each["amount"] for each in orders], len(orders)
    return {
        "count": number,
        "sum": sum(amounts),
        "sum_2": float(sum(amounts)),
        "count_2": number,
        "max": max(each["id"] for each in orders),
    }


def nobody():
    raise AssertionError("the files alone tell it")


def test_an_aggregation_shows_its_buffers(checkpoint_of, spark, tmp_path):
    found = exported("aggregation-0", checkpoint_of("aggregation"), tmp_path, spark)
    assert found == {key: sums(orders) for key, orders in by("customer").items()}
    one = get("aggregation-0", checkpoint_of("aggregation"), "c3", spark=spark)
    assert one == sums(by("customer")[("c3",)])
    assert get("aggregation-0", checkpoint_of("aggregation"), "nobody", spark=spark) is None


@pytest.mark.long(weight=1 / 3)
def test_windows_are_keys_that_can_be_asked_for(checkpoint_of, spark):
    window = {"start": START, "end": START + timedelta(seconds=30)}
    in_window = [each for each in by("region")[("eu",)] if each["at"] < window["end"]]
    checkpoint = checkpoint_of("windows")
    assert get("aggregation-0", checkpoint, window, "eu", spark=spark) == {"count": len(in_window)}


def test_what_drop_duplicates_has_seen_are_keys_without_a_value(checkpoint_of, spark, tmp_path):
    found = exported("deduplicate-0", checkpoint_of("duplicates"), tmp_path, spark)
    assert found == {key: {} for key in by("customer", "region")}


@pytest.mark.long
def test_a_side_of_a_join_is_a_list_of_its_rows(checkpoint_of, spark):
    with open_state(checkpoint_of("join"), migrations=None, spark=spark) as state:
        assert state.stores == ("join-0.left", "join-0.right")
        left = dict(state["join-0.left"].entries())
        right = dict(state["join-0.right"].entries())
    for key, orders in by("customer").items():
        # Each order meets at least the one that it is itself.
        assert sorted(left[key], key=lambda row: row["id"]) == [
            {**each, "matched": True} for each in orders
        ]
        assert sorted(row["seen"] for row in right[key]) == [each["at"] for each in orders]
    assert left.keys() == right.keys() == by("customer").keys()


@pytest.mark.long(weight=1 / 3)
def test_a_join_whose_sides_share_a_store_is_shown_as_one_whose_sides_do_not(spark, tmp_path):
    # Formats from 3 on need RocksDB, which the session has.
    spark.conf.set(JOIN_FORMAT, 3)
    try:
        checkpoint = run(spark, "join", tmp_path)
    finally:
        spark.conf.unset(JOIN_FORMAT)
    found = get("join-0.left", checkpoint, "c3", spark=spark)
    orders = by("customer")[("c3",)]
    assert sorted(found, key=lambda row: row["id"]) == [
        {**each, "matched": True} for each in orders
    ]
    assert len(get("join-0.right", checkpoint, "c3", spark=spark)) == len(orders)


def test_a_function_without_an_envelope_shows_what_it_keeps(checkpoint_of, spark, tmp_path):
    found = exported("groups-0", checkpoint_of("groups"), tmp_path, spark)
    assert found == {
        key: {"groupState": {"n": len(orders), "last": max(each["id"] for each in orders)}}
        for key, orders in by("customer").items()
    }


def test_an_operators_store_may_have_a_name_of_the_projects_own(checkpoint_of, spark):
    checkpoint, names = checkpoint_of("aggregation"), {"orders": "aggregation-0"}
    assert get("orders", checkpoint, "c3", stores=names, spark=spark)["count"] == 14
    with pytest.raises(CheckpointError, match="has no store aggregation-0"):
        get("aggregation-0", checkpoint, "c3", stores=names, spark=spark)


@pytest.mark.parametrize(
    ("query", "value", "key"),
    [
        (
            "aggregation",
            "count BIGINT, sum BIGINT, sum_2 DOUBLE, count_2 BIGINT, max BIGINT",
            "customer STRING",
        ),
        ("duplicates", "struct<>", "customer STRING, region STRING"),
        ("groups", "groupState STRUCT<n: BIGINT, last: BIGINT>", "customer STRING"),
    ],
)
def test_a_baseline_is_written_from_the_files_alone(checkpoint_of, tmp_path, query, value, key):
    folder = ScriptFolder.create(tmp_path / "m")
    (written,) = baseline(checkpoint_of(query), migrations=folder.directory, spark=nobody)
    (migration,) = folder.lineage(written.store).migrations
    assert (migration.new, migration.new_key) == (Struct(value), Struct(key))
    told = written.path.read_text()
    assert ("- sum_2, count_2: avg: sum and count" in told) == (query == "aggregation")


@pytest.mark.long(weight=1 / 3)
def test_both_sides_of_a_join_get_a_baseline(checkpoint_of, tmp_path):
    folder = ScriptFolder.create(tmp_path / "m")
    found = baseline(checkpoint_of("join"), migrations=folder.directory, spark=nobody)
    assert [each.store for each in found] == ["join-0.left", "join-0.right"]
    (migration,) = folder.lineage("join-0.right").migrations
    value = Struct("buyer STRING, seen TIMESTAMP, matched BOOLEAN")
    assert (migration.new, migration.new_key) == (value, None)


def test_status_counts_what_an_operator_keeps(checkpoint_of, spark):
    (store,) = status(checkpoint_of("aggregation"), migrations=None, spark=spark).stores
    assert (store.store, store.in_target, store.left) == ("aggregation-0", 5, 0)


@pytest.mark.long(weight=1 / 2)
def test_scripts_that_do_not_fit_one_store_leave_the_others_alone(checkpoint_of, spark, tmp_path):
    folder = ScriptFolder.create(tmp_path / "m")
    folder.new("join-0.left", "of another query", new=Struct("x INT"), baseline=True)
    state = open_state(checkpoint_of("join"), migrations=folder.directory, spark=spark)
    assert len(list(state["join-0.right"].entries())) == 5
    with pytest.raises(StartupError, match="the format, and the keys, of no revision"):
        state["join-0.left"].get("c3")


def test_no_running_query_migrates_it(checkpoint_of, spark, tmp_path):
    folder = ScriptFolder.create(tmp_path / "m")
    checkpoint = checkpoint_of("aggregation")
    with pytest.raises(UnsupportedError) as raised:
        backfill(checkpoint, migrations=folder.directory, spark=spark)
    assert "stateStoreSave" in raised.value.found
    assert "statemigrate rewrite" in raised.value.next_action
    left = retire(checkpoint, migrations=folder.directory, spark=spark)
    assert (left.dropped, left.kept) == ((), {})
