"""Dual access on one partition: everything migrated, and the first touch of a key."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

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
from statemigrate.access import DualAccess
from statemigrate.deployment import StoredFamily
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.families import Source
from statemigrate.formats import Value


def measure(keys: int = 100_000, rounds: int = 5) -> list[Result]:
    """Both ratios, each batch touching ``keys`` keys once by get and put."""
    return [_all_migrated(keys, rounds), _first_touch(keys, rounds)]


def _all_migrated(keys: int, rounds: int) -> Result:
    ratio, figures = _dual_against_plain(NEW_FAMILY, keys, rounds)
    compared = "batch with a drained source against no migration"
    return Result("dual access, all migrated", compared, ratio, "at most", 1.05, figures)


def _first_touch(keys: int, rounds: int) -> Result:
    ratio, figures = _dual_against_plain(OLD_FAMILY, keys, rounds)
    compared = "get+put of unmigrated keys against get+put"
    return Result("first touch", compared, ratio, "at most", 2.5, figures)


def _dual_against_plain(
    stored: StoredFamily, keys: int, rounds: int
) -> tuple[float, dict[str, Any]]:
    """Batches over a partition whose values are in ``stored``, against one with no source."""
    with place() as plain, place() as dual:
        alone = filled(plain, NEW_FAMILY, keys)
        beside = filled(dual, stored, keys)
        plain_times, dual_times = in_turn(
            lambda: _batch(plain, alone, keys, source=False),
            lambda: _batch(dual, beside, keys, source=True),
            rounds,
        )
    figures = {"keys": keys, "plain_seconds": plain_times, "dual_seconds": dual_times}
    return median_ratio(dual_times, plain_times), figures


def _batch(at: PartitionPaths, state: PartitionState, keys: int, *, source: bool) -> float:
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
