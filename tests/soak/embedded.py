"""Histories of embedded queries, without Spark: deployments, crashes, lost folders, copies."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.crash.nursery import Nursery
from support.histories.generator import history
from support.histories.playing import Played, Player

from soak.runner import Outcome

_HASH_SEEDS = 3
_HISTORIES = 50
"""After so many histories the processes are made anew, with other hash seeds."""


class EmbeddedSoak:
    """Histories below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nurseries: dict[int, Nursery] = {}

    def history(self, seed: int) -> Outcome:
        """See `soak.runner.Engine`."""
        player = Player(self._folder / "histories", self._prepared(seed))
        steps = history(seed)
        played = player.play(steps)
        return Outcome(
            played.lives, played.kills, played.values, self._failure(player, steps, played)
        )

    def close(self) -> None:
        """See `soak.runner.Engine`."""
        for nursery in self._nurseries.values():
            nursery.close()
        self._nurseries = {}
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepared(self, seed: int) -> list[Nursery]:
        # Spark's workers run with the hash seed 0; the others follow from the history's seed.
        first = 1 + seed // _HISTORIES * _HASH_SEEDS
        wanted = [0, *range(first, first + _HASH_SEEDS)]
        for hash_seed in set(self._nurseries) - set(wanted):
            self._nurseries.pop(hash_seed).close()
        for hash_seed in set(wanted) - set(self._nurseries):
            self._nurseries[hash_seed] = Nursery(hash_seed, ["support.histories.lives"])
        return [self._nurseries[each] for each in wanted]

    @staticmethod
    def _failure(player: Player, steps: list[object], played: Played) -> str | None:
        if played.failure is None:
            return None
        shortest = player.shortened(steps, seconds=120)
        again = player.play(shortest).failure
        listed = "\n  ".join(map(repr, shortest))
        return f"{played.failure}\nshortened to\n  {listed}\nwhich gives {again}"


def engine(folder: Path) -> EmbeddedSoak:
    """See `soak.runner`."""
    return EmbeddedSoak(folder)
