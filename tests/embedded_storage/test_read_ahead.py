"""Reading ahead answers what reading would have answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition
from statemigrate.embedded.partition import opened as opened_partition
from statemigrate.families import Span
from tests.support.partitions import COUNTS, batch, contents

KEYS = [bytes([1, number]) for number in range(6)]


@pytest.fixture
def opened(place):
    state = batch(place, PartitionState(), 0, {key: number for number, key in enumerate(KEYS[:4])})
    partition = Partition(place, state, 1)
    yield partition.target(COUNTS, "value")
    partition.abandon()


def test_a_value_read_ahead_is_handed_out_as_it_is_stored(opened):
    opened.read_ahead(KEYS)
    assert [opened.get(key) for key in KEYS] == [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}, None, None]


def test_a_write_counts_more_than_what_was_read_ahead(opened):
    opened.read_ahead(KEYS)
    opened.put(KEYS[0], {"n": 10})
    opened.delete(KEYS[1])
    opened.put(KEYS[5], {"n": 50})
    assert [opened.get(key) for key in KEYS] == [
        {"n": 10},
        None,
        {"n": 2},
        {"n": 3},
        None,
        {"n": 50},
    ]


def test_a_caller_may_change_the_value_it_was_given(opened):
    opened.read_ahead(KEYS)
    value = opened.get(KEYS[3])
    value["n"] = 99
    assert opened.get(KEYS[3]) == {"n": 3}


def test_nothing_is_read_ahead_for_a_processor_that_does_not_read(opened):
    opened.read_ahead(KEYS)
    opened.read_ahead(KEYS)
    opened.put(KEYS[0], {"n": 7})
    assert [opened.get(key) for key in KEYS[:2]] == [{"n": 7}, {"n": 1}]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ahead"), st.sets(st.sampled_from(KEYS))),
        st.tuples(st.sampled_from(["get", "delete"]), st.sampled_from(KEYS)),
        st.tuples(st.just("put"), st.sampled_from(KEYS)),
    ),
    max_size=30,
)


@given(actions=ACTIONS)
def test_any_sequence_reads_as_without_reading_ahead(tmp_path_factory, actions):
    from statemigrate.embedded.partition import PartitionPaths

    folder = tmp_path_factory.mktemp("partition")
    partition = Partition(
        PartitionPaths(0, folder / "durable", folder / "working"), PartitionState(), 0
    )
    family = partition.target(COUNTS, "value")
    model: dict[bytes, dict] = {}
    for number, (action, argument) in enumerate(actions):
        if action == "ahead":
            family.read_ahead(sorted(argument))
        elif action == "get":
            assert family.get(argument) == model.get(argument)
        elif action == "put":
            family.put(argument, {"n": number})
            model[argument] = {"n": number}
        else:
            family.delete(argument)
            model.pop(argument, None)
    assert {key: family.get(key) for key in KEYS} == {key: model.get(key) for key in KEYS}
    partition.abandon()


@pytest.mark.parametrize("step", [1, 2, 3, 50])
def test_keys_near_and_far_are_found_alike_beside_deleted_ones(place, step):
    held = {b"\x01%06d" % number: number for number in range(3_000)}
    state = batch(place, PartitionState(), 0, held)
    with opened_partition(place, state, 1) as partition:
        family = partition.target(COUNTS, "value")
        for number in (*range(40), *range(1_000, 2_500)):
            family.delete(b"\x01%06d" % number)
            del held[b"\x01%06d" % number]
        asked = [b"\x01%06d" % number for number in range(0, 4_000, step)]
        for start in range(0, len(asked), 64):
            block = asked[start : start + 64]
            family.read_ahead(block[::-1])
            expected = [{"n": held[key]} if key in held else None for key in block]
            assert [family.get(key) for key in block] == expected


def test_what_was_written_of_late_is_seen_by_every_way_of_reading(place):
    """Writes wait for a block; whoever looks at the family meanwhile is not to notice."""
    state = batch(place, PartitionState(), 0, {key: number for number, key in enumerate(KEYS[:4])})
    with opened_partition(place, state, 1) as partition:
        family = partition.source(COUNTS, "value")
        family.put(KEYS[0], {"n": 10})
        family.delete(KEYS[1])
        assert family.contains_any([KEYS[1]]) is False
        family.delete(KEYS[2])
        assert (family.contains(KEYS[0]), family.contains(KEYS[2])) == (True, False)
        assert list(family.scan(Span())) == [(KEYS[0], {"n": 10}), (KEYS[3], {"n": 3})]
        family.put_many([KEYS[0]], [{"n": 11}])
        family.delete(KEYS[3])
        assert partition.written == 5
        assert partition.drop("counts") is False
        family.delete(KEYS[0])
        assert family.is_drained()
        assert partition.drop("counts") is True
        state = partition.commit(snapshot=False)
    assert contents(place, state) == {}
