"""`adopt`, and undoing it: room for the backfill's own source in an existing query's checkpoint."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.event_log.events import Stamp, Verb
from statemigrate.event_log.log import Note
from statemigrate.files.open import PathOrFiles, open_files
from statemigrate.native import adoption
from statemigrate.native.adoption import WATCHED, Adoption
from statemigrate.native.adoption_checks import counting

if TYPE_CHECKING:
    from statemigrate.native.session import Spark


__all__ = ["adopt", "undo_adoption"]
_VERBS: dict[str, Verb] = {"adopted": "adopt", "undone": "undo adopt", "relocated": "relocate"}


def adopt(
    checkpoint: PathOrFiles,
    *,
    undo: bool = False,
    declared: Collection[str] = (),
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    spark: Spark = None,
) -> Adoption:
    """Make room for the control source behind the sources of a query that was stopped.

    A checkpoint that was moved or copied here is made to name its own files, which Spark needs to
    start it; where it has room for the control source already, that is all.

    Without ``apply`` nothing is changed. ``stopped`` confirms that a query whose newest batch was
    not committed is not running; ``wait`` is how many seconds the checkpoint is watched for changes
    first. A run that was interrupted is finished by the next one. The checkpoint's log records
    what was done.

    With ``undo`` the control source is taken out again, so that code without it starts. Such code
    mostly declares the oldest family of each store alone, and Spark would forget all others. So
    they are read with ``spark``, the active session unless given, or a function that makes one;
    where one has values this is refused, unless it is among the families that are ``declared`` by
    the code that starts next. `rollback` takes the values back first, step by step.

    Raises `CheckpointInUseError` if the query is or may be running, and `CheckpointError` where
    there is nothing to adopt, or what is found is not understood; then nothing was changed.
    """
    if undo:
        return undo_adoption(
            checkpoint, apply=apply, stopped=stopped, wait=wait, declared=declared, spark=spark
        )
    return _record_adoption(
        checkpoint, adoption.adopt(checkpoint, apply=apply, stopped=stopped, wait=wait)
    )


def undo_adoption(
    checkpoint: PathOrFiles,
    *,
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    declared: Collection[str] = (),
    spark: Spark = None,
) -> Adoption:
    """Take the control source out again, so that code without it starts.

    Such code mostly declares the oldest family of each store alone, and Spark would forget all
    others. So they are read, as of the last committed batch and also without ``apply``; where one
    has values this is refused, unless it is among the families that are ``declared`` by the code
    that starts next. ``spark`` is the session to read with, the active one unless given, or a
    function that makes one; where Spark lists no newer family none is needed. `rollback` takes the
    values back first, step by step.

    Files that no batch has followed become what they were. The directory of the removed source goes
    to the backup, so that a later adoption starts afresh. The checkpoint's log records what was
    done. Other arguments and errors as of `adopt`.
    """
    count = counting(open_files(checkpoint).location, spark)
    options: dict[str, Any] = {"apply": apply, "stopped": stopped, "wait": wait}
    done = adoption.undo_adoption(checkpoint, declared=declared, count=count, **options)
    return _record_adoption(checkpoint, done)


def _record_adoption(checkpoint: PathOrFiles, found: Adoption) -> Adoption:
    if found.state in _VERBS:
        files = open_files(checkpoint)
        details = {} if found.backup is None else {"backup": found.backup}
        batch = CheckpointDirectory(files).last_commit()
        Note(Stamp.of(Path.cwd())).done(files, _VERBS[found.state], batch, details)
    return found
