"""Which of a session's queries is the one that is recorded."""

from __future__ import annotations

from typing import Any

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.files.opening import open_files


class OwnQuery:
    """The query of one checkpoint.

    ``event`` is what Spark tells of a query or of a batch: it has the query's ``id`` and ``runId``.
    """

    def __init__(self, checkpoint: str) -> None:
        self.directory = CheckpointDirectory(open_files(checkpoint))
        self._id: str | None = None
        self._runs: dict[str, str] = {}

    def started(self, event: Any) -> None:
        """A query has started: if it is another one, the checkpoint may be a new one too."""
        self._runs[str(event.id)] = str(event.runId)
        if str(event.id) != self._id:
            self._id = None

    def has(self, event: Any) -> bool:
        """Whether this is of the query."""
        # Read late: before the query's first start there is nothing to read.
        if self._id is None:
            self._id = self.directory.query_id()
        return str(event.id) == self._id

    def is_over(self, event: Any) -> bool:
        """Whether this is of a run after which the query was started again.

        Spark tells of a start at once, and of the end of the run before it when it comes to it.
        """
        run = str(event.runId)
        return self._runs.get(str(event.id), run) != run
