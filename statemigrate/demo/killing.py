"""The first deployment of every demonstration, which is ended in the middle of a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.stage.crash import Crash, MidBatchKill
from statemigrate.demo.stage.deployment import Deployment
from statemigrate.demo.stage.options import DemoOptions
from statemigrate.demo.stage.places import DemoFolder
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
