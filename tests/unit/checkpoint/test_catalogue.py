"""What each operator's keys are laid out by, and what users call its state."""

import pytest

from statemigrate.checkpoint.operators.catalogue import kind_of, partition_columns, user_stores
from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    PrefixScan,
    RangeScan,
    StoreShape,
)
from statemigrate.errors import UnsupportedError


def struct(**fields):
    of = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()]
    return {"type": "struct", "fields": of}


KEY = struct(k="string", region="string")
VALUE = struct(n="long")


def family(name, key, encoder=None):
    return FamilyShape(name, key, VALUE, encoder or NoPrefix())


def operator(name, *stores, families=False):
    shapes = tuple(StoreShape(store, families, 2, tuple(inside)) for store, inside in stores)
    return OperatorShape(1, name, 1, shapes)


def columns(found):
    return {
        (store.name, each.name): partition_columns(found, store, each)
        for store in found.stores
        for each in store.families
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stateStoreSave", (("k",), ("region",))),
        ("StatefulStreamlineAggregate", (("k",), ("region",))),
        ("dedupe", (("k",), ("region",))),
        ("applyInPandasWithState", (("k",), ("region",))),
        ("sessionWindowStateStoreSaveExec", (("k",),)),
        ("globalLimit", ()),
    ],
)
def test_an_operator_with_one_store_is_laid_out_by_the_columns_it_groups_by(name, expected):
    found = operator(name, ("default", [family("default", KEY)]))
    assert columns(found) == {("default", "default"): expected}


def test_a_join_is_laid_out_by_its_keys_without_the_index():
    indexed = struct(field0="string", index="long")
    counted = struct(field0="string")
    four = operator(
        "symmetricHashJoin",
        ("left-keyToNumValues", [family("default", counted)]),
        ("left-keyWithIndexToValue", [family("default", indexed)]),
        ("right-keyToNumValues", [family("default", counted)]),
        ("right-keyWithIndexToValue", [family("default", indexed)]),
    )
    assert set(columns(four).values()) == {(("field0",),)}
    places = {name: store.name for name, (store, _) in user_stores(four).items()}
    assert places == {
        "join-1.left": "left-keyWithIndexToValue",
        "join-1.right": "right-keyWithIndexToValue",
    }
    parts = [family(store.name, store.families[0].key) for store in four.stores]
    one = operator("symmetricHashJoin", ("default", parts), families=True)
    assert set(columns(one).values()) == {(("field0",),)}
    assert [each.name for _, each in user_stores(one).values()] == list(places.values())


def test_a_variables_families_are_laid_out_by_the_grouping_key_wherever_it_is():
    of_map = struct(key=KEY, userKey=VALUE)
    found = operator(
        "transformWithStateInPySparkExec",
        (
            "default",
            [
                family("total", KEY),
                family("byName", of_map, PrefixScan(1)),
                family("$ttl_total", struct(expirationMs="long", elementKey=KEY), RangeScan((0,))),
                family("$ttl_byName", struct(expirationMs="long", elementKey=of_map)),
                family("$rowCounter_l", KEY),
                family(
                    "$procTimers_keyToTimestamp",
                    struct(key=KEY, expiryTimestampMs="long"),
                    PrefixScan(1),
                ),
                family("$procTimers_timestampToKey", struct(expiryTimestampMs="long", key=KEY)),
            ],
        ),
        families=True,
    )
    assert {name: path for (_, name), path in columns(found).items()} == {
        "total": (("k",), ("region",)),
        "byName": (("key",),),
        "$ttl_total": (("elementKey",),),
        "$ttl_byName": (("elementKey", "key"),),
        "$rowCounter_l": (("k",), ("region",)),
        "$procTimers_keyToTimestamp": (("key",),),
        "$procTimers_timestampToKey": (("key",),),
    }
    assert set(user_stores(found)) == {"total", "byName"}


def test_an_operator_that_is_not_known_is_refused_by_its_name():
    with pytest.raises(UnsupportedError, match="'StatefulStreamlineJoin' is not known"):
        kind_of("StatefulStreamlineJoin")
