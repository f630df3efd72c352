"""`adopt`, and undoing it: room for the backfill's own source in an existing query's checkpoint."""

from __future__ import annotations

from functools import wraps
from pathlib import Path

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.files.opening import Place, open_files
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.events import Verb
from statemigrate.logbook.noting import Note
from statemigrate.native import adoption
from statemigrate.native.adoption import Adoption
from statemigrate.native.adoption.activity import WATCHED

__all__ = ["adopt", "undo_adoption"]
_VERBS: dict[str, Verb] = {"adopted": "adopt", "undone": "undo adopt", "relocated": "relocate"}


@wraps(adoption.adopt)
def adopt(
    checkpoint: Place, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Adoption:
    """See `statemigrate.native.adoption.adopt`; what was done is told to the log."""
    return _told(checkpoint, adoption.adopt(checkpoint, apply=apply, stopped=stopped, wait=wait))


@wraps(adoption.undo_adoption)
def undo_adoption(
    checkpoint: Place, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Adoption:
    """See `statemigrate.native.adoption.undo_adoption`; what was done is told to the log."""
    return _told(
        checkpoint, adoption.undo_adoption(checkpoint, apply=apply, stopped=stopped, wait=wait)
    )


def _told(checkpoint: Place, found: Adoption) -> Adoption:
    if found.state in _VERBS:
        files = open_files(checkpoint)
        details = {} if found.backup is None else {"backup": found.backup}
        batch = CheckpointDirectory(files).last_commit()
        Note(Stamp.of(Path.cwd())).done(files, _VERBS[found.state], batch, details)
    return found
