"""A started query, and its locks, which end with it however it ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from statemigrate.embedded.engine.batches import Batches
from statemigrate.embedded.progress import BatchProgress
from statemigrate.embedded.storage.lock import DirectoryLock

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_running: set[RunningQuery] = set()


class RunningQuery:
    """A started query: Spark's own one, what its batches did, and the error it ended with.

    What Spark's ``StreamingQuery`` has goes by the same name here; ``query`` is that one.
    """

    def __init__(self, query: StreamingQuery, batches: Batches, locks: list[DirectoryLock]) -> None:
        from pyspark import InheritableThread

        self.query = query
        self._batches = batches
        self._locks = locks
        self._releasing = threading.Lock()
        _running.add(self)
        InheritableThread(target=self._release_at_the_end, daemon=True).start()

    @property
    def id(self) -> str:
        """The id of the query, which its checkpoint keeps from start to start."""
        return self.query.id

    @property
    def runId(self) -> str:
        """The id of this run, another one after each start."""
        return self.query.runId

    @property
    def name(self) -> str | None:
        """The name it was started with, as ``start(queryName=...)``."""
        return self.query.name

    @property
    def isActive(self) -> bool:
        """Whether Spark still runs it."""
        return not self.has_ended()

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """Spark's figures of the last trigger; those of this package are in ``progress``."""
        return self.query.lastProgress

    @property
    def progress(self) -> list[BatchProgress]:
        """The batches committed by this run, oldest first; the last ten thousand of them."""
        return list(self._batches.progress)

    def exception(self) -> BaseException | None:
        """The error it ended with: this package's own, or Spark's; None while there is none."""
        return self._batches.error or self.query.exception()

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; whether it came.

        Raises the error that ended the query: this package's own, or Spark's.
        """
        try:
            ended = self.query.awaitTermination(timeout)
        except Exception:
            self.release()
            if self._batches.error is not None:
                raise self._batches.error from None
            raise
        ended = ended is None or ended
        if ended:
            self.release()
        return ended

    def processAllAvailable(self) -> None:
        """Wait until all input that is there now is processed; raises as `awaitTermination`."""
        try:
            self.query.processAllAvailable()
        except Exception:
            self.release()
            if self._batches.error is not None:
                raise self._batches.error from None
            raise

    def stop(self) -> None:
        """Stop after the running batch is interrupted; what was not committed is run again."""
        self.query.stop()
        self.release()

    def has_ended(self) -> bool:
        """Whether Spark runs it no longer."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            return not self.query.isActive
        except (Py4JError, OSError):
            # Spark's Java process is gone, and with it all that it ran.
            return True

    def release(self) -> None:
        """Let the next query in; once this returns it may come, whoever else releases too."""
        _running.discard(self)
        # A file that two threads close at once raises in one of them.
        with self._releasing:
            for lock in self._locks:
                lock.release()

    def _release_at_the_end(self) -> None:
        try:
            self.query.awaitTermination()
        except Exception:
            # Whoever waits for the query is told why it ended; here it only matters that it has.
            self.release()
            return
        self.release()


def release_ended() -> None:
    """Release what queries of this process hold that have ended, whoever waited for that.

    Each releases its locks by itself, a moment after its end; who starts the next one at once, as
    after ``awaitAnyTermination``, must not depend on which is faster.
    """
    for each in list(_running):
        if each.has_ended():
            each.release()
