"""Rival drivers and commands on one checkpoint, interleaved at every file operation."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.rivals.book import Book
from support.rivals.scenes import WrongError

from soak.runner import Outcome


class RivalsSoak:
    """Schedules at random, of one scene after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._book = Book(folder)

    def history(self, seed: int) -> Outcome:
        """See `soak.runner.Engine`; a life is a driver, and the values are file operations."""
        try:
            played = self._book.play(seed)
        except WrongError as error:
            return Outcome(2, 0, 0, str(error))
        return Outcome(played.drivers, played.refused, len(played.operations))

    def close(self) -> None:
        """See `soak.runner.Engine`."""
        shutil.rmtree(self._folder, ignore_errors=True)


def engine(folder: Path) -> RivalsSoak:
    """See `soak.runner`."""
    return RivalsSoak(folder)
