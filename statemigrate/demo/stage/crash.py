"""Ending a deployment in the middle of a batch, and being sure that it was the middle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from statemigrate.demo.stage.processes import ProcessSession


@dataclass(frozen=True)
class Crash:
    """A batch that was begun and not committed when its processes were killed.

    ``partitions_written`` of the ``partitions`` had already made their part of it durable.
    """

    batch: int
    partitions: int
    partitions_written: int


class MidBatchKill:
    """Waits for a batch from ``first_batch`` on to be half done, then kills.

    Spark notes a batch in ``offsets`` before it runs and in ``commits`` after it. Half done is
    noted but not committed, with the part of at least one partition written; ``written`` counts
    those of a batch.
    """

    def __init__(
        self,
        session: ProcessSession,
        checkpoint: Path,
        partitions: int,
        first_batch: int,
        written: Callable[[int], int],
    ) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._written = written
        self._partitions = partitions
        self._first = first_batch

    def strike(self) -> Crash | None:
        """Kill if the moment is right; None if it is not. Never blocks for long."""
        batch = self._newest("offsets")
        if batch < self._first or not self._is_half_done(batch):
            return None
        self._session.stop()
        # Only of halted processes is it certain what they have done.
        if not self._is_half_done(batch):
            self._session.resume()
            return None
        self._session.kill()
        return Crash(batch, self._partitions, self._written(batch))

    def _is_half_done(self, batch: int) -> bool:
        return self._newest("commits") < batch and self._written(batch) > 0

    def _newest(self, log: str) -> int:
        names = [path.name for path in (self._checkpoint / log).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)
