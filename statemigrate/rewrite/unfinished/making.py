"""A new checkpoint from its first file to its last: ``metadata``, unreadable first, then itself.

Before it is published no Spark starts there: its file ``metadata`` is no JSON until then. Logs and
state without the file would be a checkpoint to Spark before 4.3, and state without logs one of a
query that begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from statemigrate.checkpoint.directory import UNFINISHED, CheckpointDirectory
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.rewrite.unfinished.claims import MAKING, Claim, claim

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
def making(files: Files, verb: str) -> Iterator[Making]:
    """Claim a directory for the command ``verb``, for the length of the block.

    Raises `CheckpointInUseError` where another command makes a checkpoint there.
    """
    made = Making(files, claim(files, verb))
    try:
        yield made
    finally:
        made.claim.release()
