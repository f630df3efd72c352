"""The commit of a small batch on a small and on a large store."""

from __future__ import annotations

import random
import statistics

from benchmarks.measuring import Result, in_turn, seconds
from benchmarks.states import NEW_FAMILY, filled, key_of, old_item, place, upgrade
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths

_UPDATES = 1_000


def measure(large: int = 5_000_000, small: int = 100_000, rounds: int = 15) -> list[Result]:
    """Opening, 1,000 updates and the commit on one partition of ``large`` and ``small`` keys."""
    with place() as one, place() as other:
        on_small = _Store(one, small)
        on_large = _Store(other, large)
        small_times, large_times = in_turn(on_small.batch, on_large.batch, rounds)
    ratio = statistics.median(large_times) / statistics.median(small_times)
    figures = {
        "updates": _UPDATES,
        "small_seconds": small_times,
        "large_seconds": large_times,
        "small_commit_seconds": on_small.commits,
        "large_commit_seconds": on_large.commits,
    }
    compared = f"batch of 1,000 updates on {large:,} keys against {small:,}"
    return [Result("commit", compared, ratio, "at most", 1.5, figures)]


class _Store:
    def __init__(self, at: PartitionPaths, keys: int) -> None:
        self._at = at
        self._keys = keys
        self._version = 0
        self._random = random.Random(keys)
        self._state: PartitionState = filled(at, NEW_FAMILY, keys)
        self.commits: list[float] = []

    def batch(self) -> float:
        """Seconds of a whole batch on the partition, from opening to committed."""
        return seconds(self._batch)

    def _batch(self) -> None:
        self._version += 1
        partition = Partition(self._at, self._state, self._version)
        target = partition.target(NEW_FAMILY, "value")
        for _ in range(_UPDATES):
            number = self._random.randrange(self._keys)
            target.put(key_of(number), upgrade(old_item(number)))
        # A snapshot every ten batches, as the engine does by default.
        self.commits.append(seconds(lambda: self._commit(partition)))

    def _commit(self, partition: Partition) -> None:
        self._state = partition.commit(snapshot=self._version % 10 == 0)
