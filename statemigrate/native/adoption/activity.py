"""Signs that a query is running on a checkpoint.

Spark keeps no lock there. What can be seen is that files come and go, and that the newest batch was
not committed; a query that waits for input looks like one that was stopped.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from statemigrate.errors import CheckpointInUseError
from statemigrate.native.adoption.offsets import OffsetLog

WATCHED = 5.0
"""Seconds for which a checkpoint is watched, unless said otherwise."""

_STOP = "stop the query, and wait until its process has ended; then run the command again"


def require_stopped(log: OffsetLog, *, confirmed: bool, watched: float) -> None:
    """Raise `CheckpointInUseError` if the query runs, or may be running and nobody denies it.

    ``confirmed`` is the caller's word that it was stopped, asked for where the newest batch was not
    committed: it was killed, or is being processed now. ``watched`` is in seconds.
    """
    if log.last_commit != log.last_batch and not confirmed:
        raise CheckpointInUseError(
            f"batch {log.last_batch} in {log.checkpoint} was not committed",
            expected="a query that was stopped",
            found="a batch that is being processed now, or that was killed",
            next_action=f"{_STOP}, with --stopped (stopped=True)",
            path=str(log.checkpoint),
        )
    before = _directories(log.checkpoint)
    time.sleep(watched)
    after = _directories(log.checkpoint)
    changed = sorted(str(path) for path, _ in before.items() ^ after.items())
    if changed:
        raise CheckpointInUseError(
            f"a query is running on {log.checkpoint}",
            expected=f"no change within {watched:g} seconds",
            found=f"changes in {', '.join(sorted(set(changed))[:3])}",
            next_action=_STOP,
            path=str(log.checkpoint),
        )


def _directories(checkpoint: Path) -> dict[Path, int]:
    # A file that is created, renamed or removed changes its directory's time; Spark does no other.
    found = {}
    for directory, _, _ in os.walk(checkpoint):
        try:
            found[Path(directory)] = Path(directory).stat().st_mtime_ns
        except FileNotFoundError:
            found[Path(directory)] = -1
    return found
