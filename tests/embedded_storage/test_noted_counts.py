"""A family's noted count is believed only as far as something stands behind it."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.partitions import COUNTS, as_first_release, batch, contents

from statemigrate.deployment import StoredFamily
from statemigrate.embedded.batches import Batches, Engine
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import Partition, opened
from statemigrate.formats import Struct

TARGET = StoredFamily("counts@b", "b", Struct("n BIGINT"))


def noted(place, count):
    """A committed state with two values, and a note of ``count``."""
    partition = Partition(place, PartitionState(), 0)
    source = partition.target(COUNTS, "value")
    source.put(b"a", {"n": 1})
    source.put(b"b", {"n": 2})
    partition._write_meta(b"left/counts", str(count).encode())
    return partition.commit(snapshot=True)


def seen_by_a_batch(place, state):
    with opened(place, state, 1) as partition:
        return partition.source(COUNTS, "value").entries


@pytest.mark.parametrize("count", [0, -1])
def test_a_note_that_nothing_is_left_is_compared_with_what_is_there(place, count):
    assert seen_by_a_batch(place, noted(place, count)) == 2


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
def test_what_the_first_release_noted_is_counted_again(place, count):
    state = as_first_release(noted(place, count))
    assert seen_by_a_batch(place, state) == 2


def test_a_family_with_values_is_never_described_as_empty(place):
    state = noted(place, 1)
    with opened(place, state, 1) as partition:
        source = partition.source(COUNTS, "value")
        target = partition.target(TARGET, "value")
        source.delete(b"a")
        target.put(b"a", {"n": 1})
        after = partition.commit(snapshot=False)
    assert after.entries["counts"] is None
    assert contents(place, after) == {b"b": 2}


def test_nothing_is_retired_by_what_the_first_release_noted(place):
    state = as_first_release(batch(place, PartitionState(), 0, {b"a": 1}, snapshot=True))
    empty = replace(state, entries={"counts": 0})
    before = Manifest(0, {}, (empty,), {}, {})
    assert not before.is_counted
    assert _retirable(before) == frozenset()
    assert _retirable(
        replace(before, partitions=(replace(empty, base=PartitionState().base),))
    ) == {"counts"}


def _retirable(before):
    class Options:
        retire_drained = True
        retain = 2
        shared_path = False

    class Store:
        sources = (COUNTS,)

    layout = Layout(Path("nowhere"))
    engine = Engine(layout, "", None, None, None, Options(), None, None)
    batches = Batches(engine, lambda _: {})
    batches._stores = {"counts": Store()}
    return batches._retirable(before)
