"""The directory of the new checkpoint while it is none yet.

It says whose it is before anything of it is there, and becomes a checkpoint by its last file,
``metadata``, in whose place is one until then that no Spark reads. What is half written belongs to
one plan: the same plan goes on with it, another one begins anew, and a directory without the mark
is nobody's to write in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.files.documents.sealed import sealed, understood, unsealed
from statemigrate.files.documents.shapes import check_shape
from statemigrate.native.spark_state.paths import check_readable
from statemigrate.rewrite.run.report import FamilyReport, family_json, read_family
from statemigrate.rewrite.unfinished.claims import (
    MAKING,
    MARK,
    check_unclaimed,
    claimed_folders,
    is_claim,
)
from statemigrate.rewrite.unfinished.making import METADATA, Making, making
from statemigrate.rewrite.unfinished.separation import check_apart

_FOLDERS = ("state", "sources", "commits", "offsets")
_OWN = "statemigrate"
_SHAPE = {"fingerprint": str, "old": str}


@dataclass(frozen=True)
class Target:
    """The directory of one plan, which has a ``fingerprint``, for the checkpoint ``old``.

    ``origins`` are the files that it is made from, by what they are called; ``verb`` is the command
    that makes it.
    """

    files: Files
    fingerprint: str
    old: str
    origins: tuple[tuple[str, Files], ...] = ()
    verb: str = "rewrite"

    def check(self) -> None:
        """Raise `RewriteError` unless nothing is there but what a rewrite has begun.

        Raises `CheckpointInUseError` where another command makes a checkpoint there, and
        `CheckpointError` for a place that Spark could not read, or that is not there for a link.
        """
        # Spark reads back what is written.
        check_readable(self.files.location)
        for what, origin in self.origins:
            check_apart(origin, self.files, what)
        check_unclaimed(self.files)
        self._check_contents()

    @contextmanager
    def begun(self) -> Iterator[Begun]:
        """Begin it, or go on with what this plan has begun, for the length of the block.

        Raises as `check`.
        """
        self.check()
        with making(self.files, self.verb) as made:
            # Another may have made one since it was looked at.
            self._check_contents()
            made.shut()
            mark = {"fingerprint": self.fingerprint, "old": self.old}
            if self._mark() != mark:
                self._clear()
                self.files.replace(MARK, sealed(mark))
            yield Begun(made)

    def _clear(self) -> None:
        own = [each.name for each in self.files.list(_OWN, recursive=True)]
        # What says that state is finished goes before the state, and the mark of another plan stays
        # until this plan's takes its place: without one what is left would be nobody's.
        self.files.delete([name for name in own if not is_claim(name) and name != MARK])
        for folder in _FOLDERS:
            self.files.delete_folder(folder)

    def _check_contents(self) -> None:
        directory = CheckpointDirectory(self.files)
        names = directory.entries() or set()
        is_unfinished = directory.is_unfinished
        if METADATA in names and not is_unfinished:
            raise RewriteError(
                "SM-REWRITE-052",
                f"{self.files.location} is a checkpoint already",
                expected="a directory that is not there yet",
                found="the file metadata, which makes it a checkpoint",
                next_action="if this command made it before, it is whole: `statemigrate verify` "
                "compares it with the old one; else name another directory",
                path=self.files.location,
                contents="checkpoint",
            )
        ours = {_OWN, *_FOLDERS} if self._mark() is not None else claimed_folders(self.files)
        foreign = sorted(
            name for name in names - ours - {METADATA, "lost+found"} if not name.startswith(".")
        )
        if foreign:
            raise RewriteError(
                "SM-REWRITE-053",
                f"{self.files.location} has other things in it",
                expected="a directory that is not there yet, or what a rewrite has begun there",
                found=", ".join(foreign)[:200],
                next_action="name another directory",
                path=self.files.location,
                contents="other",
            )

    def _mark(self) -> dict[str, str] | None:
        place = f"{self.files.location}/{MARK}"
        try:
            document = unsealed(self.files.get(MARK), place)
        except FileNotFoundError:
            return None
        understood(place, "whose the directory is", lambda: check_shape(document, _SHAPE))
        return document


@dataclass(frozen=True)
class Begun:
    """The new checkpoint of a plan that this process makes."""

    made: Making

    @property
    def files(self) -> Files:
        """What is there so far."""
        return self.made.files

    def require_own(self) -> None:
        """Raise `CheckpointInUseError` where another command has taken it over."""
        self.made.claim.require_own()

    def finished(self, operator: int) -> tuple[FamilyReport, ...] | None:
        """What was written of an operator before this plan was interrupted; None if not all."""
        place = f"{MAKING}/{operator}.json"
        try:
            document = unsealed(self.files.get(place), f"{self.files.location}/{place}")
        except FileNotFoundError:
            return None
        return understood(
            place, "what was written", lambda: tuple(map(read_family, document["families"]))
        )

    def finish(self, operator: int, families: tuple[FamilyReport, ...]) -> None:
        """Note that an operator's files are all there."""
        document = {"families": [family_json(each) for each in families]}
        self.files.replace(f"{MAKING}/{operator}.json", sealed(document))

    def publish(self, metadata: bytes) -> None:
        """Make it a checkpoint. Raises as `Making.publish`."""
        self.made.publish(metadata)
        self.files.delete([MARK])
