"""What a checkpoint's state means, as a start of its query has recorded it in the checkpoint.

A record is a file of the checkpoint, named after the first batch that ran with the code. The
newest one of a committed batch is in force: a start that never committed a batch leaves the state,
and what it means, as they were.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from statemigrate.checkpoint import MEANINGS, OPERATOR_MEANINGS
from statemigrate.checkpoint.logs import batches_in, folders_in, names_in
from statemigrate.errors import CorruptFileError
from statemigrate.event_log import NOTHING_DONE, STEP, Event, Stamp, append
from statemigrate.files import Files, check_shape, sealed, understood, unsealed
from statemigrate.meaning.code_meaning import (
    MEANING_SHAPE,
    CodeMeaning,
    meaning_document,
    meaning_from_document,
)
from statemigrate.meaning.setting_changes import recorded_settings

_SHAPE = {
    "batch": range(2**63),
    "meaning": MEANING_SHAPE,
    "accepted": [{"name": str, "text": str, "reason": str}],
}


@dataclass(frozen=True)
class Accepted:
    """A change by its ``name``, what it is in ``text``, and the ``reason`` why it is meant."""

    name: str
    text: str
    reason: str


@dataclass(frozen=True)
class MeaningRecord:
    """The ``meaning`` of the code that runs from a ``batch`` on, and the changes it brought.

    ``folder`` is where the checkpoint has it: another one for a single operator of the code.
    """

    batch: int
    meaning: CodeMeaning
    accepted: tuple[Accepted, ...] = ()
    folder: str = MEANINGS

    def document(self) -> dict[str, Any]:
        """The record as its file holds it."""
        return {
            "batch": self.batch,
            "meaning": meaning_document(self.meaning),
            "accepted": [asdict(each) for each in self.accepted],
        }

    def files(self) -> Mapping[str, bytes]:
        """The file of the record, by its name in a checkpoint."""
        return {f"{self.folder}/{self.batch}": sealed(self.document())}

    def write(self, files: Files) -> None:
        """Put the record into a checkpoint."""
        for name, data in self.files().items():
            files.replace(name, data)


def recorded_meaning(files: Files, committed: int, folder: str = MEANINGS) -> MeaningRecord | None:
    """The record that is in force after the batch ``committed``; None where there is none.

    Raises `CorruptFileError` for one that cannot be read.
    """
    found = [each for each in batches_in(names_in(files, folder)) if each <= committed]
    if not found:
        return None
    name = f"{folder}/{max(found)}"
    place = f"{files.location}/{name}"
    return understood(place, "a record of what state means", partial(_read, files, name, place))


def settings_at(files: Files, committed: int) -> dict[str, str]:
    """Settings of a query that its state depends on, as recorded; none where there is no record.

    A guarded start has a record of the whole query, and an operator that migrates live one of
    itself. The newest counts. Raises as `recorded_meaning`.
    """
    operators = [f"{OPERATOR_MEANINGS}/{each}" for each in folders_in(files, OPERATOR_MEANINGS)]
    found = (recorded_meaning(files, committed, each) for each in (*operators, MEANINGS))
    records = sorted((each for each in found if each is not None), key=attrgetter("batch"))
    return {
        name: value for each in records for name, value in recorded_settings(each.meaning).items()
    }


def forget_later(files: Files, committed: int, folder: str = MEANINGS) -> None:
    """Remove the records of starts that have not committed a batch."""
    later = [each for each in batches_in(names_in(files, folder)) if each > committed]
    files.delete([f"{folder}/{each}" for each in later])


def _read(files: Files, name: str, place: str) -> MeaningRecord:
    document = unsealed(files.get(name), place)
    check_shape(document, _SHAPE)
    accepted = tuple(Accepted(**each) for each in document["accepted"])
    try:
        meaning = meaning_from_document(document["meaning"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return MeaningRecord(document["batch"], meaning, accepted)


# What a guarded start accepts, in the log of the checkpoint: which change, and why.


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
