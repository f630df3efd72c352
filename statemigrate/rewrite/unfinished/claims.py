"""Which command makes a new checkpoint: one at a time, on any file system.

A command claims the directory by a file that it makes only if it is not there, numbered one higher
than the last. The highest number counts: a command that was taken over finds a higher one, or not
its own file any more, and stops. A claim whose process has ended on this machine is taken over
without a word; of another machine nobody here can tell, and the error says what to do.
"""

from __future__ import annotations

import datetime
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from statemigrate.errors import CheckpointInUseError, CorruptFileError, StatemigrateError
from statemigrate.files import Files, whole_number
from statemigrate.files.documents.sealed import sealed, understood, unsealed
from statemigrate.files.documents.shapes import check_shape
from statemigrate.rewrite.unfinished.processes import started_at, this_machine

MAKING = "statemigrate/rewriting"
"""The folder of everything that says how far a new checkpoint has come; it goes at the end."""
MARK = f"{MAKING}.json"
"""Says that the directory is one plan's, and not yet a checkpoint."""
OWNERS = f"{MAKING}/owners"
_OWN = "statemigrate"
_SHAPE = {
    "verb": str,
    "host": str,
    "machine": str,
    "process": int,
    "started": str,
    "since": str,
    "unique": str,
    "has_ended": bool,
}
_active: set[str] = set()
"""What is unique of the claims that this process has."""


@dataclass(frozen=True)
class Owner:
    """The process that a command runs in, as its claim's file has it.

    ``machine`` and ``started`` tell another process of the same number from it; ``since`` is when
    the claim was made, in UTC.
    """

    verb: str
    host: str = field(default_factory=socket.gethostname)
    machine: str = field(default_factory=this_machine)
    process: int = field(default_factory=os.getpid)
    started: str = field(default_factory=lambda: started_at(os.getpid()) or "")
    since: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    unique: str = field(default_factory=lambda: uuid.uuid4().hex)
    has_ended: bool = False

    def __str__(self) -> str:
        return f"`{self.verb}` in process {self.process} on {self.host}, since {self.since}"

    @property
    def is_running(self) -> bool | None:
        """Whether it still makes the checkpoint; None where that cannot be told from here."""
        if self.has_ended:
            return False
        if self.machine != this_machine():
            return None
        if self.process == os.getpid() and self.started == (started_at(os.getpid()) or ""):
            return self.unique in _active
        now = started_at(self.process)
        return now is not None and now == self.started


@dataclass(frozen=True)
class Claim:
    """The right to write in a new checkpoint, as long as there is no later one."""

    files: Files
    number: int
    owner: Owner

    def require_own(self) -> None:
        """Raise `CheckpointInUseError` where another command has claimed it since."""
        found = _owner_of(self.files, self.number)
        later = _owner_of(self.files, self.number + 1)
        if found != self.owner or later is not None:
            raise CheckpointInUseError(
                "SM-REWRITE-054",
                f"{self.files.location} was taken over while this command made it",
                expected=f"the file {_name(self.number)} of this command as the last one there",
                found=_described(later) if later is not None else _described(found),
                next_action="nothing was published; let the other command finish, or name another "
                "directory",
                path=self.files.location,
            )

    def release(self) -> None:
        """Say that the command has ended, unless its claim is gone with all of them."""
        _active.discard(self.owner.unique)
        # What has ended the command may keep this from being written too. Who comes next sees that
        # the process is gone, or is told what to do.
        with suppress(StatemigrateError):
            if _owner_of(self.files, self.number) == self.owner:
                ended = replace(self.owner, has_ended=True)
                self.files.replace(_name(self.number), sealed(asdict(ended)))


def check_unclaimed(files: Files) -> int:
    """The number of the last claim, 0 where there is none.

    Raises `CheckpointInUseError` unless its command has ended for sure.
    """
    number = _last(files)
    owner = _owner_of(files, number) if number else None
    if number and not (isinstance(owner, Owner) and owner.is_running is False):
        raise _in_use(files, number, owner)
    return number


def claim(files: Files, verb: str) -> Claim:
    """Claim the directory for the command ``verb``. Raises `CheckpointInUseError`."""
    number = check_unclaimed(files) + 1
    made = Claim(files, number, Owner(verb))
    _active.add(made.owner.unique)
    try:
        files.create(_name(number), sealed(asdict(made.owner)))
    except BaseException as error:
        _active.discard(made.owner.unique)
        if isinstance(error, FileExistsError):
            raise _in_use(files, number, _owner_of(files, number)) from error
        raise
    return made


def is_claim(name: str) -> bool:
    """Whether a file is one by which a command has claimed a directory."""
    return name.startswith(f"{OWNERS}/")


def claimed_folders(files: Files) -> set[str]:
    """The folder of statemigrate's own where it has claims of the directory and no more.

    A command that was killed leaves the file that it was writing, under a hidden name.
    """
    own = files.list(_OWN, recursive=True)
    is_begun = all(is_claim(each.name) or each.base_name.startswith(".") for each in own)
    return {_OWN} if is_begun else set()


def _name(number: int) -> str:
    return f"{OWNERS}/{number}.json"


def _last(files: Files) -> int:
    names = (each.base_name for each in files.list(OWNERS))
    numbers = (whole_number(name.removesuffix(".json")) for name in names)
    last = max((each for each in numbers if each is not None), default=0)
    # A listing may lag behind; a name does not.
    while _owner_of(files, last + 1) is not None:
        last += 1
    return last


def _owner_of(files: Files, number: int) -> Owner | str | None:
    """Who made a claim: a text where its file does not say it, None where there is no such file."""
    path = f"{files.location}/{_name(number)}"
    try:
        document = unsealed(files.get(_name(number)), path)
        understood(path, "who makes a checkpoint", lambda: check_shape(document, _SHAPE))
    except FileNotFoundError:
        return None
    except CorruptFileError:
        # That it is there is what counts.
        return "a command that its file does not name"
    return Owner(**{name: document[name] for name in _SHAPE})


def _described(owner: Owner | str | None) -> str:
    return "no such file" if owner is None else str(owner)


def _in_use(files: Files, number: int, owner: Owner | str | None) -> CheckpointInUseError:
    is_running = isinstance(owner, Owner) and owner.is_running
    path = f"{files.location}/{_name(number)}"
    return CheckpointInUseError(
        "SM-REWRITE-055",
        f"{files.location} is being made by another command",
        expected="one command at a time that makes a checkpoint in a directory",
        found=_described(owner),
        next_action="let it finish, or end it and run the same command again"
        if is_running
        else f"let it finish; if it has ended, which cannot be told from here, remove {path} and "
        "run the same command again",
        path=files.location,
        owner=None if not isinstance(owner, Owner) else asdict(owner),
        claim=path,
    )
