"""What a start-up check saw, and whether that is what the query runs on (rule 14).

A check is good for the query and the batch it was made at. Spark calls a processor's ``init`` once
on the driver when a run plans its first batch, and then in every task. On the driver the checkpoint
directory is looked at again; in a task, what Spark says of the query it belongs to.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.epochs import Fence, claim, this_driver
from statemigrate.errors import CheckpointInUseError, StartupError, UnsupportedError
from statemigrate.files import Files, LocalFiles, local_path
from statemigrate.files.opening import open_files
from statemigrate.files.remembered import Remembered

if TYPE_CHECKING:
    from statemigrate.files.served import ServedFiles

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells its tasks: the id of the query, and of the batch."""
_log = logging.getLogger("statemigrate.native")
_AGAIN = {
    "migrated": "make the processor anew, with migrated(..., checkpoint=...), right before the "
    "query starts",
    "paged": "call paged anew, right before the query starts",
}


@dataclass(frozen=True)
class Seen:
    """The checkpoint that was looked at, its query's id, and its last committed batch.

    ``driver`` is the process that looked.
    ``query`` is None and ``batch`` -1 where there was no such thing yet: then nothing was seen, and
    every revision may have values. ``deployment`` names this one check among all others. ``lent``
    is the way to the files for the process beside the driver, where they are on no local disk.
    ``of`` is the function that its user gave ``checkpoint=``.
    """

    checkpoint: str
    query: str | None
    batch: int
    deployment: str = field(default_factory=lambda: uuid4().hex)
    lent: Files | None = None
    driver: str = field(default_factory=this_driver)
    of: Literal["migrated", "paged"] = "migrated"

    @classmethod
    def at(
        cls,
        checkpoint: str,
        look: Remembered | None = None,
        *,
        of: Literal["migrated", "paged"] = "migrated",
    ) -> Seen:
        """Look at a checkpoint. Raises `CheckpointError` for a directory that is something else."""
        look = look or Remembered(open_files(checkpoint))
        files = look.now
        path = checkpoint if _has_scheme(checkpoint) else files.location
        directory = CheckpointDirectory(look, path)
        query = directory.query_id()
        if query is None and not directory.is_unused():
            directory.require_query()
        return cls(path, query, directory.last_commit(), lent=_lent(files), of=of)

    @property
    def files(self) -> Files:
        """The checkpoint's files, on the driver and beside it."""
        # Without a scheme too: what is on a default file system elsewhere is lent.
        local = local_path(self.checkpoint)
        return self.lent or (open_files(self.checkpoint) if local is None else LocalFiles(local))

    @property
    def is_something(self) -> bool:
        """Whether there was committed state to look at."""
        return self.batch >= 0

    def compare_at_start(self) -> int:
        """On the driver, when a run plans its first batch: the last committed batch of now.

        Raises `StartupError` where ``checkpoint`` is not where a query runs, and
        `CheckpointInUseError` where another one has just gone on there.
        """
        directory = CheckpointDirectory(self.files, self.checkpoint)
        query = directory.query_id()
        if query is None:
            raise self._elsewhere("no file metadata, so no query runs there")
        if self.query is not None and query != self.query:
            raise self._elsewhere(f"the query {query}; the check saw {self.query}")
        committed, begun = directory.last_commit(), directory.last_begun()
        # Spark writes a batch's offsets before it plans the batch; in a copy nothing has begun.
        if self.is_something and begun != committed + 1:
            if begun > committed + 1 or committed > self.batch:
                raise self._beside(committed, begun)
            raise self._elsewhere(f"batch {committed} committed and {begun} begun, as in a copy")
        return committed

    def begin_epoch(self, name: str, document: bytes) -> Callable[[], None]:
        """Begin an epoch of the driver: another one that runs on the checkpoint is fenced.

        What is returned leaves the ``document`` under its ``name``, in which one start follows the
        other. Both raise `CheckpointInUseError` where another driver has begun. On a store that
        cannot tell two of them apart this is only said, since Spark runs there too.
        """
        files = self.files
        try:
            return claim(files, self.driver, leaves={name: document.decode()}).leave
        except UnsupportedError as error:
            _log.warning(
                "no second driver on %s is told by statemigrate, but by Spark alone: %s [%s]",
                self.checkpoint, error.found, error.code,
            )  # fmt: skip
            return partial(files.replace, name, document)

    def compare_driver(self) -> None:
        """In a task that reaches the checkpoint: that no other driver has begun there since.

        Elsewhere than on a disk that tasks see the driver alone can look. Raises
        `CheckpointInUseError`.
        """
        local = local_path(self.checkpoint)
        if self.lent is None and local is not None:
            _fence(str(local), self.driver).require_newest()

    def compare_in_task(self) -> bool:
        """In a task: whether its batch is the one right after the check.

        Raises `StartupError` for a task of another query, or of a batch that was committed already
        when the check was made.
        """
        query, batch = running()
        if query is None:
            # Tests of a processor run without a query.
            return True
        self.compare_query()
        self.compare_driver()
        if self.is_something and batch is not None and batch <= self.batch:
            raise self.outdated(batch - 1)
        return batch == self.batch + 1

    def compare_query(self) -> None:
        """In a task: raise `StartupError` if it is another query's than the one that was seen."""
        query, _ = running()
        if None not in (query, self.query) and query != self.query:
            raise self._elsewhere(f"the query {self.query}; this task is {query}'s")

    def _beside(self, committed: int, begun: int) -> CheckpointInUseError:
        return CheckpointInUseError(
            "SM-CHECKPOINT-029",
            f"the checkpoint {self.checkpoint} is in use",
            expected="the batch that this query has begun as the last one there, not committed",
            found=f"batch {committed} committed and {begun} begun: another query goes on there",
            next_action="stop one of the two queries; this one has written nothing",
            path=self.checkpoint,
        )

    def outdated(self, committed: int) -> StartupError:
        """The error for a checkpoint that is not at the batch of the check any more."""
        return StartupError(
            "SM-START-016",
            f"the processor was compared with {self.checkpoint} at another batch",
            expected=f"batch {self.batch} as the last that is committed, as when it was compared",
            found=f"batch {committed}" if committed >= 0 else "none",
            next_action=f"{_AGAIN[self.of]}; nothing of this batch was written",
            path=self.checkpoint,
        )

    def _elsewhere(self, found: str) -> StartupError:
        return StartupError(
            "SM-START-017",
            f"checkpoint={self.checkpoint!r} is not the checkpoint of the query that runs",
            expected="the checkpointLocation of this very query",
            found=found,
            next_action=f"correct checkpoint= of {self.of}: it is the path or URI that writeStream "
            "gets as checkpointLocation; nothing of this batch was written",
            path=self.checkpoint,
        )


@lru_cache(maxsize=64)
def _fence(checkpoint: str, driver: str) -> Fence:
    """One a worker, for tasks of many batches: what was looked at is not looked at again."""
    return Fence(LocalFiles(Path(checkpoint)), driver)


def _lent(files: Files) -> ServedFiles | None:
    if isinstance(files, LocalFiles):
        return None
    # A server, which local files are not to wait for.
    from statemigrate.files.served import served

    return served(files)


def directory_of(checkpoint: str) -> CheckpointDirectory:
    """The directory of a checkpoint, a path or URI."""
    return CheckpointDirectory(open_files(checkpoint), checkpoint)


def running() -> tuple[str | None, int | None]:
    """The query and the batch that this task is of; None outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None, None
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    return query, None if batch is None else int(batch)


def _has_scheme(path: str) -> bool:
    return re.match("[A-Za-z][A-Za-z0-9+.-]+:", path) is not None
