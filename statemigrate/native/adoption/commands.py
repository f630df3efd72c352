"""Adopting a query, and undoing it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from statemigrate.errors import StorageError
from statemigrate.files.opening import Place
from statemigrate.native.adoption.activity import WATCHED, require_stopped
from statemigrate.native.adoption.offsets import OffsetLog
from statemigrate.native.adoption.older_code import (
    Count,
    NewerValues,
    check_older_code,
    counting,
    newer_values,
    record_oldest,
)
from statemigrate.native.adoption.outcome import Adoption
from statemigrate.native.adoption.plan import plan_adoption, plan_undoing
from statemigrate.native.adoption.refusals import has_named_sources, has_room, native_log
from statemigrate.native.adoption.relocation import KEPT, Relocation, plan_relocation
from statemigrate.native.adoption.steps import adopting, undoing


def adopt(
    checkpoint: Place, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Adoption:
    """Make room for the control source behind the sources of a query that was stopped.

    A checkpoint that was moved or copied here is made to name its own files, which Spark needs to
    start it; where it has room for the control source already, that is all.

    Without ``apply`` nothing is changed. ``stopped`` confirms that a query whose newest batch was
    not committed is not running; ``wait`` is how many seconds the checkpoint is watched for changes
    first. A run that was interrupted is finished by the next one.

    Raises `CheckpointInUseError` if the query is or may be running, and `CheckpointError` where
    there is nothing to adopt, or what is found is not understood; then nothing was changed.
    """
    log = native_log(checkpoint)
    relocation = plan_relocation(log.files)
    if relocation.files and has_room(log):
        return _relocate(log, relocation, apply=apply, stopped=stopped, wait=wait)
    if has_named_sources(log):
        return Adoption(log.checkpoint, "nothing needed")
    plan = plan_adoption(log)
    if not apply:
        return replace(plan.described("would adopt"), uncommitted=_is_uncommitted(log))
    require_stopped(log, confirmed=stopped, watched=wait)
    # Read again: the query may have gone on before it was seen to stand still.
    plan = plan_adoption(native_log(checkpoint))
    done = plan.described("adopted")
    with _interrupted(log):
        for _ in adopting(plan):
            pass
    return done


def undo_adoption(
    checkpoint: Place,
    *,
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    declared: Collection[str] = (),
    count: Count | None = None,
) -> Adoption:
    """Take the control source out again, whether or not it has run since.

    The way to code without it is open then, and such code mostly declares the oldest family of
    each store alone: Spark would forget every other one. So all are read, also without ``apply``,
    and none may have a value but those that are ``declared`` by the code that starts next. They are
    read with ``count``, of the last committed batch; unless given, with the active session.

    Files that no batch has followed become what they were. The directory of the removed source goes
    to the backup, so that a later adoption starts afresh. Other arguments and errors as of `adopt`.
    """
    log = native_log(checkpoint)
    guard = partial(_guarded, declared, count or counting(log.checkpoint))
    if has_named_sources(log):
        found = guard(log)
        if apply:
            require_stopped(log, confirmed=stopped, watched=wait)
            _record(log, guard(log, found), declared)
        return Adoption(log.checkpoint, "nothing needed")
    plan, found = plan_undoing(log), guard(log)
    if not apply:
        return replace(plan.described("would undo"), uncommitted=_is_uncommitted(log))
    require_stopped(log, confirmed=stopped, watched=wait)
    # Read again: the query may have gone on before it was seen to stand still.
    log = native_log(checkpoint)
    plan, found = plan_undoing(log), guard(log, found)
    done = plan.described("undone")
    with _interrupted(log):
        _record(log, found, declared)
        for _ in undoing(plan):
            pass
    return done


def _guarded(
    declared: Collection[str], count: Count, log: OffsetLog, before: NewerValues | None = None
) -> NewerValues:
    """What was read; once for a batch. Raises `CheckpointError` where code would forget values."""
    if before is not None and before.batch == log.last_commit:
        return before
    found = newer_values(log, count)
    check_older_code(log, found, declared)
    return found


def _record(log: OffsetLog, found: NewerValues, declared: Collection[str]) -> None:
    if not declared:
        record_oldest(log, found)


def _relocate(
    log: OffsetLog, relocation: Relocation, *, apply: bool, stopped: bool, wait: float
) -> Adoption:
    described = partial(
        Adoption,
        log.checkpoint,
        backup=f"{log.checkpoint}/{KEPT}",
        relocated=relocation.paths,
        moved_from=relocation.roots,
    )
    if not apply:
        return described("would relocate", uncommitted=_is_uncommitted(log))
    require_stopped(log, confirmed=stopped, watched=wait)
    with _interrupted(log):
        for _ in plan_relocation(log.files).steps():
            pass
    return described("relocated")


def _is_uncommitted(log: OffsetLog) -> bool:
    return log.last_commit != log.last_batch


@contextmanager
def _interrupted(log: OffsetLog) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise StorageError(
            "SM-ADOPT-003",
            f"cannot change {log.checkpoint}: {error.summary}",
            expected=error.expected,
            found=error.found,
            next_action="correct that, then run the same command again: it finishes what it began",
            path=log.checkpoint,
        ) from error
