"""The hash of a set of records: their order says nothing, and every bit of them does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.embedded.content_hash import Contents, change, contents_of

keys = st.binary(max_size=6)
values = st.binary(max_size=12)
sets = st.dictionaries(keys, values, max_size=12)


@given(records=sets, order=st.randoms())
def test_the_order_of_records_says_nothing(records, order):
    shuffled = list(records.items())
    order.shuffle(shuffled)
    assert contents_of(shuffled) == contents_of(records.items())
    assert contents_of(shuffled).records == len(records)


@given(before=sets, after=sets)
def test_what_changed_leads_from_one_set_to_the_other(before, after):
    touched = [*{**before, **after}]
    step = change(touched, [*map(before.get, touched)], [*map(after.get, touched)])
    assert contents_of(before.items()) + step == contents_of(after.items())
    assert contents_of(after.items()) + -step == contents_of(before.items())


@given(one=sets, other=sets)
def test_sets_that_differ_have_other_hashes(one, other):
    found, others = contents_of(one.items()), contents_of(other.items())
    assert (found.hash == others.hash) == (one == other)


def test_key_and_value_divided_elsewhere_is_another_set():
    one = contents_of([(b"ab", b"c"), (b"d", b"ef")])
    assert one != contents_of([(b"a", b"bc"), (b"de", b"f")])
    assert contents_of([(b"", b"a")]) != contents_of([(b"a", b"")])


def test_values_that_changed_their_keys_are_another_set():
    assert contents_of([(b"a", b"1"), (b"b", b"2")]) != contents_of([(b"a", b"2"), (b"b", b"1")])


def test_every_bit_of_a_large_value_counts():
    value = bytes(100_000)
    found = {contents_of([(b"k", value)])}
    for at in (0, 4_095, 4_096, 99_999):
        found.add(contents_of([(b"k", value[:at] + b"\x01" + value[at + 1 :])]))
    found.add(contents_of([(b"k", value + b"\x00")]))
    assert len(found) == 6


def test_the_hash_is_the_same_on_every_machine_and_in_every_release():
    """It is compared with hashes in manifests: whoever changes it makes them all wrong."""
    found = contents_of([(b"key", b"value"), (b"", b"")])
    assert found.to_json() == {
        "records": 2,
        "hash": "2c8a15759e1f4684dc6bb4e934ab0c8e",
    }


@given(records=sets)
def test_it_comes_through_json(records):
    found = contents_of(records.items())
    assert Contents.from_json(found.to_json()) == found


@pytest.mark.parametrize("wrong", ["", "0" * 31, "g" * 32, "+" + "0" * 31, "0" * 33, "0" * 64])
def test_what_is_no_hash_is_refused(wrong):
    with pytest.raises(ValueError, match="hash"):
        Contents.from_json({"records": 1, "hash": wrong})
