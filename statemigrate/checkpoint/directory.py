"""A directory as a query's checkpoint: which query's, if any, and how far that has come."""

from __future__ import annotations

import time

from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import Files, parse_json
from statemigrate.quoting import argument

OWN = "statemigrate"
"""The folder of everything in a checkpoint that Spark does not know."""
MEANINGS = f"{OWN}/meaning"
"""The folder of records of what state means, each named after the first batch that ran so."""
OPERATOR_MEANINGS = f"{OWN}/operator-meaning"
"""The same for single operators, which `stateful` and `paged` write: a folder for each."""
EMBEDDED = f"{OWN}/versions"
"""Where the embedded engine says what its state is, below the checkpoint directory."""
_CONTENTS = f"{OWN}/partitions"
"""Where it keeps the state itself."""
UNFINISHED = b"unfinished_checkpoint_of_statemigrate"
"""How the file ``metadata`` begins while a new checkpoint is made.

It is no JSON, so that every Spark refuses to start there, and shows this word. Without the file
Spark before 4.3 takes what is there for a checkpoint, or begins a query without its state.
"""


class CheckpointDirectory:
    """The directory whose ``files`` these are; ``checkpoint`` is how its user calls it."""

    def __init__(self, files: Files, checkpoint: str | None = None) -> None:
        self.files = files
        self.checkpoint = checkpoint or files.location

    def require_query(self) -> str:
        """The id of the query that the checkpoint is of.

        Raises `CheckpointError` for what is not a checkpoint, or one of the embedded engine.
        """
        found = self.require_any_query()
        self.refuse_embedded()
        return found

    def require_any_query(self) -> str:
        """As `require_query`, and also of a query of the embedded engine."""
        found = self.query_id()
        if found is None:
            raise CheckpointError(
                "SM-CHECKPOINT-001",
                f"{self.checkpoint} is not the checkpoint of a streaming query",
                expected="a directory with Spark's file metadata and the folders offsets and "
                "commits",
                found=self._listing(),
                next_action="name the directory that the query has as its checkpointLocation, "
                "after its first start",
                path=self.checkpoint,
            )
        return found

    def query_id(self) -> str | None:
        """The id of the query, None before its first start.

        Raises `CorruptFileError` for a file that does not say it, and `CheckpointError` for a
        checkpoint that is not finished.
        """
        document = self.read("metadata")
        if document is None:
            return None
        self.refuse_unfinished(document)
        try:
            return str(parse_json(document)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                "SM-CHECKPOINT-002",
                f"{self.files.location}/metadata does not name a query",
                expected="JSON with the query's id",
                found=f"{document[:60]!r}",
                next_action="restore the file from a copy of the checkpoint; Spark reads it too",
                path=f"{self.files.location}/metadata",
            ) from error

    def last_commit(self) -> int:
        """The id of the last committed batch, -1 if there is none.

        Raises `CorruptFileError` where the commit log is lost: batch 1 begins only once Spark has
        written that batch 0 is done.
        """
        committed = self._newest("commits")
        begun = self.last_begun() if committed < 0 else 0
        if begun > 0:
            raise CorruptFileError(
                "SM-CHECKPOINT-033",
                f"the commit log of {self.checkpoint} is lost",
                expected=f"{begun - 1} in the folder commits: Spark writes it before batch {begun}",
                found=f"batch {begun} in the folder offsets, and no batch in commits",
                next_action="restore the folder commits from a copy of the checkpoint; the state "
                "is still there",
                path=f"{self.files.location}/commits",
            )
        return committed

    def require_commit(self) -> int:
        """The id of the last committed batch. Raises `CheckpointError` before the first."""
        committed = self.last_commit()
        if committed < 0:
            raise self.nothing_committed()
        return committed

    def nothing_committed(self) -> CheckpointError:
        """The error for a checkpoint without a committed batch, with what is there instead."""
        begun = self.last_begun()
        found = f"batch {begun} begun, and none committed" if begun >= 0 else self._listing()
        return CheckpointError(
            "SM-CHECKPOINT-003",
            f"nothing is committed in the checkpoint {self.checkpoint}",
            expected="at least one committed batch: a number in the folder commits",
            found=found,
            next_action="check the path, or let the query run until its first batch is done: "
            "state is there from then on",
            path=self.checkpoint,
        )

    def last_begun(self) -> int:
        """The id of the last batch whose offsets are written, -1 if there is none."""
        return self._newest("offsets")

    def committed_at(self, batch: int) -> float | None:
        """When Spark noted a batch as done, in Unix seconds by the clock of the store.

        None where there is no such note, or not any more.
        """
        found = self.files.find(f"commits/{batch}")
        return None if found is None else found.modified

    @property
    def is_unfinished(self) -> bool:
        """Whether it is a new checkpoint that is not finished."""
        document = self.read("metadata")
        return document is not None and document.startswith(UNFINISHED)

    @property
    def is_embedded(self) -> bool:
        """Whether the embedded engine keeps its state here, or kept it and a part is lost."""
        return self.has(EMBEDDED) or self.has(_CONTENTS)

    def refuse_embedded(self) -> None:
        """Raise `CheckpointError` for a checkpoint of the embedded engine."""
        if self.is_embedded:
            raise CheckpointError(
                "SM-BACKFILL-001",
                f"the state in {self.checkpoint} is the embedded engine's",
                expected="a checkpoint whose state is in Spark's own state store",
                found=f"{EMBEDDED}, where the embedded engine keeps its state",
                next_action="EmbeddedQuery migrates the values while it runs, and `statemigrate "
                f"backfill {argument(self.checkpoint)}` does while it is stopped",
                path=self.checkpoint,
            )

    def refuse_unfinished(self, metadata: bytes) -> None:
        """Raise `CheckpointError` where ``metadata`` is of a checkpoint that is not finished."""
        if metadata.startswith(UNFINISHED):
            raise CheckpointError(
                "SM-CHECKPOINT-004",
                f"{self.checkpoint} is not finished",
                expected="a checkpoint that `statemigrate rewrite` or `fork` has made",
                found="a command that is not done yet, or was ended before",
                next_action="let it finish; where it was ended, run the same `rewrite` "
                "again, which goes on there, or remove the directory and `fork` again",
                path=self.checkpoint,
            )

    def is_unused(self) -> bool:
        """Whether nothing is there that a query, or anybody else, has put there."""
        names = {name for name in self.entries() or () if not name.startswith(".")}
        # Spark names some files of its own with a dot; the folder statemigrate may be there first,
        # and the root of a volume has a folder of its file system's. A first start that ended
        # before Spark wrote metadata leaves empty logs.
        logs = names & {"commits", "offsets"}
        if not names - logs <= {"statemigrate", "lost+found"}:
            return False
        return not any(names_in(self.files, log) for log in logs)

    def entries(self) -> set[str] | None:
        """The names in the directory; None if there is no such directory."""
        found = {each.base_name for each in self.files.list()}
        kind = None if found else self.files.find()
        if kind is not None and kind.kind != "folder":
            return {"a file, not a directory"}
        return found if found or kind is not None else None

    @property
    def exists(self) -> bool:
        """Whether there is anything in its place."""
        return self.files.find() is not None

    def has(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        return self.files.find(name) is not None

    def read(self, name: str) -> bytes | None:
        """What is in a file, None if there is no such file."""
        try:
            return self.files.get(name)
        except FileNotFoundError:
            return None

    def _newest(self, log: str) -> int:
        return max(batches_in(names_in(self.files, log)), default=-1)

    def _listing(self) -> str:
        entries = self.entries()
        if entries is None:
            return "no such directory"
        return ", ".join(sorted(entries)[:8]) or "an empty directory"


# How long ago a batch began.


_UNITS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"))


def time_since(timestamp: int) -> str:
    """How long ago a ``timestamp``, in milliseconds since 1970, was: in words, rounded down."""
    seconds = seconds_since(timestamp)
    for length, unit in _UNITS:
        count = int(seconds // length)
        # Of a single one the next smaller unit says more.
        if count > 1:
            return f"{count:,} {unit} ago"
    return "less than two minutes ago"


def seconds_since(timestamp: int) -> float:
    """Seconds since a ``timestamp``, in milliseconds since 1970."""
    return time.time() - timestamp / 1000
