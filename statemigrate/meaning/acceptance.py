"""What a guarded start accepts, in the log of the checkpoint: which change, and why."""

from __future__ import annotations

import sys
from pathlib import Path

from statemigrate.errors import CorruptFileError
from statemigrate.event_log.events import STEP, Event, Stamp
from statemigrate.event_log.log import NOTHING_DONE, append
from statemigrate.files import Files
from statemigrate.meaning.recorded import MeaningRecord, recorded_meaning

ACCEPTED = "and accepted"
"""The step of an event ``found``: a start found another meaning, and its code accepts it."""


def log_accepted(files: Files, record: MeaningRecord) -> None:
    """Add the changes that ``record`` accepts to the log, before the record is written.

    A start that comes to nothing is made again, and its event is there already. Raises
    `StorageError` where the log cannot be written.
    """
    if not record.accepted or _is_written(files, record):
        return
    reasons = {each.name: f"{each.text}; reason: {each.reason}" for each in record.accepted}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    stamp = Stamp.of(Path(main) if main else Path.cwd())
    event = Event.now("found", record.batch, (), stamp, {STEP: ACCEPTED, **reasons})
    append(files, event, NOTHING_DONE)


def _is_written(files: Files, record: MeaningRecord) -> bool:
    try:
        found = recorded_meaning(files, record.batch)
    except CorruptFileError:
        # It is of a start that came to nothing, and is written again.
        return False
    return found is not None and found.document() == record.document()
