"""A started query, and its locks, which end with it however it ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from statemigrate.embedded.engine.driver.batches import Batches
from statemigrate.embedded.engine.driver.drain import Drain
from statemigrate.embedded.engine.stopped.ending import holds, holds_nothing
from statemigrate.embedded.progress import BatchProgress
from statemigrate.embedded.storage.lock import Releasable

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from statemigrate.embedded.engine.stopped.offline import StoppedBackfill


class RunningQuery:
    """A started query: Spark's own one, what its batches did, and the error it ended with.

    What Spark's ``StreamingQuery`` has goes by the same name here; ``query`` is that one.
    """

    def __init__(
        self,
        query: StreamingQuery,
        batches: Batches,
        locks: list[Releasable],
        drain: Drain | None = None,
    ) -> None:
        from pyspark import InheritableThread

        self._drain = drain
        self.query = query
        self._batches = batches
        self._locks = locks
        self._releasing = threading.Lock()
        holds(self)
        # A program that waits for Spark's query alone is not to end in the middle of a drain.
        daemon = drain is None
        self._ending = InheritableThread(target=self._release_at_the_end, daemon=daemon)
        self._ending.start()

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

    @property
    def drained(self) -> StoppedBackfill | None:
        """What was migrated after the last batch, with ``BackfillOptions(drain=True)``.

        None before that, and where nothing was left to migrate.
        """
        return None if self._drain is None else self._drain.done

    def exception(self) -> BaseException | None:
        """The error it ended with: this package's own, or Spark's; None while there is none."""
        drain = None if self._drain is None else self._drain.error
        return self._batches.error or drain or self.query.exception()

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; whether it came.

        A drain is part of the run. Raises the error that ended the query: this package's own, or
        Spark's.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            ended = self.query.awaitTermination(timeout)
        except Exception:
            self.release()
            if self._batches.error is not None:
                raise self._batches.error from None
            raise
        if ended is False or not self._is_drained(deadline):
            return False
        self.release()
        if self._drain is not None and self._drain.error is not None:
            raise self._drain.error
        return True

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
        """Stop after the running batch is interrupted; what was not committed is run again.

        A drain ends after the chunk it is at.
        """
        if self._drain is not None:
            self._drain.cancel()
        self.query.stop()
        self._is_drained()
        self.release()

    def has_ended(self) -> bool:
        """Whether Spark runs it no longer, and nothing is being drained."""
        return self._has_stopped() and (self._drain is None or not self._ending.is_alive())

    def _has_stopped(self) -> bool:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            return not self.query.isActive
        except (Py4JError, OSError):
            # Spark's Java process is gone, and with it all that it ran.
            return True

    def release(self) -> None:
        """Let the next query in; once this returns it may come, whoever else releases too."""
        holds_nothing(self)
        # A file that two threads close at once raises in one of them.
        with self._releasing:
            self._batches.close()
            for lock in self._locks:
                lock.release()

    def _release_at_the_end(self) -> None:
        try:
            self.query.awaitTermination()
        except Exception:
            # Whoever waits for the query is told why it ended; here it only matters that it has.
            self.release()
            return
        if self._drain is not None:
            self._drain.run()
        self.release()

    def _is_drained(self, deadline: float | None = None) -> bool:
        """Wait for the end of a drain, if there is one; whether it came."""
        if self._drain is None:
            return True
        self._ending.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not self._ending.is_alive()
