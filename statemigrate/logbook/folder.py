"""The log's files: one document an event, each under a name that nobody else uses.

Two drivers that write at one moment both have their event: nothing is ever written over.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from statemigrate.errors import CorruptFileError, ForeignFileError, StatemigrateError, StorageError
from statemigrate.files import Files
from statemigrate.files.documents.sealed import sealed, understood, unsealed
from statemigrate.logbook.events import Event

LOG = "statemigrate/log"
"""The folder, below the checkpoint."""
WRITABLE = f"{LOG}/.writable"
"""An empty file that `require_writable` leaves, which is no document of the log."""
LARGEST = 1 << 20
"""Bytes of a document; that of a hundred stores has some twenty thousand."""
NOTHING_DONE = "; nothing was done yet"
_NAME = re.compile(r"([0-9]{9})-[0-9a-f]{32}\.json")


@dataclass(frozen=True)
class Noted:
    """A document of the log: its file, and the event in it, or why that cannot be read."""

    name: str
    event: Event | None
    error: StatemigrateError | None = None


def newest_first(files: Files) -> Iterator[Noted]:
    """The documents of a checkpoint's log, each read when it is asked for.

    One that is damaged is told in its place. Raises `StorageError` where the log cannot be reached.
    """
    for name in reversed(names(files)):
        try:
            yield Noted(name, read_event(files, name))
        except (CorruptFileError, ForeignFileError) as error:
            yield Noted(name, None, error)


def names(files: Files) -> tuple[str, ...]:
    """The log's files, oldest first."""
    listed = files.list(LOG)
    return tuple(sorted(each.name for each in listed if is_document(each.name)))


def is_document(name: str) -> bool:
    """Whether a file of the checkpoint has the name of an event of its log."""
    folder, _, base_name = name.rpartition("/")
    return folder == LOG and _NAME.fullmatch(base_name) is not None


def read_event(files: Files, name: str) -> Event:
    """The event in a file. Raises `CorruptFileError` and `ForeignFileError`, which name it."""
    place = f"{files.location}/{name}"
    try:
        document = unsealed(files.get(name, most=LARGEST), place)
    except FileNotFoundError as error:
        raise CorruptFileError(
            "SM-LOG-001",
            f"{place} is gone",
            expected="a document of the log, as it was listed",
            found="no such file",
            next_action="run the same again; nothing of statemigrate removes documents of the log",
            path=place,
        ) from error
    return understood(place, "an event of the log", lambda: Event.from_json(document))


def document_after(last: str | None, event: Event, unique: str | None = None) -> tuple[str, bytes]:
    """The name and content of the document that follows the one named ``last``.

    ``unique`` is 32 hexadecimal digits for one that is made again under the same name.
    """
    found = None if last is None else _NAME.fullmatch(last.rpartition("/")[2])
    number = 0 if found is None else int(found[1]) + 1
    return f"{LOG}/{number:09}-{unique or uuid.uuid4().hex}.json", sealed(event.to_json())


def require_writable(files: Files) -> None:
    """Before something is done that is told afterwards: make sure that it can be.

    Raises the error of `append`. It is tried with a file that stays and is always the same one:
    who may make files need not have the right to remove them.
    """
    try:
        files.replace(WRITABLE, b"")
    except StorageError as error:
        raise _unwritable(files, error, NOTHING_DONE) from error


def append(files: Files, event: Event, so_far: str) -> None:
    """Add an event; ``so_far`` says what was done before.

    Raises `StorageError`, which says what to do, where it cannot be written.
    """
    last = next(reversed(names(files)), None)
    name, data = document_after(last, event)
    try:
        files.put(name, data)
    except StorageError as error:
        raise _unwritable(files, error, so_far) from error


def _unwritable(files: Files, error: StorageError, so_far: str) -> StorageError:
    return StorageError(
        "SM-LOG-002",
        f"the log of {files.location} cannot be written: {error.summary}",
        expected=f"the right to make files in {LOG}, below the checkpoint, as in all of it",
        found=error.found,
        next_action="give the user that runs the query, or this command, the right to write "
        f"there, and run the same again{so_far}",
        path=f"{files.location}/{LOG}",
    )
