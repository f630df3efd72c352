"""The directory of the new checkpoint while it is none yet.

It says whose it is before anything else is in it, and becomes a checkpoint by its last file,
``metadata``. What is half written belongs to one plan: the same plan goes on with it, another one
begins anew, and a directory without the mark is nobody's to write in.
"""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.files.documents.sealed import sealed, understood, unsealed
from statemigrate.files.documents.shapes import check_shape
from statemigrate.files.places import is_within
from statemigrate.native.spark_state.paths import check_readable
from statemigrate.rewrite.run.report import FamilyReport, family_json, read_family

MARK = "statemigrate/rewriting.json"
"""Says that the directory is one plan's, and not yet a checkpoint."""
DONE = "statemigrate/rewriting"
"""The folder with what is finished of it."""
_OURS = ("state", "sources", "commits", "offsets", "statemigrate")
_SHAPE = {"fingerprint": str, "old": str}


@dataclass(frozen=True)
class Target:
    """The directory of one plan, which has a ``fingerprint``, for the checkpoint ``old``."""

    files: Files
    fingerprint: str
    old: str

    def check(self) -> None:
        """Raise `RewriteError` unless nothing is there but what a rewrite has begun.

        Raises `CheckpointError` for a place that Spark could not read.
        """
        directory = CheckpointDirectory(self.files)
        # Spark reads back what is written.
        check_readable(self.files.location)
        if is_within(self.files.location, self.old) and self.files.location != self.old:
            raise RewriteError(
                f"{self.files.location} is within the old checkpoint",
                expected="a place outside of it, since the old checkpoint is only read",
                found=f"a place below {self.old}",
                next_action="name another directory",
                path=self.files.location,
            )
        if directory.has("metadata"):
            raise RewriteError(
                f"{self.files.location} is a checkpoint already",
                expected="a directory that is not there yet",
                found="the file metadata, which makes it a checkpoint",
                next_action="name another directory; `statemigrate verify` tells what is in it",
                path=self.files.location,
            )
        if not directory.is_unused() or (self._mark() is None and directory.has("statemigrate")):
            self._check_marked(directory)

    def begin(self) -> None:
        """Make it this plan's, empty unless this plan has begun it."""
        self.check()
        if self._mark() != {"fingerprint": self.fingerprint, "old": self.old}:
            for folder in _OURS:
                self.files.delete_folder(folder)
            mark = {"fingerprint": self.fingerprint, "old": self.old}
            self.files.replace(MARK, sealed(mark))

    def finished(self, operator: int) -> tuple[FamilyReport, ...] | None:
        """What was written of an operator before this plan was interrupted; None if not all."""
        place = f"{DONE}/{operator}.json"
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
        self.files.replace(f"{DONE}/{operator}.json", sealed(document))

    def publish(self, metadata: bytes) -> None:
        """Make it a checkpoint."""
        self.files.put("metadata", metadata)
        self.files.delete_folder(DONE)
        self.files.delete([MARK])

    def _mark(self) -> dict[str, str] | None:
        place = f"{self.files.location}/{MARK}"
        try:
            document = unsealed(self.files.get(MARK), place)
        except FileNotFoundError:
            return None
        understood(place, "whose the directory is", lambda: check_shape(document, _SHAPE))
        return document

    def _check_marked(self, directory: CheckpointDirectory) -> None:
        found = directory.entries() or set()
        foreign = sorted(name for name in found - set(_OURS) if not name.startswith("."))
        if self._mark() is None or foreign:
            raise RewriteError(
                f"{self.files.location} has other things in it",
                expected="a directory that is not there yet, or what a rewrite has begun there",
                found=", ".join(foreign or sorted(found))[:200],
                next_action="name another directory",
                path=self.files.location,
            )
