"""What tasks of a rewrite make of rows whose fields go by name: no Spark is needed for it."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StoreShape,
)
from statemigrate.rewrite.arrow_types import arrow_row, retyped
from statemigrate.rewrite.checksums import hashes_of, without_maps
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.rewrite.entry_functions import change_task
from statemigrate.rewrite.family_plans import MatchedRows
from statemigrate.rewrite.fields import match_fields
from statemigrate.rewrite.partitioning import Placing, RowBlocks, rows_in


def struct(**fields):
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in fields.items()
        ],
    }


KEY = struct(k="string")
OLD = struct(n="integer", gone="string", at="date", inner=struct(a="short", b="string"))
NEW = struct(
    inner=struct(b="string", c="double", a="long"), n="decimal(12,2)", at="timestamp_ntz", m="long"
)
ROWS = [
    {"n": 3, "gone": "x", "at": dt.date(2026, 1, 2), "inner": {"a": 1, "b": "one"}},
    {"n": None, "gone": None, "at": None, "inner": None},
]


def planned(old, new, *, is_list=False, take=None, keys=(KEY, KEY)):
    def place(key, value):
        family = FamilyShape("default", key, value, NoPrefix(), is_list=is_list)
        return FamilyAddress(StoreShape("default", False, 3, (family,)), family)

    key, value = match_fields(*keys, {}, "s"), match_fields(old, new, take or {}, "s")
    return MatchedRows("s", place(keys[1], new), place(keys[0], old), key, value)


def batch(values):
    keys = pa.array([{"k": f"k{n}"} for n in range(len(values))], arrow_row(KEY))
    return pa.RecordBatch.from_arrays([keys, values], ["key", "value"])


def became(plan, values, starts=None):
    (made,) = change_task(plan, starts or {})([batch(values)])
    return made


def test_rows_that_stay_are_one_old_row_each():
    made = became(planned(OLD, OLD), pa.array(ROWS, arrow_row(OLD)))
    assert made["value"].to_pylist() == ROWS
    assert made["origins"].to_pylist() == [1, 1]
    assert made["merged"].to_pylist() == [0, 0]


def test_fields_are_moved_widened_dropped_and_started():
    made = became(planned(OLD, NEW), pa.array(ROWS, arrow_row(OLD)), {"s.m": 7, "s.inner.c": 0.5})
    assert made["value"].type == arrow_row(NEW)
    assert made["value"].to_pylist() == [
        {
            "inner": {"b": "one", "c": 0.5, "a": 1},
            "n": Decimal("3.00"),
            "at": dt.datetime(2026, 1, 2),
            "m": 7,
        },
        {"inner": None, "n": None, "at": None, "m": 7},
    ]
    assert made["origins"].to_pylist() == [1, 1]


def test_two_fields_may_go_on_with_one():
    old, new = struct(a="integer", b="string"), struct(a="long", b="string", c="integer")
    made = became(
        planned(old, new, take={"c": "a"}), pa.array([{"a": 4, "b": "x"}], arrow_row(old))
    )
    assert made["value"].to_pylist() == [{"a": 4, "b": "x", "c": 4}]


def test_a_start_that_nobody_said_is_null():
    made = became(planned(OLD, NEW), pa.array(ROWS, arrow_row(OLD)))
    assert [each["m"] for each in made["value"].to_pylist()] == [None, None]


def test_every_element_of_a_list_changes_and_its_length_stays():
    rows = pa.array([ROWS, [], ROWS[:1]], pa.list_(arrow_row(OLD)))
    made = became(planned(OLD, NEW, is_list=True), rows, {"s.m": 7})
    singles = became(planned(OLD, NEW), pa.array([*ROWS, ROWS[0]], arrow_row(OLD)), {"s.m": 7})
    first, second, third = singles["value"].to_pylist()
    assert made["value"].to_pylist() == [[first, second], [], [third]]
    assert made["value"].type == pa.list_(arrow_row(NEW))


def test_a_slice_of_rows_becomes_what_its_own_rows_become():
    plan, rows = planned(OLD, NEW), pa.array(ROWS * 3, arrow_row(OLD))
    whole = became(plan, rows)["value"].to_pylist()
    (made,) = change_task(plan, {})([batch(rows).slice(3, 2)])
    assert made["value"].to_pylist() == whole[3:5]


def test_fields_of_the_same_types_may_still_change_places():
    # The types say nothing here: what was `a` is `b` now.
    both = struct(a="long", b="long")
    plan = planned(both, both, take={"a": "b", "b": "a"})
    made = became(plan, pa.array([{"a": 1, "b": 2}], arrow_row(both)))
    assert made["value"].to_pylist() == [{"a": 2, "b": 1}]
    anew = planned(both, both, take={"b": None})
    made = became(anew, pa.array([{"a": 1, "b": 2}], arrow_row(both)), {"s.b": 9})
    assert made["value"].to_pylist() == [{"a": 1, "b": 9}]


def test_keys_whose_columns_are_widened_and_moved_go_by_name():
    old, new = struct(k="string", n="integer"), struct(n="long", k="string")
    plan = planned(OLD, OLD, keys=(old, new))
    keys = pa.array([{"k": "x", "n": 1}, {"k": None, "n": None}], arrow_row(old))
    rows = pa.RecordBatch.from_arrays([keys, pa.array(ROWS, arrow_row(OLD))], ["key", "value"])
    (made,) = change_task(plan, {})([rows])
    assert made["key"].type == arrow_row(new)
    assert made["key"].to_pylist() == [{"n": 1, "k": "x"}, {"n": None, "k": None}]
    assert made["value"].to_pylist() == ROWS


def test_rows_whose_keys_have_lost_a_column_are_left_to_spark():
    keys = struct(k="string", n="integer"), struct(k="string")
    assert change_task(planned(OLD, OLD, keys=keys), {}) is None


def test_structs_without_fields_keep_their_number():
    rows = pa.array([{}, {}, None], pa.struct([]))
    assert retyped(rows, pa.struct([])).to_pylist() == [{}, {}, None]
    assert len(became(planned(struct(), struct()), pa.array([{}, {}], pa.struct([])))) == 2


def test_blocks_bring_every_row_to_its_partition_once():
    plan = planned(OLD, OLD)
    values = pa.array(ROWS * 20, arrow_row(OLD))
    shape = OperatorShape(0, "stateStoreSave", 1, (plan.new.store,))
    placing = Placing(0, shape, plan.new)
    (placed,) = placing(change_task(plan, {})([batch(values)]))
    blocks = list(RowBlocks((change_task(plan, {}), placing))([batch(values)]))
    parts = list(rows_in(blocks))
    assert [set(each["partition"].to_pylist()) for each in parts] == [{0}, {1}, {2}]
    back = pa.Table.from_batches(parts).sort_by("checksum_1")
    assert back.equals(pa.Table.from_batches([placed]).sort_by("checksum_1"))


def test_rows_that_stay_are_in_their_partition_with_the_hashes_of_others():
    plan = planned(OLD, OLD)
    shape = OperatorShape(0, "stateStoreSave", 1, (plan.new.store,))
    changed = list(change_task(plan, {})([batch(pa.array(ROWS * 20, arrow_row(OLD)))]))
    (moved,) = Placing(0, shape, plan.new)(changed)
    (stayed,) = Placing(0, shape, plan.new, 2)(changed)
    assert set(moved["partition"].to_pylist()) == {0, 1, 2}
    assert set(stayed["partition"].to_pylist()) == {2}
    assert stayed["partition"].type == moved["partition"].type
    assert stayed.drop_columns(["partition"]).equals(moved.drop_columns(["partition"]))


def test_maps_are_hashed_by_their_entries_in_their_order():
    # A struct with a map within says first whether it is null, as for Spark.
    kind = pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.map_(pa.string(), pa.int64()))))])
    rows = pa.array([{"m": [("a", [[("x", 1)], None]), ("b", None)]}, {"m": None}, None], kind)
    assert without_maps(rows).to_pylist() == [
        {
            "0": False,
            "1": [
                {"0": False, "1": "a", "2": [[{"key": "x", "value": 1}], None]},
                {"0": False, "1": "b", "2": None},
            ],
        },
        {"0": False, "1": None},
        {"0": True, "1": None},
    ]
    keys = pa.array([{"k": "k"}] * 3, arrow_row(KEY))
    assert len(set(hashes_of(keys, rows)[0].tolist())) == 3
