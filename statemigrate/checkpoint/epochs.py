"""Epochs: which driver may write in a checkpoint, on every engine.

Each start of a writer makes ``epochs/<e+1>.json``, which can be made only once: of two that start
at one moment one gets an error. From then on every writer of an older epoch is fenced, whatever it
was doing and for however long it slept: it looks for the next epoch by its very name, which no
lagging listing hides and no clock has a say in. Therefore the file of an epoch is never removed.
"""

from __future__ import annotations

import datetime
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError
from statemigrate.files import Files, sealed, unsealed, whole_number

EPOCHS = "statemigrate/epochs"
"""A file for each start of a writer, below the checkpoint."""
_FORMAT = 2
_UNIQUE = uuid.uuid4().hex


def this_driver() -> str:
    """What tells this process from every other; what it starts carries it along."""
    # A forked process has the same memory.
    return f"{_UNIQUE}-{os.getpid()}"


@dataclass(frozen=True)
class Epoch:
    """The right to write in a checkpoint, as long as there is no later one.

    ``content`` is what its file holds, as no other writer's does; ``leaves`` are the documents, by
    name, that this start writes over those of the last one.
    """

    files: Files
    number: int
    content: bytes = field(repr=False)
    driver: str
    leaves: Mapping[str, str] = field(default_factory=dict)

    def require_own(self) -> None:
        """`require_newest`, in the very checkpoint that this writer has started on.

        One that was removed and begun again, or brought back from a copy, has other epochs: that
        the next one is missing there says nothing. Raises `CheckpointError` for such a one.
        """
        name = epoch_name(self.number)
        try:
            data = self.files.get(name)
        except FileNotFoundError:
            raise _replaced(self.files, name, "no such file") from None
        if data != self.content:
            raise _replaced(self.files, name, f"that of {_described(data)}")
        self.require_newest()

    def require_newest(self) -> None:
        """Raise `CheckpointInUseError` where another writer has started since."""
        data = _content(self.files, self.number + 1)
        if data is not None:
            raise _taken_over(self.files, self.number + 1, data)

    def leave(self) -> None:
        """Write what this start leaves; of several starts what the last one leaves is there then.

        In whichever order they come to it: who finds that another has begun meanwhile puts that
        one's documents in the place of its own. Raises `CheckpointInUseError` then.
        """
        self.require_newest()
        leaves, last = self.leaves, (self.number, self.content)
        while True:
            for name, text in leaves.items():
                self.files.replace(name, text.encode())
            later = list(_later(self.files, last[0]))
            if not later:
                break
            last = later[-1]
            leaves = _leaves_of(last[1])
        if last[0] != self.number:
            raise _taken_over(self.files, *last)

    def following(self) -> Epoch:
        """The next epoch, for the same writer. Raises `CheckpointInUseError` if another has it."""
        return _begun(self.files, self.number + 1, self.driver, {})


class Fence:
    """Whether a driver is the last one that has begun, for code of it that did not begin itself.

    What begins may be another process of the driver, or another start of it: every epoch of the
    ``driver`` counts as its own. ``after`` is the number of an epoch from before all of them, where
    it is known. Threads may share one.
    """

    def __init__(self, files: Files, driver: str, after: int | None = None) -> None:
        self._files = files
        self._driver = driver
        self._after = after
        self._own: Epoch | None = None
        self._lock = threading.Lock()

    def require_own(self, *, begins: bool = False) -> None:
        """`require_newest`, in the very checkpoint that the driver has begun on.

        With ``begins`` a driver that has not begun does it now. Raises `CheckpointError` for
        another checkpoint, as `Epoch.require_own`.
        """
        with self._lock:
            self._look()
            if self._own is not None:
                self._own.require_own()
            elif begins:
                self._own = claim(self._files, self._driver)
                self._after = self._own.number

    def require_newest(self) -> None:
        """Raise `CheckpointInUseError` where another driver has begun after this one.

        A driver that has not begun is not refused.
        """
        with self._lock:
            self._look()

    def _look(self) -> None:
        """Look at the epochs since the last look. Raises where the driver's own is not the last."""
        other = self._before() if self._after is None else None
        for number, data in _later(self._files, self._after or 0):
            self._after = number
            if _driver_of(data) == self._driver:
                self._own, other = Epoch(self._files, number, data, self._driver), None
            else:
                other = number, data
        if self._own is not None and other is not None:
            # Said again at the next look.
            self._after = self._own.number
            raise _taken_over(self._files, *other)

    def _before(self) -> tuple[int, bytes] | None:
        """Find the driver's last epoch, the newest first; the newest one of all if it is later."""
        self._after = newest_epoch(self._files)
        newest = None
        for number in range(self._after, 0, -1):
            data = _content(self._files, number)
            if data is None:
                continue
            if _driver_of(data) == self._driver:
                self._own = Epoch(self._files, number, data, self._driver)
                return newest
            newest = newest or (number, data)
        return newest


def claim(
    files: Files,
    driver: str | None = None,
    *,
    leaves: Mapping[str, str] | None = None,
    first: Callable[[], None] = lambda: None,
) -> Epoch:
    """Begin an epoch, of this process unless another ``driver`` is named.

    ``leaves`` is what `Epoch.leave` writes. ``first`` is called before the very first epoch of a
    checkpoint. Raises `CheckpointInUseError` where another begins at the same moment.
    """
    number = newest_epoch(files) + 1
    if number == 1:
        first()
    return _begun(files, number, driver or this_driver(), leaves or {})


def newest_epoch(files: Files) -> int:
    """The number of the newest epoch, 0 where there is none, however old the listing is."""
    entries = files.list(EPOCHS)
    numbers = (whole_number(entry.base_name.removesuffix(".json")) for entry in entries)
    newest = max((number for number in numbers if number is not None), default=0)
    return max((number for number, _ in _later(files, newest)), default=newest)


def newest_holder(files: Files) -> tuple[int, str | None]:
    """The number of the newest epoch, and who has begun it and when; 0 and None without one."""
    number = newest_epoch(files)
    data = _content(files, number) if number else None
    return number, None if data is None else _described(data)


def is_listed(files: Files, number: int) -> bool:
    """Whether a listing has an epoch: then later ones have all that was made before it."""
    name = epoch_name(number)
    return any(entry.name == name for entry in files.list(EPOCHS))


def epoch_name(number: int) -> str:
    """The name of an epoch's file."""
    return f"{EPOCHS}/{number}.json"


def _later(files: Files, number: int) -> Iterator[tuple[int, bytes]]:
    """The epochs after one, by their very names."""
    while (data := _content(files, number + 1)) is not None:
        number += 1
        yield number, data


def _content(files: Files, number: int) -> bytes | None:
    try:
        return files.get(epoch_name(number))
    except FileNotFoundError:
        return None


def _begun(files: Files, number: int, driver: str, leaves: Mapping[str, str]) -> Epoch:
    document = {
        "format": _FORMAT,
        "epoch": number,
        "holder": f"process {os.getpid()} on {socket.gethostname()}",
        "since": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "driver": driver,
        "leaves": dict(leaves),
        # What no other writer has: an answer of the store may be lost.
        "writer": uuid.uuid4().hex,
    }
    content = sealed(document)
    try:
        files.create(epoch_name(number), content)
    except FileExistsError as error:
        raise _taken_over(files, number, files.get(epoch_name(number))) from error
    return Epoch(files, number, content, driver, leaves)


def _document_of(data: bytes) -> dict[str, Any]:
    """What an epoch's file says; nothing where it is altered: that it is there is what counts."""
    try:
        return unsealed(data, "an epoch")
    except CorruptFileError:
        return {}


def _driver_of(data: bytes) -> str | None:
    """The driver that made an epoch; None where its file does not say it."""
    found = _document_of(data).get("driver")
    return found if isinstance(found, str) else None


def _leaves_of(data: bytes) -> dict[str, str]:
    found = _document_of(data).get("leaves")
    return {str(name): str(text) for name, text in found.items()} if type(found) is dict else {}


def _described(data: bytes) -> str:
    document = _document_of(data)
    if not document:
        return "another writer"
    return f"{document.get('holder')}, since {document.get('since')}"


def _taken_over(files: Files, number: int, data: bytes) -> CheckpointInUseError:
    return CheckpointInUseError(
        "SM-CHECKPOINT-005",
        f"the checkpoint {files.location} is in use",
        expected="no other writer since this one started",
        found=f"epoch {number} of {_described(data)}",
        next_action="stop one of the two queries; this one has committed nothing since, and the "
        "other goes on from the last committed batch",
        path=files.location,
    )


def _replaced(files: Files, name: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-CHECKPOINT-006",
        f"the checkpoint {files.location} is another one than this query has started on",
        expected=f"the file {name} that it made at its start",
        found=found,
        next_action="stop this query: the checkpoint was removed, or brought back from a copy, "
        "while it ran; nothing was committed there since. Then start the one that is to go on",
        path=f"{files.location}/{name}",
    )
