"""Dual access on one partition: everything migrated, and the first touch of a key."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.measuring import Result, in_turn, median_ratio, seconds
from benchmarks.states import (
    LINEAGE,
    NEW_FAMILY,
    OLD_FAMILY,
    filled,
    key_of,
    old_item,
    place,
    upgrade,
)
from statemigrate.access import DualAccess, Source
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPlace
from statemigrate.formats import Value


def measure(keys: int = 100_000, rounds: int = 5) -> list[Result]:
    """Both ratios, each batch touching ``keys`` keys once by get and put."""
    return [_all_migrated(keys, rounds), _first_touch(keys, rounds)]


def _all_migrated(keys: int, rounds: int) -> Result:
    with place() as plain, place() as dual:
        alone = filled(plain, NEW_FAMILY, keys)
        beside_drained = filled(dual, NEW_FAMILY, keys)
        plain_times, dual_times = in_turn(
            lambda: _batch(plain, alone, keys, source=False),
            lambda: _batch(dual, beside_drained, keys, source=True),
            rounds,
        )
    ratio = median_ratio(dual_times, plain_times)
    figures = {"keys": keys, "plain_seconds": plain_times, "dual_seconds": dual_times}
    compared = "batch with a drained source against no migration"
    return Result("dual access, all migrated", compared, ratio, "at most", 1.05, figures)


def _first_touch(keys: int, rounds: int) -> Result:
    with place() as plain, place() as dual:
        migrated = filled(plain, NEW_FAMILY, keys)
        unmigrated = filled(dual, OLD_FAMILY, keys)
        plain_times, dual_times = in_turn(
            lambda: _batch(plain, migrated, keys, source=False),
            lambda: _batch(dual, unmigrated, keys, source=True),
            rounds,
        )
    ratio = median_ratio(dual_times, plain_times)
    figures = {"keys": keys, "plain_seconds": plain_times, "first_touch_seconds": dual_times}
    compared = "get+put of unmigrated keys against get+put"
    return Result("first touch", compared, ratio, "at most", 2.5, figures)


def _batch(at: PartitionPlace, state: PartitionState, keys: int, *, source: bool) -> float:
    """Seconds for the get+put of every key; nothing is committed, so each round is alike."""
    partition = Partition(at, state, 1)
    try:
        target = partition.target(NEW_FAMILY, "value")
        sources = [_source(partition)] if source else []
        access: DualAccess[Value] = DualAccess("items", target, sources)
        return seconds(_touching(access, keys))
    finally:
        partition.abandon()


def _source(partition: Partition) -> Source[Value]:
    family = partition.source(OLD_FAMILY, "value")
    return Source(family, LINEAGE.path(OLD_FAMILY.revision, NEW_FAMILY.revision))


def _touching(access: DualAccess[Value], keys: int) -> Callable[[], None]:
    order = [key_of(number) for number in range(keys)]
    random.Random(7).shuffle(order)
    expected = upgrade(old_item(0))

    def touch() -> None:
        get, put = access.get, access.put
        for key in order:
            value = get(key)
            assert value is not None
            put(key, value)
        assert get(key_of(0)) == expected

    return touch
