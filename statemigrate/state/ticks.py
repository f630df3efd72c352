"""How far the tasks of a Spark job are, seen from outside while they run on this machine."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statemigrate.state.values import Tick

_EVERY = 8_192
_SECONDS = 0.25


@dataclass(frozen=True)
class Ticks:
    """Where tasks note how many values they have read: a small file for each.

    Spark tells of a task's accumulators only when it has ended. On another machine than the
    driver's the notes are lost, and nothing but the progress shown depends on them.
    """

    directory: Path

    def count(self, task: int, index: int) -> None:
        """Note that the task is at ``index``; most calls do nothing."""
        if index % _EVERY == _EVERY - 1:
            self.directory.mkdir(parents=True, exist_ok=True)
            noted = self.directory / str(task)
            before = int(noted.read_text() or 0) if noted.exists() else 0
            noted.write_text(str(before + _EVERY))

    def total(self) -> int:
        """What all tasks have noted; a file that is just being written counts for nothing."""
        return sum(int(path.read_text() or 0) for path in self.directory.glob("*"))


@contextmanager
def ticking(tick: Tick) -> Iterator[Ticks]:
    """Call ``tick`` a few times a second with what the tasks have noted, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-ticks-") as directory:
        ticks, done = Ticks(Path(directory)), threading.Event()
        thread = threading.Thread(target=_follow, args=(ticks, tick, done), daemon=True)
        thread.start()
        try:
            yield ticks
        finally:
            done.set()
            thread.join()


def _follow(ticks: Ticks, tick: Tick, done: threading.Event) -> None:
    while not done.wait(_SECONDS):
        tick(ticks.total())
