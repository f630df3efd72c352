"""Adopting a query, and undoing it: what the command line calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from statemigrate.errors import CheckpointError
from statemigrate.native.adoption.activity import WATCHED, require_stopped
from statemigrate.native.adoption.outcome import Adoption
from statemigrate.native.adoption.plan import plan_adoption, plan_undoing
from statemigrate.native.adoption.refusals import has_named_sources, native_log
from statemigrate.native.adoption.steps import adopting, undoing
from statemigrate.native.offsets import OffsetLog


def adopt(
    checkpoint: str, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Adoption:
    """Make room for the control source behind the sources of a query that was stopped.

    Without ``apply`` nothing is changed. ``stopped`` confirms that a query whose newest batch was
    not committed is not running; ``wait`` is how many seconds the checkpoint is watched for changes
    first. A run that was interrupted is finished by the next one.

    Raises `CheckpointInUseError` if the query is or may be running, and `CheckpointError` where
    there is nothing to adopt, or what is found is not understood; then nothing was changed.
    """
    log = native_log(checkpoint)
    if has_named_sources(log):
        return Adoption(str(log.checkpoint), "nothing needed")
    plan = plan_adoption(log)
    if not apply:
        return plan.described("would adopt")
    require_stopped(log, confirmed=stopped, watched=wait)
    plan = plan_adoption(native_log(checkpoint))
    done = plan.described("adopted")
    with _interrupted(log):
        for _ in adopting(plan):
            pass
    return done


def undo_adoption(
    checkpoint: str, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Adoption:
    """Take the control source out again, whether or not it has run since.

    Files that no batch has followed become what they were. The directory of the removed source goes
    to the backup, so that a later adoption starts afresh. Arguments and errors as of `adopt`.
    """
    log = native_log(checkpoint)
    if has_named_sources(log):
        return Adoption(str(log.checkpoint), "nothing needed")
    plan = plan_undoing(log)
    if not apply:
        return plan.described("would undo")
    require_stopped(log, confirmed=stopped, watched=wait)
    plan = plan_undoing(native_log(checkpoint))
    done = plan.described("undone")
    with _interrupted(log):
        for _ in undoing(plan):
            pass
    return done


@contextmanager
def _interrupted(log: OffsetLog) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"cannot change {log.checkpoint}: {error.strerror or error}",
            expected="a directory this user can write to, with free space",
            found=str(error),
            next_action="correct that, then run the same command again: it finishes what it began",
            path=str(log.checkpoint),
        ) from error
