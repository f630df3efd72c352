"""Rules 9 and 10: before anything is touched, code, scripts and checkpoint must fit together."""

from dataclasses import replace

import pytest
from support.notes import FORMATS, MIDDLE, NEW, OLD, REVISIONS, family, lineage, note

from statemigrate.deployment import (
    Declared,
    DeploymentSettings,
    StoredStore,
    StorePlan,
    dual_access,
    family_name,
    plan_store,
)
from statemigrate.errors import LineageError, StartupError
from statemigrate.families import MemoryFamily, Span
from statemigrate.formats import Avro, Struct
from statemigrate.migration import Lineage, Migration

CHECKSUMS = {MIDDLE: MIDDLE * 32, NEW: NEW * 32}
USER = Struct("user INT").struct_type()


def declared(revision=NEW, **changes):
    return replace(Declared("notes", "value", FORMATS[revision].struct_type()), **changes)


def stored(*revisions, applied=None, occupancy=None, kind="value", user_key=None):
    found = dict.fromkeys(revisions, "something") | (occupancy or {})
    families = tuple(replace(family("notes", r), occupancy=found[r]) for r in revisions)
    return StoredStore(kind, families, CHECKSUMS if applied is None else applied, user_key)


def plan(state, *, code=None, scripts=None, **settings):
    return plan_store(
        code or declared(), scripts or lineage(), state, DeploymentSettings(**settings)
    )


def refused(state, **arguments):
    with pytest.raises(StartupError) as raised:
        plan(state, **arguments)
    assert raised.value.data["store"] == "notes"
    assert raised.value.next_action
    return raised.value


def one_way():
    """The lineage of notes, but the last step has no way back."""
    first, last = lineage().migrations
    return Lineage.build("notes", [first, replace(last, downgrade=None)])


def test_a_store_that_is_new_has_the_targets_family_alone():
    made = plan(None)
    assert (made.target.name, made.target.revision) == ("notes@r2", NEW)
    assert made.target.format == FORMATS[NEW]
    assert made.sources == made.paths == ()


def test_the_oldest_revision_lives_under_the_stores_own_name():
    assert [family_name(lineage(), each) for each in REVISIONS] == [
        "notes", "notes@r1", "notes@r2",
    ]  # fmt: skip


def test_every_other_stored_family_is_a_source_newest_first_with_its_path():
    made = plan(stored(OLD, NEW, MIDDLE))
    assert [each.revision for each in made.sources] == [MIDDLE, OLD]
    assert [(path.source, path.target, len(path.steps)) for path in made.paths] == [
        (MIDDLE, NEW, 1), (OLD, NEW, 2),
    ]  # fmt: skip
    assert made.target.revision == NEW


def test_an_older_target_takes_newer_families_back():
    made = plan(stored(NEW, OLD), code=declared(MIDDLE), targets={"notes": MIDDLE})
    assert made.target.revision == MIDDLE
    assert [(path.source, path.target) for path in made.paths] == [(NEW, MIDDLE), (OLD, MIDDLE)]
    assert [step.target for step in made.paths[0].steps] == [MIDDLE]


def test_a_target_may_be_relative():
    assert plan(None, code=declared(MIDDLE), targets={"notes": "head-1"}).target.revision == MIDDLE
    assert plan(None, targets={"others": MIDDLE}).target.revision == NEW


def test_there_is_no_way_back_without_a_downgrade_while_the_newer_family_holds_values():
    error = refused(
        stored(NEW), code=declared(MIDDLE), scripts=one_way(), targets={"notes": MIDDLE}
    )
    assert error.summary == "store notes cannot go back from r2 to r1"
    assert error.expected == ("a downgrade in versions/r2.py, since family notes@r2 holds values")
    assert error.found == "no downgrade"
    assert "write that downgrade, or deploy code whose target is r2" in error.next_action
    assert "nothing was touched" in error.next_action
    assert error.data["revision"] == NEW


@pytest.mark.parametrize("occupancy", ["nothing", "unknown"])
def test_a_newer_family_that_was_not_seen_to_hold_values_does_not_stand_in_the_way(occupancy):
    made = plan(
        stored(NEW, OLD, occupancy={NEW: occupancy}),
        code=declared(MIDDLE),
        scripts=one_way(),
        targets={"notes": MIDDLE},
    )
    assert [each.revision for each in made.sources] == [NEW, OLD]
    assert made.paths[0] is None
    assert made.paths[1].target == MIDDLE


def test_a_value_in_a_family_that_no_way_leads_from_is_neither_passed_over_nor_touched():
    made = plan(
        stored(NEW, OLD, occupancy={NEW: "unknown"}),
        code=declared(MIDDLE),
        scripts=one_way(),
        targets={"notes": MIDDLE},
    )
    families = {r: MemoryFamily(family_name(lineage(), r), r, FORMATS[r]) for r in REVISIONS}
    families[NEW].entries[b"k"] = note(NEW, "t")
    families[OLD].entries[b"j"] = note(OLD, "t", 2, 1)
    access = dual_access(made, families[MIDDLE], [families[each.revision] for each in made.sources])
    before = {r: dict(each.entries) for r, each in families.items()}
    value = note(MIDDLE, "t", 3, 1)
    for touch in (
        lambda: access.get(b"k"),
        lambda: access.exists(b"k"),
        lambda: access.delete(b"k"),
        lambda: list(access.scan()),
        lambda: access.clear(Span()),
    ):
        with pytest.raises(StartupError, match="cannot go back from r2 to r1"):
            touch()
    assert {r: dict(each.entries) for r, each in families.items()} == before
    with pytest.raises(StartupError, match="cannot go back from r2 to r1"):
        access.put(b"k", value)
    assert families[NEW].entries == before[NEW]
    assert access.get(b"j") == value


def test_a_stored_family_of_an_unknown_revision():
    unknown = replace(family("notes", NEW), name="notes@beef", revision="beef")
    error = refused(StoredStore("value", (family("notes", OLD), unknown), {}))
    assert error.summary == (
        "store notes: the checkpoint has a family of the unknown revision beef"
    )
    assert error.expected == "one of base, r1, r2"
    assert error.found == "beef (family notes@beef)"
    assert "`statemigrate history notes`" in error.next_action
    assert error.data["revision"] == "beef"


def test_an_unknown_revision_is_an_error_even_when_its_family_is_empty():
    unknown = replace(family("notes", NEW), revision="beef", occupancy="nothing")
    assert "unknown revision beef" in refused(StoredStore("value", (unknown,), {})).summary


def test_a_stored_format_that_differs_from_the_scripts():
    other = replace(family("notes", OLD), format=Struct("text STRING, ups INT, downs BIGINT"))
    error = refused(StoredStore("value", (other,), {}))
    assert error.summary == ("store notes: the format stored for revision base is not the script's")
    assert "downs BIGINT" in error.expected
    assert error.expected.startswith("as stored, Struct(")
    assert "downs INT" in error.found
    assert "`statemigrate new notes -m MESSAGE`" in error.next_action
    assert error.data["revision"] == OLD


def test_a_format_that_writes_the_same_bytes_is_the_same():
    same = replace(family("notes", OLD), format=Avro(FORMATS[OLD].avro_schema))
    assert [each.revision for each in plan(StoredStore("value", (same,), {})).sources] == [OLD]


def test_a_script_edited_after_it_was_applied():
    error = refused(stored(NEW, applied={**CHECKSUMS, MIDDLE: "0123456789abcdef"}))
    assert error.summary == (
        "store notes: versions/r1.py was edited after it was applied to this checkpoint"
    )
    assert error.expected == "checksum 0123456789ab"
    assert error.found == "checksum r1r1r1r1r1r1"
    assert "accept_edited=('r1',)" in error.next_action
    assert error.data["revision"] == MIDDLE


def test_an_edited_script_may_be_accepted_and_is_then_what_was_applied():
    edited = stored(NEW, applied={**CHECKSUMS, MIDDLE: "0123456789abcdef"})
    made = plan(edited, accept_edited=(MIDDLE,))
    assert made.stored().applied == CHECKSUMS
    assert plan(made.stored()).target == made.target


def test_a_script_that_was_never_applied_may_be_edited():
    assert plan(stored(OLD, applied={})).target.revision == NEW


def test_two_heads_are_found_before_the_checkpoint_is_looked_at():
    first, last = lineage().migrations
    with pytest.raises(LineageError, match="two heads: r2 and r2b") as raised:
        Lineage.build("notes", [first, last, replace(last, revision="r2b", path="versions/r2b.py")])
    assert "`statemigrate new notes --rebase`" in raised.value.next_action
    assert raised.value.data["revisions"] == ("r2", "r2b")


def test_code_written_for_another_revision_than_its_target():
    error = refused(stored(NEW), code=declared(MIDDLE))
    assert error.summary == (
        "store notes: the code's schema is not the one of its target revision r2"
    )
    assert error.expected == FORMATS[NEW].struct_type().simpleString()
    assert error.found.startswith("label: found STRING, expected title STRING\n")
    assert error.found.endswith("\n" + FORMATS[MIDDLE].struct_type().simpleString())
    assert error.data["differences"] == error.found.splitlines()[:-1]
    assert "`statemigrate history --show notes@head`" in error.next_action
    assert "`statemigrate new notes -m MESSAGE`" in error.next_action
    assert error.data["head"] == NEW


def test_the_code_is_checked_also_when_nothing_is_stored_yet():
    assert "target revision r2" in refused(None, code=declared(OLD)).summary


def test_nullability_and_comments_do_not_make_another_schema():
    schema = Struct("title STRING NOT NULL COMMENT 'shown', ups INT, downs INT").struct_type()
    assert plan(None, code=declared(given=schema)).target.revision == NEW


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"kind": "list"}, "list state, map key None"),
        ({"kind": "map", "user_key": USER}, "map state, map key {'type': 'struct'"),
    ],
)
def test_a_store_keeps_its_kind(changes, found):
    error = refused(stored(NEW), code=declared(**changes))
    assert error.summary == "store notes changed its kind or its map key"
    assert error.expected == "value state, map key None"
    assert error.found.startswith(found)
    assert "give the new state another name" in error.next_action


def test_a_map_keeps_its_key():
    before = stored(NEW, kind="map", user_key=USER.jsonValue())
    other = Struct("user BIGINT").struct_type()
    assert plan(before, code=declared(kind="map", user_key=USER)).target.revision == NEW
    assert "'long'" in refused(before, code=declared(kind="map", user_key=other)).found


def test_a_store_without_scripts_has_one_revision_in_the_codes_format():
    made = plan_store(declared(OLD), None, None, DeploymentSettings())
    assert (made.target.name, made.target.revision) == ("notes", "base")
    again = plan_store(declared(OLD), None, made.stored(), DeploymentSettings())
    assert (again.target, again.sources) == (made.target, ())
    with pytest.raises(StartupError, match="format stored for revision base"):
        plan_store(declared(NEW), None, made.stored(), DeploymentSettings())


def test_families_of_revisions_and_not_one_script():
    with pytest.raises(StartupError) as raised:
        plan_store(declared(OLD), None, stored(NEW), DeploymentSettings())
    assert raised.value.summary == ("store notes has families of revisions, and not one script")
    assert raised.value.expected == "the scripts of r2"
    assert raised.value.data["families"] == ["notes@r2"]


def test_state_from_before_the_first_script_is_at_the_baselines_revision():
    before = plan_store(declared(OLD), None, None, DeploymentSettings()).stored()
    baseline = Migration("b0", None, "notes", None, FORMATS[OLD], checksum="b0", path="b0.py")
    made = plan_store(
        declared(OLD), Lineage.build("notes", [baseline]), before, DeploymentSettings()
    )
    assert (made.target.name, made.target.revision, made.sources) == ("notes", "b0", ())
    assert made.stored().applied == {"b0": "b0"}


def test_what_a_plan_stores_is_what_the_next_start_reads():
    made = plan(stored(OLD, MIDDLE, occupancy={OLD: "unknown", MIDDLE: "unknown"}))
    kept = StoredStore.from_json(made.stored().to_json())
    assert kept == made.stored()
    assert [each.revision for each in kept.families] == [NEW, MIDDLE, OLD]
    assert kept.applied == CHECKSUMS
    assert plan(kept).sources == made.sources


def test_scripts_count_as_applied_up_to_the_newest_live_family():
    back = plan(stored(NEW, OLD), code=declared(OLD), targets={"notes": OLD})
    assert back.stored().applied == CHECKSUMS
    gone = back.without(frozenset({"notes@r2"}))
    assert gone.stored().applied == {}


def test_a_plan_without_its_retired_families():
    made = plan(stored(OLD, MIDDLE))
    left = made.without(frozenset({"notes"}))
    assert isinstance(left, StorePlan)
    assert [each.revision for each in left.sources] == [MIDDLE]
    assert [path.source for path in left.paths] == [MIDDLE]
    assert made.without(frozenset()) == made


def test_what_a_family_holds_is_unknown_until_it_was_read():
    kept = StoredStore.from_json(stored(OLD, NEW).to_json())
    assert [each.occupancy for each in kept.families] == ["unknown", "unknown"]
    read = kept.marked({"notes": "nothing", "notes@r2": "something"}.__getitem__)
    assert [(each.name, each.occupancy) for each in read.families] == [
        ("notes", "nothing"), ("notes@r2", "something"),
    ]  # fmt: skip
