"""Adopting, migrating, going back and undoing in every order, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.ways_back import Figures, WrongError, play, shortened, ways

from soak.runner import Outcome

_LENGTHS = (6, 10, 16)


class WaysBackSoak:
    """Histories below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def history(self, seed: int) -> Outcome:
        """See `soak.runner.Engine`."""
        made, figures = ways(seed, _LENGTHS[seed % len(_LENGTHS)]), Figures()
        failure = None
        try:
            play(self._folder / "history", made, figures)
        except WrongError as error:
            short, again = shortened(self._folder / "history", made)
            failure = f"{error}\nshortened to {short!r}\nwhich gives {again}"
        return Outcome(len(made.commands), figures.refused, figures.answers, failure)

    def close(self) -> None:
        """See `soak.runner.Engine`."""
        shutil.rmtree(self._folder, ignore_errors=True)


def engine(folder: Path) -> WaysBackSoak:
    """See `soak.runner`."""
    return WaysBackSoak(folder)
