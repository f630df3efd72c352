"""Who is told of every batch, from the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from statemigrate.embedded.progress import BatchProgress


class BatchObserver(Protocol):
    """Is told how each batch ended, and must not raise: that would end the query."""

    def committed(self, progress: BatchProgress) -> None:
        """A batch is committed, and its sink has returned."""

    def failed(self, error: BaseException) -> None:
        """A batch ended with an error, and with it the query; of its state nothing may be there."""
