"""What a family's name tells, and which of a store's families is the target's."""

import pytest
from support import notes

from statemigrate.deployment import (
    StoredFamily,
    StoredStore,
    check_scripted,
    family_name,
    is_family_of,
    revision_in,
    store_of,
)
from statemigrate.errors import StartupError

LINEAGE = notes.lineage()


def test_a_name_and_what_it_tells_go_together():
    oldest, *others = LINEAGE.revisions
    assert family_name(LINEAGE, oldest) == LINEAGE.store
    assert (store_of(LINEAGE.store), revision_in(LINEAGE.store)) == (LINEAGE.store, None)
    for revision in others:
        name = family_name(LINEAGE, revision)
        assert (store_of(name), revision_in(name)) == (LINEAGE.store, revision)
        assert is_family_of(LINEAGE.store, name)


@pytest.mark.parametrize("name", ["notesx", "notes2@r1", "xnotes", "note", ""])
def test_a_name_that_only_begins_alike_is_another_store_s(name):
    assert not is_family_of("notes", name)


def test_a_plain_store_with_the_sign_in_its_name_is_no_family_of_a_revision():
    assert is_family_of("a@b", "a@b")
    check_scripted("a@b", ["a@b"])
    with pytest.raises(StartupError, match="has families of revisions") as caught:
        check_scripted("a", ["a", "a@b"])
    assert caught.value.data == {"store": "a", "families": ["a@b"]}
    assert caught.value.expected == "the scripts of b"


def test_the_target_leads_then_the_newest_and_last_what_no_script_knows():
    names = [family_name(LINEAGE, each) for each in LINEAGE.revisions]
    families = [notes.family(LINEAGE.store, each) for each in LINEAGE.revisions]
    unknown = StoredFamily("notes@gone", "gone", families[0].format)
    stored = StoredStore("value", (unknown, *families))
    led = stored.led_by(names[1], LINEAGE)
    newest_first = [name for name in reversed(names) if name != names[1]]
    assert led.target.name == names[1]
    assert [each.name for each in led.others] == [*newest_first, "notes@gone"]
    assert stored.led_by(None, LINEAGE).target.name == names[-1]
