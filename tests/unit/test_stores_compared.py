"""The verdict on a store whose formats are recorded, on pages or in the embedded engine."""

import pytest

from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.formats import Struct
from statemigrate.meaning.store_changes import compare_stores
from statemigrate.migration import BASE, Lineage, Migration

OLD, NEW = Struct("n INT"), Struct("n BIGINT")


def lineage(downgrade=None):
    return Lineage.build(
        "totals",
        [
            Migration("one", None, "totals", None, OLD),
            Migration("two", "one", "totals", OLD, NEW, upgrade=dict, downgrade=downgrade),
        ],
    )


def stored(*revisions, kind="value", occupancy="something", formats=None):
    known = formats or {BASE: OLD, "one": OLD, "two": NEW}
    families = [StoredFamily(f"totals_{each}", each, known[each], occupancy) for each in revisions]
    return StoredStore(kind, tuple(families))


def verdict(was, now, known=None):
    lineages = {} if known is None else {"totals": known}
    (found,) = compare_stores({"totals": was}, {"totals": now}, lineages, "operator")
    return found.verdict


def test_without_scripts_the_format_alone_decides():
    assert verdict(stored(BASE), stored(BASE)) == "same"
    assert verdict(stored(BASE), stored(BASE, formats={BASE: NEW})) == "live"


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (["two"], "two", "same"),
        (["one"], "two", "live"),
        (["two", "one"], "two", "goes on"),
        ([BASE], "one", "same"),
        ([BASE], "two", "live"),
    ],
)
def test_with_scripts_the_revisions_decide(was, now, expected):
    assert verdict(stored(*was), stored(now), lineage()) == expected


def test_values_go_back_only_by_a_script_that_does():
    assert verdict(stored("two"), stored("one"), lineage()) == "cannot"
    assert verdict(stored("two"), stored("one"), lineage(downgrade=dict)) == "live"


def test_families_that_are_known_to_be_empty_do_not_count():
    was = StoredStore(
        "value",
        (*stored("two", occupancy="nothing").families, *stored("one").families),
    )
    assert verdict(was, stored("one"), lineage()) == "same"


def test_a_revision_without_scripts_is_none_that_anything_can_read():
    was = stored("gone", formats={"gone": OLD})
    assert verdict(was, stored("two"), lineage()) == "cannot"


def test_another_kind_and_other_keys_of_a_map_are_beyond_scripts():
    assert verdict(stored(BASE), stored(BASE, kind="list")) == "cannot"
    maps = [
        StoredStore(
            "map",
            stored(BASE).families,
            user_key={"fields": [{"name": "day", "type": kind}]},
        )
        for kind in ("date", "string")
    ]
    assert verdict(maps[0], maps[1]) == "cannot"
    assert verdict(maps[0], maps[0]) == "same"


def test_stores_that_one_of_both_has_ask_nothing():
    found = compare_stores({"totals": stored(BASE)}, {"other": stored(BASE)}, {}, "operator")
    assert [(each.store, each.verdict) for each in found] == [
        ("other", "goes on"),
        ("totals", "goes on"),
    ]
