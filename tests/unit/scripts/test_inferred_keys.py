"""Functions of a script that changes keys, written from the columns."""

import pytest

from statemigrate.formats import Struct
from statemigrate.scripts.rekeying import ColumnSource, KeyChange, infer_rekeying

SHOP = Struct("shop STRING")
SHOP_DAY = Struct("shop STRING, day DATE")
COUNT = Struct("count BIGINT")


def functions(inferred):
    scope = {"Value": dict, "Any": object}
    exec(inferred.source, scope)  # noqa: S102
    return scope


def questions(inferred):
    return [line.removeprefix("# QUESTION: ") for line in inferred.questions]


def test_columns_go_by_name_from_the_key_then_from_the_value():
    old = Struct("count BIGINT, region STRING")
    keys = KeyChange(SHOP, Struct("shop STRING, region STRING, n INT"))
    found = infer_rekeying(old, old, keys)
    value = {"count": 1, "region": "eu"}
    made = functions(found)["rekey"]({"shop": "a"}, value)
    assert made == {"shop": "a", "region": "eu", "n": None}
    assert questions(found) == [
        "is the new key's `region` that of the value?",
        "what is the `n` (int) of an old key?",
    ]
    assert "upgrade" not in found.source


def test_another_type_is_asked_about():
    found = infer_rekeying(COUNT, COUNT, KeyChange(SHOP, Struct("shop BIGINT")))
    assert questions(found)[0] == "`shop` was string and becomes long: is it the same?"


def test_the_value_changes_too_without_a_way_back():
    found = infer_rekeying(COUNT, Struct("count DOUBLE"), KeyChange(SHOP, SHOP_DAY))
    assert functions(found)["upgrade"]({"count": 1}) == {"count": 1.0}
    assert "downgrade" not in found.source


@pytest.mark.parametrize(
    ("keys", "may_meet"),
    [
        (KeyChange(SHOP, SHOP_DAY), False),
        (KeyChange(SHOP_DAY, SHOP), True),
        (KeyChange(SHOP_DAY, SHOP, is_list=True), False),
    ],
    ids=["finer", "coarser", "of a list"],
)
def test_only_where_keys_may_meet_a_merge_is_asked_for(keys, may_meet):
    assert keys.may_meet is may_meet
    assert ("def merge" in infer_rekeying(COUNT, COUNT, keys).source) is may_meet


def test_values_that_hold_nothing_are_merged_without_a_question():
    nothing = Struct("struct<>")
    found = infer_rekeying(nothing, nothing, KeyChange(SHOP_DAY, SHOP))
    assert functions(found)["merge"]({}, {}) == {}
    assert questions(found) == []


def test_what_the_code_tells_of_a_key_stands_in_for_names():
    value = Struct("count BIGINT, sum BIGINT, low STRING, buf BINARY")
    keys = KeyChange(
        SHOP,
        SHOP,
        sources={"shop": ColumnSource('None if key["shop"] is None else key["shop"].upper()')},
        merging={"count": "add", "sum": "add unless null", "low": "least"},
    )
    assert keys.changes
    assert keys.may_meet
    found = infer_rekeying(value, value, keys)
    made = functions(found)
    assert made["rekey"]({"shop": "a"}, {}) == {"shop": "A"}
    assert made["rekey"]({"shop": None}, {}) == {"shop": None}
    one = {"count": 1, "sum": None, "low": "b", "buf": b"1"}
    other = {"count": 2, "sum": 5, "low": None, "buf": b"2"}
    assert made["merge"](one, other) == {"count": 3, "sum": 5, "low": "b", "buf": b"1"}
    (question,) = questions(found)
    assert "`buf`" in question


def test_keys_that_are_the_same_change_nothing():
    same = KeyChange(SHOP, SHOP, sources={"shop": ColumnSource('key["shop"]', column="shop")})
    assert not same.changes
    assert not same.may_meet


def test_two_columns_exchanged_change_keys_that_never_meet():
    both = Struct("shop STRING, town STRING")
    sources = {
        "shop": ColumnSource('key["town"]', column="town"),
        "town": ColumnSource('key["shop"]', column="shop"),
    }
    keys = KeyChange(both, both, sources=sources)
    assert keys.changes
    assert not keys.may_meet
    made = functions(infer_rekeying(COUNT, COUNT, keys))
    assert made["rekey"]({"shop": "a", "town": "b"}, {}) == {"shop": "b", "town": "a"}
