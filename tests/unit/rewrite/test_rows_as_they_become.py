"""What tasks of a rewrite make of rows whose fields go by name: no Spark is needed for it."""

import datetime as dt

import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StoreShape,
)
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.fields import match_fields
from statemigrate.rewrite.plan.places import Place
from statemigrate.rewrite.rows.checksums import hashes_of, without_maps
from statemigrate.rewrite.rows.placing import Blocks, Placing, rows_in
from statemigrate.rewrite.rows.structs import arrow_row, retyped
from statemigrate.rewrite.rows.tasks import change_task


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


def planned(old, new, *, is_list=False):
    def place(value):
        family = FamilyShape("default", KEY, value, NoPrefix(), is_list=is_list)
        return Place(StoreShape("default", False, 3, (family,)), family)

    key, value = match_fields(KEY, KEY, {}, "s"), match_fields(old, new, {}, "s")
    return FamilyPlan("s", place(new), place(old), key, value)


def batch(values):
    keys = pa.array([{"k": f"k{n}"} for n in range(len(values))], arrow_row(KEY))
    return pa.RecordBatch.from_arrays([keys, values], ["key", "value"])


def became(plan, values):
    (made,) = change_task(plan)([batch(values)])
    return made


def test_rows_that_stay_are_one_old_row_each():
    made = became(planned(OLD, OLD), pa.array(ROWS, arrow_row(OLD)))
    assert made["value"].to_pylist() == ROWS
    assert made["origins"].to_pylist() == [1, 1]
    assert made["merged"].to_pylist() == [0, 0]


def test_fields_that_change_are_left_to_spark():
    assert change_task(planned(OLD, NEW)) is None


def test_structs_without_fields_keep_their_number():
    rows = pa.array([{}, {}, None], pa.struct([]))
    assert retyped(rows, pa.struct([])).to_pylist() == [{}, {}, None]
    assert len(became(planned(struct(), struct()), pa.array([{}, {}], pa.struct([])))) == 2


def test_blocks_bring_every_row_to_its_partition_once():
    plan = planned(OLD, OLD)
    values = pa.array(ROWS * 20, arrow_row(OLD))
    shape = OperatorShape(0, "stateStoreSave", 1, (plan.new.store,))
    placing = Placing(0, shape, plan.new)
    (placed,) = placing(change_task(plan)([batch(values)]))
    blocks = list(Blocks((change_task(plan), placing))([batch(values)]))
    parts = list(rows_in(blocks))
    assert [set(each["partition"].to_pylist()) for each in parts] == [{0}, {1}, {2}]
    back = pa.Table.from_batches(parts).sort_by("checksum_1")
    assert back.equals(pa.Table.from_batches([placed]).sort_by("checksum_1"))


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
