from dataclasses import replace

import pytest
from chains import BASELINE, FIRST, SECOND, A, B, C, lineage, migration

from statemigrate.errors import LineageError
from statemigrate.migration import BASE, Lineage


def test_a_lineage_starts_with_the_state_before_the_first_script():
    chain = lineage()
    assert chain.revisions == (BASE, "a1b2", "c3d4")
    assert (chain.oldest, chain.head) == (BASE, "c3d4")
    assert [chain.format_of(r) for r in chain.revisions] == [A, B, C]
    assert [chain.position(r) for r in chain.revisions] == [0, 1, 2]
    assert chain.migrations == (FIRST, SECOND)


def test_the_order_in_which_scripts_are_found_does_not_matter():
    assert lineage(SECOND, FIRST) == lineage(FIRST, SECOND)


def test_a_baseline_takes_the_place_of_base():
    first = replace(FIRST, down_revision="b0b0")
    chain = lineage(first, BASELINE)
    assert chain.revisions == ("b0b0", "a1b2")
    assert chain.oldest == "b0b0"
    assert chain.format_of("b0b0") == A
    assert BASE not in chain
    assert chain.resolve("base") == "b0b0"
    assert chain.path("b0b0", "a1b2").apply({"a": 1}) == {"b": 10}
    assert chain.applied("b0b0") == (BASELINE,)


def test_a_store_without_scripts_has_only_base():
    chain = Lineage.unmigrated("auctions", A)
    assert chain.revisions == (BASE,)
    assert chain.head == chain.oldest == BASE
    assert chain.format_of(BASE) == A
    assert chain.applied(BASE) == ()
    assert chain.path(BASE, BASE).apply({"a": 1}) == {"a": 1}


def test_membership_takes_full_revisions_only():
    chain = lineage()
    assert "a1b2" in chain
    assert BASE in chain
    assert "a1" not in chain


@pytest.mark.parametrize(
    ("target", "revision"),
    [
        ("head", "c3d4"),
        ("base", BASE),
        ("c3d4", "c3d4"),
        ("c", "c3d4"),
        ("-1", "a1b2"),
        ("head-1", "a1b2"),
        ("head-2", BASE),
        ("base+1", "a1b2"),
        ("a1+1", "c3d4"),
        ("auctions@head", "c3d4"),
        ("auctions@-1", "a1b2"),
    ],
)
def test_a_target_can_be_named_in_many_ways(target, revision):
    assert lineage().resolve(target) == revision


@pytest.mark.parametrize(
    "target", ["zz", "", "+1", "-3", "head+1", "base-1", "heads", "bids@head", "a1b2x"]
)
def test_a_target_that_means_nothing_lists_the_revisions(target):
    with pytest.raises(LineageError) as raised:
        lineage().resolve(target)
    assert raised.value.expected == "one of base, a1b2, c3d4"
    assert "statemigrate history auctions" in raised.value.next_action


def test_an_ambiguous_beginning_names_what_it_could_mean():
    second = replace(SECOND, revision="a1ff")
    with pytest.raises(LineageError, match="several revisions") as raised:
        lineage(FIRST, second).resolve("a1")
    assert raised.value.found == "a1b2, a1ff"


def test_a_full_revision_outranks_one_it_is_the_beginning_of():
    second = replace(SECOND, revision="a1b2ff")
    assert lineage(FIRST, second).resolve("a1b2") == "a1b2"


@pytest.mark.parametrize("ask", [Lineage.position, Lineage.format_of, Lineage.applied])
def test_asking_about_an_unknown_revision_is_an_error(ask):
    with pytest.raises(LineageError, match="no revision 'a1'"):
        ask(lineage(), "a1")


def test_the_scripts_applied_at_a_revision_include_its_own():
    chain = lineage()
    assert chain.applied(BASE) == ()
    assert chain.applied("a1b2") == (FIRST,)
    assert chain.applied("c3d4") == (FIRST, SECOND)


def test_the_first_missing_downgrade_on_the_way_down_is_found():
    one_way = replace(SECOND, downgrade=None)
    chain = lineage(FIRST, one_way)
    assert chain.missing_downgrade("c3d4", BASE) == one_way
    assert chain.missing_downgrade("a1b2", BASE) is None
    assert chain.missing_downgrade(BASE, "c3d4") is None
    assert chain.missing_downgrade("c3d4", "c3d4") is None


def test_a_path_down_over_a_missing_downgrade_is_refused():
    chain = lineage(replace(FIRST, downgrade=None), SECOND)
    with pytest.raises(LineageError, match="from revision c3d4 back to base") as raised:
        chain.path("c3d4", BASE)
    assert raised.value.expected == "a `downgrade` in versions/a1b2.py"
    assert chain.path("c3d4", "a1b2").apply({"c": "20"}) == {"b": 20}


def test_no_scripts_make_no_lineage():
    with pytest.raises(LineageError, match="no migration script") as raised:
        Lineage.build("auctions", [])
    assert raised.value.next_action == "`statemigrate new auctions -m MESSAGE`"


def test_two_scripts_with_one_revision_are_an_error():
    copy = replace(FIRST, path="versions/copy.py")
    with pytest.raises(LineageError, match="Two scripts have the revision a1b2") as raised:
        lineage(FIRST, copy)
    assert raised.value.found == "versions/a1b2.py and versions/copy.py"


def test_a_missing_parent_is_an_error():
    with pytest.raises(LineageError, match="follows a revision that does not exist") as raised:
        lineage(FIRST, replace(SECOND, down_revision="eeee"))
    assert "'eeee'" in raised.value.expected


def test_two_heads_are_an_error_that_says_how_to_join_them():
    third = migration("e5f6", "c3d4", old=C, new=C, upgrade=dict)
    rival = migration("9999", "a1b2", old=B, new=B, upgrade=dict)
    with pytest.raises(LineageError) as raised:
        lineage(FIRST, SECOND, third, rival)
    assert raised.value.summary == "Store 'auctions' has two heads: e5f6 and 9999."
    assert raised.value.found == "versions/c3d4.py and versions/9999.py both follow a1b2"
    assert "`statemigrate new auctions --rebase`" in raised.value.next_action


def test_two_first_scripts_are_an_error():
    rival = migration("9999", None, old=A, new=B, upgrade=dict)
    with pytest.raises(LineageError) as raised:
        lineage(FIRST, rival)
    assert raised.value.summary == "Store 'auctions' has two first scripts: a1b2 and 9999."


@pytest.mark.parametrize("extra", [(), (migration("ffff", None, old=A, new=B, upgrade=dict),)])
def test_a_circle_is_an_error(extra):
    one = replace(FIRST, down_revision="c3d4")
    with pytest.raises(LineageError, match="form a circle") as raised:
        lineage(one, SECOND, *extra)
    assert raised.value.found == "a1b2 follows c3d4, c3d4 follows a1b2"


def test_an_old_format_that_is_not_the_one_before_shows_the_difference():
    with pytest.raises(LineageError, match=r"is not the `new` of versions/a1b2\.py") as raised:
        lineage(FIRST, replace(SECOND, old=C))
    assert raised.value.expected == repr(B)
    *differences, whole = raised.value.found.splitlines()
    assert differences == raised.value.data["differences"] != []
    assert whole == repr(C)


def test_old_formats_are_compared_by_layout_and_not_by_kind():
    avro = type(A).avro_schema.fget(B)
    from statemigrate.formats import Avro

    chain = lineage(FIRST, replace(SECOND, old=Avro(avro)))
    assert chain.format_of("a1b2") == B


def test_a_script_of_another_store_is_an_error():
    with pytest.raises(LineageError, match="belongs to another store"):
        lineage(FIRST, replace(SECOND, store="bids"))


def test_a_baseline_must_come_first():
    with pytest.raises(LineageError, match="not the store's first script"):
        lineage(FIRST, migration("b1b1", "a1b2", old=None, new=B))


def test_a_baseline_has_no_transform():
    with pytest.raises(LineageError, match="could never run"):
        lineage(replace(BASELINE, upgrade=dict))


def test_a_migration_needs_an_upgrade():
    with pytest.raises(LineageError, match="has no `upgrade`"):
        lineage(replace(FIRST, upgrade=None))


@pytest.mark.parametrize("revision", ["base", "head", "a-1", "../up", "", None, "a b"])
def test_a_revision_becomes_part_of_file_names_and_is_checked(revision):
    with pytest.raises(LineageError, match="cannot be a revision"):
        lineage(replace(FIRST, revision=revision))


@pytest.mark.parametrize(
    "store",
    ["", "head", "heads", "base", "Head", "default", "_x", "1a", "a@b", "a:b", "a/b", "a-b"],
)
def test_a_store_name_that_cannot_be_is_refused(store):
    with pytest.raises(LineageError, match="cannot be the name of a store"):
        Lineage.unmigrated(store, A)
