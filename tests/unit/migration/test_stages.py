"""What a rewrite runs of a path: entries become entries, and those that meet become one."""

import math
import pickle
import textwrap
from collections import Counter, defaultdict
from copy import deepcopy

import pytest
from chains import migration
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from statemigrate.errors import NO_VALUES, TransformError
from statemigrate.formats import Struct
from statemigrate.migration import BASE, Lineage, stages_of

SUMS = Struct("n BIGINT, days MAP<STRING, BIGINT>")
TOTALS = Struct("n BIGINT")
BY_DAY = Struct("shop STRING, day STRING")
BY_SHOP = Struct("shop STRING")


def path_of(*migrations):
    chain = Lineage.build("orders", migrations)
    return chain.path(chain.oldest, chain.head)


def orders(revision, down, **parts):
    return migration(revision, down, **{"store": "orders", "old": TOTALS, "new": TOTALS, **parts})


def run(path, entries):
    """What a rewrite makes of ``entries``, all of them in memory."""
    held = deepcopy(entries)
    for stage in stages_of(path):
        groups = defaultdict(list)
        for key, value in held:
            for new_key, new_value in stage.entries(key, value):
                groups[tuple(sorted(new_key.items()))].append(new_value)
        held = []
        for items, values in groups.items():
            merged = values[0]
            for value in values[1:]:
                merged = stage.merge(dict(items), merged, value)
            held.append((dict(items), merged))
    return held


def with_day(value, key):
    return {"n": value["n"], "days": {key["day"]: value["n"]}}


def shop_alone(key, value):
    return {"shop": key["shop"]}


def added(first, second):
    days = Counter(first["days"]) + Counter(second["days"])
    return {"n": first["n"] + second["n"], "days": dict(days)}


TO_SHOPS = orders(
    "a1", None, new=SUMS, upgrade=with_day, new_key=BY_SHOP, rekey=shop_alone, merge=added
)
counts = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["mon", "tue", "wed"])), st.integers(1, 9)
)


@given(counts)
def test_entries_that_meet_are_merged_and_nothing_is_lost(held):
    entries = [({"shop": shop, "day": day}, {"n": n}) for (shop, day), n in held.items()]
    found = {key["shop"]: value for key, value in run(path_of(TO_SHOPS), entries)}
    assert found.keys() == {shop for shop, _ in held}
    for shop, value in found.items():
        mine = {day: n for (other, day), n in held.items() if other == shop}
        assert value == {"n": sum(mine.values()), "days": mine}


@given(counts)
def test_a_later_script_sees_what_an_earlier_one_has_merged(held):
    later = orders("b2", "a1", old=SUMS, upgrade=lambda value: {"n": len(value["days"])})
    entries = [({"shop": shop, "day": day}, {"n": n}) for (shop, day), n in held.items()]
    found = {key["shop"]: value["n"] for key, value in run(path_of(TO_SHOPS, later), entries)}
    assert found == Counter(shop for shop, _ in held)


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)))
def test_a_rekey_splits_an_entry_into_several_with_values_of_their_own(held):
    def rekey(key, value):
        for number in range(value["n"]):
            yield {"shop": key["shop"], "day": str(number)}, {"n": number}

    split = orders("a1", None, new_key=BY_DAY, rekey=rekey)
    found = run(path_of(split), [({"shop": shop}, {"n": n}) for shop, n in held.items()])
    assert sorted((k["shop"], k["day"], v["n"]) for k, v in found) == sorted(
        (shop, str(number), number) for shop, n in held.items() for number in range(n)
    )


def test_one_value_under_several_keys_is_each_ones_own():
    def grow(value):
        value["days"]["sun"] = 1
        return value

    both = orders(
        "a1", None, old=SUMS, new=SUMS, new_key=BY_SHOP,
        rekey=lambda key, value: [{"shop": "x"}, {"shop": "y"}],
    )  # fmt: skip
    after = orders("b2", "a1", old=SUMS, new=SUMS, upgrade=grow)
    (first, second) = stages_of(path_of(both, after))
    entries = first.entries({"shop": "a"}, {"n": 1, "days": {"mon": 1}})
    second.entries(*entries[0])
    assert entries[1] == ({"shop": "y"}, {"n": 1, "days": {"mon": 1}})


def test_an_entry_without_new_keys_is_dropped():
    drop = orders("a1", None, new_key=BY_SHOP, rekey=lambda key, value: [])
    (stage,) = stages_of(path_of(drop))
    assert stage.entries({"shop": "a"}, {"n": 1}) == []


def test_a_merge_alone_is_for_entries_that_meet_for_other_reasons():
    alone = orders("a1", None, merge=lambda first, second: {"n": first["n"] + second["n"]})
    (stage,) = stages_of(path_of(alone))
    assert stage.entries({"shop": "a"}, {"n": 1}) == [({"shop": "a"}, {"n": 1})]
    assert stage.merge({"shop": "a"}, {"n": 1}, {"n": 2}) == {"n": 3}


def test_a_path_is_parted_where_entries_may_meet():
    plain = [orders("a1", None, upgrade=dict), orders("b2", "a1", upgrade=dict)]
    keys = orders("c3", "b2", new_key=BY_SHOP, rekey=shop_alone)
    last = orders("d4", "c3", upgrade=dict)
    found = stages_of(path_of(*plain, keys, last))
    assert [(stage.source, stage.target) for stage in found] == [(BASE, "c3"), ("c3", "d4")]
    assert [stage.key for stage in found] == [BY_SHOP, None]
    assert stages_of(Lineage.build("orders", plain).path("a1", "a1")) == ()


@pytest.mark.parametrize(
    ("given", "stored"), [(-0.0, 0.0), (math.nan, math.nan), ([1.0, -0.0], [1.0, 0.0])]
)
def test_numbers_in_new_keys_are_those_that_spark_groups_by(given, stored):
    kind = "ARRAY<DOUBLE>" if isinstance(given, list) else "DOUBLE"
    keys = orders("a1", None, new_key=Struct(f"x {kind}"), rekey=lambda key, value: {"x": given})
    ((key, _),) = stages_of(path_of(keys))[0].entries({"x": 1}, {"n": 1})
    assert repr(key["x"]) == repr(stored)


def refused(work):
    with pytest.raises(TransformError) as raised:
        work()
    error = raised.value
    assert (error.data["store"], error.data["key"]) == ("orders", {"shop": "a"})
    assert (error.data["source"], error.data["target"]) == (BASE, "a1")
    assert error.summary.startswith("Store 'orders', key {'shop': 'a'}: the ")
    assert "rewrite again" in error.next_action
    assert "restart" not in error.next_action
    return error


def boom(key, value):
    raise KeyError("boom")


def boom_later(key, value):
    yield {"shop": "x"}
    raise KeyError("boom")


@pytest.mark.parametrize(
    ("rekey", "problem", "found"),
    [
        (boom, "the rekey from revision base to a1 raised", "KeyError: 'boom'"),
        (boom_later, "the rekey from revision base to a1 raised", "KeyError: 'boom'"),
        (lambda key, value: None, "gave what is no key", "None; is a `return` missing?"),
        (lambda key, value: (key, value), "gave what is no key", "tuple"),
        (lambda key, value: "shop", "gave what is no key", "str"),
        (lambda key, value: [("a", "b")], "gave what is no key", "tuple"),
        (lambda key, value: {"shop": 7}, "gave a key that `new_key` cannot hold", "Field shop"),
        (lambda key, value: {}, "gave a key that `new_key` cannot hold", "shop"),
        (lambda key, value: [(key, {"m": 1})], "returned a value its new format cannot", "n"),
    ],
)
def test_what_a_rekey_cannot_give_is_told_with_the_key(rekey, problem, found):
    (stage,) = stages_of(path_of(orders("a1", None, new_key=BY_SHOP, rekey=rekey)))
    error = refused(lambda: stage.entries({"shop": "a"}, {"n": 1}))
    assert problem in error.summary
    assert found in str(error.found)


def test_an_upgrade_that_fails_is_told_with_the_key():
    (stage,) = stages_of(path_of(orders("a1", None, upgrade=lambda value, key: key["gone"])))
    assert refused(lambda: stage.entries({"shop": "a"}, {"n": 1})).found == "KeyError: 'gone'"


def test_a_meeting_without_merge_shows_both():
    (stage,) = stages_of(path_of(orders("a1", None, new_key=BY_SHOP, rekey=shop_alone)))
    error = refused(lambda: stage.merge({"shop": "a"}, {"n": 1}, {"n": 2}))
    assert "brings two entries to one key" in error.summary
    assert error.found == "{'n': 1} and {'n': 2}"
    assert (error.data["first"], error.data["second"]) == ({"n": 1}, {"n": 2})
    assert "write `merge`" in error.next_action


def test_a_meeting_shows_nothing_where_values_are_not_shown(monkeypatch):
    monkeypatch.setenv(NO_VALUES, "1")
    (stage,) = stages_of(path_of(orders("a1", None, new_key=BY_SHOP, rekey=shop_alone)))
    with pytest.raises(TransformError) as raised:
        stage.merge({"shop": "a"}, {"n": 41}, {"n": 42})
    assert "4" not in str(raised.value)
    assert "first" not in raised.value.data


@pytest.mark.parametrize(
    ("merge", "problem"),
    [
        (lambda first, second: None, "the merge from revision base to a1 returned no dict"),
        (lambda first, second: {"n": "x"}, "returned a value its new format cannot hold"),
        (lambda first, second: first["x"], "the merge from revision base to a1 raised"),
    ],
)
def test_a_merge_that_fails_is_told_with_the_key(merge, problem):
    (stage,) = stages_of(path_of(orders("a1", None, merge=merge)))
    assert problem in refused(lambda: stage.merge({"shop": "a"}, {"n": 1}, {"n": 2})).summary


def test_stages_travel_to_where_the_scripts_are_not():
    text = """
    def upgrade(value, key):
        return {"n": value["n"] + len(key["shop"])}
    """
    scope = {"__name__": "migration_of_nobody"}
    exec(textwrap.dedent(text), scope)  # noqa: S102
    stages = stages_of(path_of(orders("a1", None, upgrade=scope["upgrade"])))
    stages[0].entries({"shop": "warm"}, {"n": 1})
    (again,) = pickle.loads(cloudpickle.dumps(stages))  # noqa: S301
    assert again.entries({"shop": "abc"}, {"n": 1}) == [({"shop": "abc"}, {"n": 4})]
