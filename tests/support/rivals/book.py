"""All scenes, a schedule at random by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from support.rivals.commands import Adoption, PacedBackfill
from support.rivals.scenes import (
    EmbeddedStarts,
    Epochs,
    NativeStarts,
    PagedStarts,
    Rewrites,
    Scene,
    WrongError,
)
from support.rivals.scheduler import Drawn, Rivals


class Book:
    """The scenes, by seed: of each as many schedules at random as there are seeds."""

    def __init__(self, folder: Path, names: Sequence[str] = ()) -> None:
        made: dict[str, Callable[[Path], Scene]] = {
            "epochs": lambda _: Epochs(3),
            "native": lambda _: NativeStarts(2),
            "pages": lambda _: PagedStarts(2),
            "rewrites": Rewrites,
            "backfill": lambda _: PacedBackfill(),
            "chunks": lambda _: PacedBackfill(()),
            "adoption": Adoption,
            "embedded": partial(EmbeddedStarts, batches=2),
            "command": partial(EmbeddedStarts, command=True),
        }
        self.scenes = {name: made[name](folder / name) for name in names or made}

    def play(self, seed: int) -> Rivals:
        """The schedule of a seed. Raises `WrongError`, which says how to have it again."""
        name = list(self.scenes)[seed % len(self.scenes)]
        try:
            return self.scenes[name].play(Drawn(seed))
        except WrongError as error:
            raise WrongError(
                f"rivals of the scene {name}, seed {seed}: {error}\n"
                f"repeat: make soak ENGINE=rivals SEED={seed} MINUTES=0"
            ) from error
