"""Epochs: who may write in a checkpoint.

Each start of a writer makes ``epochs/<e+1>.json``, which can be made only once: of two that start
at one moment one is told. From then on every writer of an older epoch is fenced, whatever it was
doing and for however long it slept: it looks for the next epoch by its very name, which no lagging
listing hides and no clock has a say in. Therefore the file of an epoch is never removed.
"""

from __future__ import annotations

import datetime
import os
import socket
import uuid
from dataclasses import dataclass, field

from statemigrate.embedded.storage.layout import EPOCHS, VERSIONS, Layout
from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError
from statemigrate.files import Files, whole_number
from statemigrate.files.documents.sealed import sealed, unsealed

_FORMAT = 2
BARRIER = 10**18
"""A version that no query reaches. Releases without epochs take its file for state that is further
than Spark's logs, and so refuse a checkpoint whose newer manifests they do not see."""


@dataclass(frozen=True)
class Epoch:
    """The right to write in a checkpoint, as long as there is no later one.

    ``content`` is what its file holds, as no other writer's does.
    """

    layout: Layout
    number: int
    content: bytes = field(repr=False)

    def require_own(self) -> None:
        """`require_newest`, in the very checkpoint that this writer has started on.

        One that was removed and begun anew, or brought back from a copy, has other epochs: that
        the next one is missing there says nothing. Raises `CheckpointError` for such a one.
        """
        name = epoch_name(self.number)
        try:
            data = self.layout.files.get(name)
        except FileNotFoundError:
            raise _replaced(self.layout, name, "no such file") from None
        if data != self.content:
            raise _replaced(self.layout, name, f"that of {_holder(data)}")
        self.require_newest()

    def require_newest(self) -> None:
        """Raise `CheckpointInUseError` where another writer has started since."""
        name = epoch_name(self.number + 1)
        try:
            data = self.layout.files.get(name)
        except FileNotFoundError:
            return
        raise _taken_over(self.layout, f"epoch {self.number + 1} of {_holder(data)}")

    def following(self) -> Epoch:
        """The next epoch, for the same writer. Raises `CheckpointInUseError` if another has it."""
        return _begun(self.layout, self.number + 1)


def claim(layout: Layout) -> Epoch:
    """Begin an epoch. Raises `CheckpointInUseError` where another does at the same moment."""
    number = newest_epoch(layout) + 1
    if number == 1:
        _raise_barrier(layout)
    return _begun(layout, number)


def newest_epoch(layout: Layout) -> int:
    """The number of the newest epoch, 0 where there is none, however old the listing is."""
    entries = layout.files.list(EPOCHS)
    numbers = (whole_number(entry.base_name.removesuffix(".json")) for entry in entries)
    newest = max((number for number in numbers if number is not None), default=0)
    while _exists(layout.files, epoch_name(newest + 1)):
        newest += 1
    return newest


def newest_holder(layout: Layout) -> str | None:
    """Who has begun the newest epoch, and when; None where there is none."""
    number = newest_epoch(layout)
    return _holder(layout.files.get(epoch_name(number))) if number else None


def is_listed(layout: Layout, number: int) -> bool:
    """Whether a listing has an epoch: then later ones have all that was made before it."""
    name = epoch_name(number)
    return any(entry.name == name for entry in layout.files.list(EPOCHS))


def epoch_name(number: int) -> str:
    """The name of an epoch's file."""
    return f"{EPOCHS}/{number}.json"


def _exists(files: Files, name: str) -> bool:
    try:
        files.get(name)
    except FileNotFoundError:
        return False
    return True


def _begun(layout: Layout, number: int) -> Epoch:
    document = {
        "format": _FORMAT,
        "epoch": number,
        "holder": f"process {os.getpid()} on {socket.gethostname()}",
        "since": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        # What no other writer has: an answer of the store may be lost.
        "writer": uuid.uuid4().hex,
    }
    content = sealed(document)
    try:
        layout.files.create(epoch_name(number), content)
    except FileExistsError as error:
        found = _holder(layout.files.get(epoch_name(number)))
        raise _taken_over(layout, f"epoch {number} of {found}") from error
    return Epoch(layout, number, content)


def _holder(data: bytes) -> str:
    try:
        document = unsealed(data, "an epoch")
    except CorruptFileError:
        # That it is there is what counts.
        return "another writer"
    return f"{document.get('holder')}, since {document.get('since')}"


def _taken_over(layout: Layout, found: str) -> CheckpointInUseError:
    return CheckpointInUseError(
        f"the checkpoint {layout.files.location} is in use",
        expected="no other writer since this one started",
        found=found,
        next_action="stop one of the two queries; this one has committed nothing since, and the "
        "other goes on from the last committed batch",
        path=layout.files.location,
    )


def _replaced(layout: Layout, name: str, found: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {layout.files.location} is another one than this query has started on",
        expected=f"the file {name} that it made at its start",
        found=found,
        next_action="stop this query: the checkpoint was removed, or brought back from a copy, "
        "while it ran; nothing was committed there since. Then start the one that is to go on",
        path=layout.place(name),
    )


def _raise_barrier(layout: Layout) -> None:
    says = "written by a release with epochs; older ones cannot go on from here"
    document = {"format": _FORMAT, "version": BARRIER, "says": says}
    try:
        layout.files.create(f"{VERSIONS}/{BARRIER}.json", sealed(document))
    except FileExistsError:
        # Also of one who was killed before its epoch.
        return
