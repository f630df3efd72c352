"""The form of a script that is run on Arrow tables."""

import pyarrow as pa
import pytest
from chains import migration

from statemigrate.errors import TransformError
from statemigrate.formats import Struct
from statemigrate.migration import Lineage, stages_of

OLD, NEW = Struct("n BIGINT"), Struct("n BIGINT, twice BIGINT")
SHOP = Struct("shop STRING")
ENTRIES = pa.table(
    {
        "key": pa.array([{"shop": "a"}, {"shop": "b"}]),
        "value": pa.array([{"n": 1}, {"n": 2}]),
    }
)


def with_twice(table):
    twice = [{"n": each["n"], "twice": each["n"] * 2} for each in table["value"].to_pylist()]
    return pa.table({"key": table["key"], "value": pa.array(twice)})


def orders(revision, down, **parts):
    return migration(revision, down, **{"store": "orders", "old": OLD, "new": NEW, **parts})


def stages(*migrations, **how):
    chain = Lineage.build("orders", migrations)
    return stages_of(chain.path(chain.oldest, chain.head), **how)


def test_a_table_is_taken_through_the_script_as_a_whole():
    (stage,) = stages(orders("a1", None, upgrade_table=with_twice))
    assert stage.on_tables
    found = stage.table(ENTRIES)
    assert found["key"].to_pylist() == [{"shop": "a"}, {"shop": "b"}]
    assert found["value"].to_pylist() == [{"n": 1, "twice": 2}, {"n": 2, "twice": 4}]


def test_scripts_of_two_forms_are_stages_of_their_own():
    first = orders("a1", None, upgrade_table=with_twice)
    second = orders("b2", "a1", old=NEW, new=OLD, upgrade=lambda value: {"n": value["twice"]})
    assert [stage.on_tables for stage in stages(first, second)] == [True, False]


def test_of_a_script_with_both_forms_either_can_be_had():
    both = orders("a1", None, upgrade_table=with_twice, upgrade=lambda v: {**v, "twice": 0})
    assert [stage.on_tables for stage in stages(both)] == [True]
    assert [stage.on_tables for stage in stages(both, prefer_tables=False)] == [False]


def test_with_a_new_key_rows_may_come_and_go():
    def twice_each(table):
        both = pa.concat_tables([table, table])
        return with_twice(both)

    (stage,) = stages(orders("a1", None, upgrade_table=twice_each, new_key=SHOP))
    assert stage.table(ENTRIES).num_rows == 4


NO_VALUE = pa.array([None, {"n": 1, "twice": 1}])


@pytest.mark.parametrize(
    ("function", "problem", "found"),
    [
        (lambda table: table["gone"], "raised", "gone"),
        (lambda table: None, "returned no table", "None; is a `return` missing?"),
        (lambda table: [1], "returned no table", "list"),
        (lambda table: table.select(["key"]), "returned other columns", "key"),
        (lambda table: with_twice(table).slice(1), "changed keys", "2 rows in, 1 out"),
        (lambda table: with_twice(table).take([1, 0]), "changed keys", "2 rows in, 2 out"),
        (lambda table: table, "returned a `value` with other fields than `new`", "n"),
        (
            lambda table: pa.table({"key": table["key"], "value": [1, 2]}),
            "returned a `value` that is no struct",
            "int64",
        ),
        (
            lambda table: pa.table({"key": table["key"], "value": NO_VALUE}),
            "returned rows without a `value`",
            "1 nulls",
        ),
    ],
)
def test_a_table_that_is_none_of_entries_is_refused(function, problem, found):
    (stage,) = stages(orders("a1", None, upgrade_table=function))
    with pytest.raises(TransformError) as raised:
        stage.table(ENTRIES)
    assert f"the upgrade_table from revision base to a1 {problem}" in raised.value.summary
    assert found in str(raised.value.found)
    assert "rewrite again" in raised.value.next_action


def test_keys_with_other_columns_than_new_key_are_refused():
    (stage,) = stages(orders("a1", None, upgrade_table=with_twice, new_key=Struct("shops STRING")))
    with pytest.raises(TransformError, match="a `key` with other fields than `new_key`"):
        stage.table(ENTRIES)


def test_a_key_that_is_no_number_is_the_same_key_afterwards():
    keys = pa.array([{"x": float("nan")}])
    table = pa.table({"key": keys, "value": pa.array([{"n": 1}])})
    (stage,) = stages(orders("a1", None, upgrade_table=with_twice))
    assert stage.table(table).num_rows == 1
