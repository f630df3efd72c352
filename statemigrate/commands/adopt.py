"""`adopt`, and undoing it: room for the backfill's own source in an existing query's checkpoint."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.event_log import Note, Stamp, Verb
from statemigrate.files import PathOrFiles, open_files
from statemigrate.native import WATCHED, Preparation, counting
from statemigrate.native import adopt as add_source
from statemigrate.native import undo_adoption as remove_source

if TYPE_CHECKING:
    from statemigrate.native import Spark


__all__ = ["adopt", "undo_adoption"]
_VERBS: dict[str, Verb] = {"prepared": "adopt", "undone": "undo adopt", "relocated": "relocate"}


def adopt(
    checkpoint: PathOrFiles,
    *,
    undo: bool = False,
    declared: Collection[str] = (),
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    spark: Spark = None,
) -> Preparation:
    """Add the backfill source behind the sources of a stopped query.

    If the checkpoint was moved or copied here, its paths are changed to its own files, which Spark
    needs for a start. If it already has the backfill source, nothing else changes.

    Without ``apply`` nothing is changed. ``stopped`` confirms that a query whose newest batch is
    not committed is not running. ``wait`` is the number of seconds for which the checkpoint is
    watched for changes first. The next call finishes an interrupted one. The checkpoint's log
    records the result.

    With ``undo`` the backfill source is removed again, so that code without it starts. Such code
    usually declares only the oldest family of each store, and Spark would forget the others. So
    this reads them with ``spark``, the active session by default, or a function that makes one. If
    a family has values, this raises an error, unless the family is in ``declared``, the families
    that the next code declares. `rollback` migrates the values back first, step by step.

    Raises `CheckpointInUseError` if the query runs or may run, and `CheckpointError` if there is
    nothing to adopt, or if the checkpoint is not understood. Nothing is changed then.
    """
    if undo:
        return undo_adoption(
            checkpoint, apply=apply, stopped=stopped, wait=wait, declared=declared, spark=spark
        )
    done = add_source(checkpoint, apply=apply, stopped=stopped, wait=wait)
    return _record_adoption(checkpoint, done)


def undo_adoption(
    checkpoint: PathOrFiles,
    *,
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    declared: Collection[str] = (),
    spark: Spark = None,
) -> Preparation:
    """Remove the backfill source again, so that code without it starts.

    Such code usually declares only the oldest family of each store, and Spark would forget the
    others. So this reads them, as of the last committed batch and also without ``apply``. If a
    family has values, this raises an error, unless the family is in ``declared``, the families that
    the next code declares. ``spark`` is the session to read with, the active one by default, or a
    function that makes one; if Spark lists no newer family, none is needed. `rollback` migrates the
    values back first, step by step.

    Files that no batch has followed get their old content. The directory of the removed source goes
    to the backup, so that a later adoption starts from the beginning. The checkpoint's log records
    the result. Other arguments and errors are those of `adopt`.
    """
    count = counting(open_files(checkpoint).location, spark)
    options: dict[str, Any] = {"apply": apply, "stopped": stopped, "wait": wait}
    done = remove_source(checkpoint, declared=declared, count=count, **options)
    return _record_adoption(checkpoint, done)


def _record_adoption(checkpoint: PathOrFiles, found: Preparation) -> Preparation:
    if found.state in _VERBS:
        files = open_files(checkpoint)
        details = {} if found.backup is None else {"backup": found.backup}
        batch = CheckpointDirectory(files).last_commit()
        Note(Stamp.of(Path.cwd())).done(files, _VERBS[found.state], batch, details)
    return found
