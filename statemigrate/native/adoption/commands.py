"""Adopting a query, and undoing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from statemigrate.errors import StorageError
from statemigrate.files.opening import Place
from statemigrate.native.adoption.activity import WATCHED, require_stopped
from statemigrate.native.adoption.offsets import OffsetLog
from statemigrate.native.adoption.outcome import Adoption, State
from statemigrate.native.adoption.plan import Plan, plan_adoption, plan_undoing
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
    verb = _Verb(plan_adoption, adopting, "would adopt", "adopted")
    return verb.run(checkpoint, apply=apply, stopped=stopped, wait=wait)


def undo_adoption(
    checkpoint: Place, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Adoption:
    """Take the control source out again, whether or not it has run since.

    Files that no batch has followed become what they were. The directory of the removed source goes
    to the backup, so that a later adoption starts afresh. Arguments and errors as of `adopt`.
    """
    verb = _Verb(plan_undoing, undoing, "would undo", "undone")
    return verb.run(checkpoint, apply=apply, stopped=stopped, wait=wait)


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


@dataclass(frozen=True)
class _Verb:
    """What adopting and undoing have in common: how to plan, the steps, and what to call it."""

    plan: Callable[[OffsetLog], Plan]
    steps: Callable[[Plan], Iterator[str]]
    before: State
    after: State

    def run(self, checkpoint: Place, *, apply: bool, stopped: bool, wait: float) -> Adoption:
        log = native_log(checkpoint)
        if has_named_sources(log):
            return Adoption(log.checkpoint, "nothing needed")
        plan = self.plan(log)
        if not apply:
            return replace(plan.described(self.before), uncommitted=_is_uncommitted(log))
        require_stopped(log, confirmed=stopped, watched=wait)
        # Read again: the query may have gone on before it was seen to stand still.
        plan = self.plan(native_log(checkpoint))
        done = plan.described(self.after)
        with _interrupted(log):
            for _ in self.steps(plan):
                pass
        return done


def _is_uncommitted(log: OffsetLog) -> bool:
    return log.last_commit != log.last_batch


@contextmanager
def _interrupted(log: OffsetLog) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise StorageError(
            f"cannot change {log.checkpoint}: {error.summary}",
            expected=error.expected,
            found=error.found,
            next_action="correct that, then run the same command again: it finishes what it began",
            path=log.checkpoint,
        ) from error
