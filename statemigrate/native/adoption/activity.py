"""Signs that a query is running on a checkpoint.

Spark keeps no lock there. What can be seen is that files come and go, and that the newest batch was
not committed; a query that waits for input looks like one that was stopped.
"""

from __future__ import annotations

import time

from statemigrate.errors import CheckpointInUseError
from statemigrate.files import Files
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
            "SM-ADOPT-001",
            f"batch {log.last_batch} in {log.checkpoint} was not committed",
            expected="a query that was stopped",
            found="a batch that is being processed now, or that was killed",
            next_action=f"{_STOP}, with --stopped (stopped=True)",
            path=log.checkpoint,
        )
    before = _present(log.files)
    time.sleep(watched)
    after = _present(log.files)
    folders = {name.rpartition("/")[0] for name, _ in before ^ after}
    changed = [f"{log.checkpoint}/{folder}" for folder in folders]
    if folders:
        raise CheckpointInUseError(
            "SM-ADOPT-002",
            f"a query is running on {log.checkpoint}",
            expected=f"no change within {watched:g} seconds",
            found=f"changes in {', '.join(sorted(set(changed))[:3])}",
            next_action=_STOP,
            path=log.checkpoint,
        )


def _present(files: Files) -> set[tuple[str, str]]:
    return {(each.name, each.tag) for each in files.list(recursive=True)}
