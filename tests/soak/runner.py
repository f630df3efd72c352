"""Runs one engine's histories until the time is over, and says each minute how it goes.

An engine is a module of this package with a function ``engine(folder)`` that gives an `Engine`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass
class Outcome:
    """What one history came to.

    ``lives`` are runs of a query or a command, ``kills`` those of them that were ended or met an
    error, ``values`` the entries compared. ``failure`` tells what was wrong and how it came about.
    """

    lives: int = 0
    kills: int = 0
    values: int = 0
    failure: str | None = None


class Engine(Protocol):
    """Something that has histories; all of one follows from its seed."""

    def history(self, seed: int) -> Outcome:
        """Make the history of a seed happen, and compare."""

    def close(self) -> None:
        """End what was started for it."""


@dataclass
class Figures:
    """The sums of a soak."""

    histories: int = 0
    lives: int = 0
    kills: int = 0
    values: int = 0
    wrong: int = 0

    def add(self, outcome: Outcome) -> None:
        self.histories += 1
        self.lives += outcome.lives
        self.kills += outcome.kills
        self.values += outcome.values
        self.wrong += outcome.failure is not None

    def __str__(self) -> str:
        return (
            f"{self.histories} histories, {self.lives} lives, {self.kills} kills, "
            f"{self.values} values compared, {self.wrong} wrong"
        )


def soak(
    engine: Engine,
    name: str,
    seconds: float,
    first_seed: int,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Figures:
    """Run the histories of ``first_seed``, the next seed, and so on; at least one."""
    began = told = clock()
    figures, seed = Figures(), first_seed
    while not figures.histories or clock() - began < seconds:
        outcome = engine.history(seed)
        figures.add(outcome)
        if outcome.failure is not None:
            say(f"WRONG in history {seed}: {outcome.failure}")
            say(f"repeat: make soak ENGINE={name} SEED={seed} MINUTES=0")
        if clock() - told >= 60:
            told += 60
            say(f"{(clock() - began) / 60:.0f} min: {figures}")
        seed += 1
    say(f"{name}, {(clock() - began) / 60:.1f} minutes, seeds from {first_seed}: {figures}")
    return figures
