"""Ending a deployment in the middle of a batch, and being sure that it was the middle."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.demo.processes import ProcessSession
from statemigrate.embedded.layout import Layout


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
    noted but not committed, with the changelog of at least one partition written.
    """

    def __init__(
        self, session: ProcessSession, layout: Layout, partitions: int, first_batch: int
    ) -> None:
        self._session = session
        self._layout = layout
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

    def _written(self, batch: int) -> int:
        places = [self._layout.partition(number) for number in range(self._partitions)]
        return sum(any(place.glob(f"{batch:012d}-*.changelog")) for place in places)

    def _newest(self, log: str) -> int:
        names = [path.name for path in (self._layout.checkpoint / log).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)
