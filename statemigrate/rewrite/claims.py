"""Which command makes a new checkpoint: one at a time, on any file system.

A command claims the directory by a file that it makes only if it is not there, numbered one higher
than the last. The highest number counts: a command that was taken over finds a higher one, or not
its own file any more, and stops. A claim whose process has ended on this machine is taken over
without a word; of another machine nobody here can tell, and the error says what to do.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from statemigrate.checkpoint import OWN, UNFINISHED, CheckpointDirectory
from statemigrate.errors import (
    CheckpointInUseError,
    CorruptFileError,
    RewriteError,
    StatemigrateError,
)
from statemigrate.files import (
    Files,
    check_reachable,
    check_shape,
    is_below,
    is_same,
    sealed,
    understood,
    unsealed,
    whole_number,
)

# Which machine and process this is, and whether another process of the machine still runs.


def this_machine() -> str:
    """What tells this machine's processes from others of the same numbers: also of a container."""
    found = [socket.gethostname()]
    # There where the system is Linux.
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:32]


def started_at(process: int) -> str | None:
    """When a process was started, by its system's own count; None where there is none.

    Empty where the system does not say it.
    """
    try:
        # The name of its program, in brackets, may have brackets too.
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
        state, *others = text.rpartition(")")[2].split()
        # One that has ended stays until its parent has asked how.
        return None if state in "ZX" else others[18]
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _started_elsewhere(process)
    except ProcessLookupError:
        return None


def _started_elsewhere(process: int) -> str | None:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        # It is there, and another user's.
        return ""
    return ""


MAKING = "statemigrate/rewriting"
"""The folder of everything that says how far a new checkpoint has come; it goes at the end."""
MARK = f"{MAKING}.json"
"""Says that the directory is one plan's, and not yet a checkpoint."""
OWNERS = f"{MAKING}/owners"
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
        """Whether it still makes the checkpoint; None where that is not visible from here."""
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
        # the process is gone, or the user learns what to do.
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
    own = files.list(OWN, recursive=True)
    is_begun = all(is_claim(each.name) or each.base_name.startswith(".") for each in own)
    return {OWN} if is_begun else set()


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
        else f"let it finish; if it has ended, which is not visible from here, remove {path} and "
        "run the same command again",
        path=files.location,
        owner=None if not isinstance(owner, Owner) else asdict(owner),
        claim=path,
    )


# A new checkpoint from its first file to its last: ``metadata``, unreadable first, then itself.
#
# Before it is published no Spark starts there: its file ``metadata`` is no JSON until then. Logs
# and state without the file would be a checkpoint to Spark before 4.3, and state without logs one
# of a query that begins again.


METADATA = "metadata"
_UNREADABLE = (
    UNFINISHED + b"\nstatemigrate is making this checkpoint, or was ended before it was done.\n"
    b"Run the same command again, or remove this directory.\n"
)


@dataclass(frozen=True)
class Making:
    """The new checkpoint in ``files``, which this process has claimed."""

    files: Files
    claim: Claim

    def shut(self) -> None:
        """Keep Spark out. Raises `RewriteError` for what is a checkpoint."""
        try:
            self.files.create(METADATA, _UNREADABLE)
        except FileExistsError as error:
            self._require_unfinished(error)

    def publish(self, metadata: bytes) -> None:
        """Make it a checkpoint, and remove what says how far it had come.

        Raises `CheckpointInUseError` where another command has taken it over, `RewriteError` where
        it is a checkpoint.
        """
        self.claim.require_own()
        self._require_unfinished()
        self.files.replace(METADATA, metadata)
        self.files.delete_folder(MAKING)

    def _require_unfinished(self, cause: Exception | None = None) -> None:
        if not CheckpointDirectory(self.files).is_unfinished:
            raise RewriteError(
                "SM-REWRITE-056",
                f"{self.files.location} has become a checkpoint meanwhile",
                expected="a place that nobody else writes to",
                found="another file metadata",
                next_action="end the query that was started there, and name another directory",
                path=self.files.location,
            ) from cause


@contextmanager
def making_checkpoint(files: Files, verb: str) -> Iterator[Making]:
    """Claim a directory for the command ``verb``, for the length of the block.

    Raises `CheckpointInUseError` where another command makes a checkpoint there.
    """
    made = Making(files, claim(files, verb))
    try:
        yield made
    finally:
        made.claim.release()


# Whether a new checkpoint lies apart from what it is made from, however both are named.


def check_separate(old: Files, new: Files, what: str = "the old checkpoint") -> None:
    """Raise `RewriteError` where one of both is the other one, or lies within it.

    ``what`` says what ``old`` is. Links, ``..`` and second names of a directory are seen through.
    Raises `CheckpointError` for a link that points to nothing.
    """
    check_reachable(old)
    check_reachable(new)
    if is_same(old, new):
        problem, found = f"{new.location} is {what}", f"the same directory as {old.location}"
    elif is_below(new, old):
        problem, found = f"{new.location} is within {what}", f"a place below {old.location}"
    elif is_below(old, new):
        problem, found = f"{what} is within {new.location}", f"{old.location}, which lies below it"
    else:
        return
    raise RewriteError(
        "SM-REWRITE-057",
        problem,
        expected=f"a place outside of {what}, which is only read",
        found=found,
        next_action="name another directory",
        path=new.location,
    )
