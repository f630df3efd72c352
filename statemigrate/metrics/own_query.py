"""Which of a session's queries is the one that is recorded."""

from __future__ import annotations

from typing import Any

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.files.opening import open_files


class OwnQuery:
    """The query of one checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self.directory = CheckpointDirectory(open_files(checkpoint))
        self._id: str | None = None

    def started(self, query: Any) -> None:
        """A query has started: if it is another one, the checkpoint may be a new one too."""
        if str(query) != self._id:
            self._id = None

    def is_id(self, query: Any) -> bool:
        """Whether this is its id."""
        # Read late: before the query's first start there is nothing to read.
        if self._id is None:
            self._id = self.directory.query_id()
        return str(query) == self._id
