"""The first deployment of every demonstration, which is ended in the middle of a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from statemigrate.demo.options import DemoOptions
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import Batch, Crash, Deployment, MidBatchKill
from statemigrate.errors import StatemigrateError

FILES = 12
FIRST_FILES = 9  # what the first deployment sees
KILL_FROM = 6  # the first batch worth interrupting: by then there is state to lose
_POLL = 0.01  # seconds


def until_killed(
    folder: DemoFolder, options: DemoOptions, written: Callable[[int], int]
) -> Iterator[Batch | Crash]:
    """The batches of the first deployment until it is killed, and then how it was killed.

    ``written`` counts the partitions that have made their part of a batch durable. Raises
    `StatemigrateError` when it was done before.
    """
    folder.arrive(FIRST_FILES)
    with Deployment(folder, "before") as deployment:
        kill = MidBatchKill(
            deployment.session, folder.checkpoint, options.partitions, KILL_FROM, written
        )
        crash = None
        while crash is None:
            if deployment.has_ended():
                raise _never_half_done(options)
            crash = kill.strike()
            yield from deployment.new_batches()
            time.sleep(_POLL)
    yield crash


def _never_half_done(options: DemoOptions) -> StatemigrateError:
    return StatemigrateError(
        "SM-DEMO-001",
        "the first deployment was done before a batch of it could be interrupted",
        expected="a batch long enough to be caught in the middle",
        found=f"{FIRST_FILES} batches of {options.events // FILES} events",
        next_action=f"run it again, or with larger batches: --events {2 * options.events}",
    )


# How long each act of a demonstration takes.


class ActTimes:
    """Seconds by the names of acts, rounded to tenths."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        began = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - began, 1)

    def to_json(self) -> dict[str, float]:
        """Each act, and all of them together."""
        return {**self._seconds, "all": round(sum(self._seconds.values()), 1)}
