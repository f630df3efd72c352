"""Which revision the state of an operator has, told from its formats or by a rewrite's note."""

import pytest

from statemigrate.errors import StartupError
from statemigrate.formats import Struct
from statemigrate.migration import Lineage, Migration
from statemigrate.native.deployment_check import StoreRecord
from statemigrate.state.spark_operators import stored_revision

A, B = Struct("a BIGINT"), Struct("b BIGINT")
SHOP, DAY = Struct("shop STRING"), Struct("day STRING")


def lineage(*, key=None):
    first = Migration("a1", None, "aggregation-0", None, A, new_key=key)
    second = Migration("b2", "a1", "aggregation-0", A, A, new_key=DAY, rekey=lambda key, value: key)
    third = Migration("c3", "b2", "aggregation-0", A, B, upgrade=dict)
    return Lineage.build("aggregation-0", [first, second, third])


@pytest.mark.parametrize(
    ("key", "value", "held", "found"),
    [
        (SHOP, A, SHOP, "a1"),
        (SHOP, A, DAY, "b2"),
        (None, A, SHOP, "a1"),
        (DAY, A, DAY, "a1"),
        (None, B, DAY, "c3"),
        (SHOP, Struct("b BIGINT NOT NULL"), DAY, "c3"),
    ],
)
def test_formats_and_keys_tell_the_revision(key, value, held, found):
    assert stored_revision(lineage(key=key), value, held, StoreRecord()) == found


def test_keys_that_two_revisions_may_have_are_not_guessed():
    with pytest.raises(StartupError) as raised:
        stored_revision(lineage(), A, DAY, StoreRecord())
    assert "may be of revision a1, or of b2 already" in raised.value.summary
    assert "`new_key` in the baseline" in raised.value.next_action


def test_what_a_rewrite_noted_comes_first():
    noted = StoreRecord(families=("aggregation-0@b2",))
    assert stored_revision(lineage(key=DAY), A, DAY, noted) == "b2"
    oldest = StoreRecord(families=("aggregation-0",))
    assert stored_revision(lineage(), A, DAY, oldest) == "a1"


def test_state_of_no_revision_is_refused():
    with pytest.raises(StartupError) as raised:
        stored_revision(lineage(key=SHOP), Struct("x INT"), SHOP, StoreRecord())
    assert "the format, and the keys, of no revision" in raised.value.summary
    assert "one of a1, b2, c3" in raised.value.expected
