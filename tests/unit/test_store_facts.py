"""What was read of a store, compared with what code declares of it."""

from dataclasses import replace

import pytest
from support import notes

from statemigrate.deployment import Declared, StoreFacts, check_expiry
from statemigrate.errors import StartupError
from statemigrate.formats import Struct

OLD = notes.family("notes", notes.OLD)
USER = Struct("user INT").struct_type()
SAME = Struct("user INT NOT NULL").struct_type()
OTHER = Struct("user STRING").struct_type()
DECLARED = Declared("notes", "map", notes.FORMATS[notes.NEW].struct_type(), USER)
FACTS = StoreFacts("map", SAME, {"notes": False}, (OLD,), {"r1": "0" * 64})


def test_a_store_without_a_family_is_not_stored():
    assert StoreFacts().stored() is None
    assert StoreFacts().stored_for(DECLARED) is None


def test_without_code_a_store_is_as_it_was_read():
    stored = FACTS.stored()
    assert stored is not None
    assert (stored.kind, stored.families, stored.applied) == ("map", (OLD,), {"r1": "0" * 64})
    assert stored.user_key == SAME.jsonValue()


def test_a_map_key_that_holds_the_same_is_as_declared():
    same, other = FACTS.stored_for(DECLARED), FACTS.stored_for(replace(DECLARED, user_key=OTHER))
    assert same is not None
    assert other is not None
    assert same.user_key == USER.jsonValue()
    assert other.user_key == SAME.jsonValue(), "what is declared otherwise is told by the check"


def test_a_family_that_is_not_listed_is_of_the_kind_that_is_declared():
    unlisted = StoreFacts(families=(OLD,))
    stored = unlisted.stored_for(DECLARED)
    assert stored is not None
    assert (stored.kind, stored.user_key) == ("map", USER.jsonValue())
    assert unlisted.stored() is None, "without code nothing is known of it"


@pytest.mark.parametrize(
    ("expires", "ttl", "expected", "found"),
    [
        (True, None, "values expire, as in family notes", "values do not expire"),
        (False, 1000, "values do not expire, as in family notes", "values expire"),
    ],
)
def test_values_expire_in_the_state_if_and_only_if_they_do_by_the_code(
    expires, ttl, expected, found
):
    facts = replace(FACTS, expires={"notes": expires})
    check_expiry(replace(DECLARED, ttl=1000 if expires else None), facts)
    with pytest.raises(StartupError, match="differ in time to live") as caught:
        check_expiry(replace(DECLARED, ttl=ttl), facts)
    assert (caught.value.expected, caught.value.found) == (expected, found)
