"""A listener of streaming queries that is quick to call."""

from __future__ import annotations

import json
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

_NOT_FINITE = float("nan")


class QueryListener(StreamingQueryListener):
    """Gets the progress of a batch from Spark as one text, and does nothing with any event.

    PySpark asks the JVM for each field of the progress. At the end of each list and map in it, it
    looks for the classes of a dozen exceptions in all jars. That takes the driver 0.2 to 0.9 s for
    each batch and listener, and Spark calls one listener after the other. The text takes 2 to 6 ms.

    A session of Spark Connect has no JVM; its listeners get texts from Spark anyway.
    """

    def onQueryStarted(self, event: Any) -> None:
        """A query starts; Spark waits for this."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has ended."""

    def onQueryIdle(self, event: Any) -> None:
        """A query had no input for a while."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""

    @property
    def _jlistener(self) -> Any:
        # As in PySpark, which asks for this to add the listener and to remove it.
        if not hasattr(self, "_jlistenerobj"):
            wrapper = SparkContext._jvm.PythonStreamingQueryListenerWrapper  # type: ignore[union-attr]
            self._jlistenerobj = wrapper(_Events(self))
        return self._jlistenerobj


class _Events(JStreamingQueryListener):
    """What the JVM calls; it differs from PySpark's in the progress alone."""

    def onQueryProgress(self, jevent: Any) -> None:
        progress = progress_of(jevent.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent(progress))


def progress_of(text: str) -> StreamingQueryProgress:
    """The progress of a batch from the JSON that Spark writes of it."""
    document = json.loads(text)
    for source in document["sources"]:
        # Spark leaves out what is no finite number, and PySpark takes each as given.
        for rate in ("inputRowsPerSecond", "processedRowsPerSecond"):
            source.setdefault(rate, _NOT_FINITE)
        # Before 4.2 PySpark writes an offset as Python does.
        for offset in ("startOffset", "endOffset", "latestOffset"):
            if not isinstance(value := source.get(offset), str):
                source[offset] = json.dumps(value)
    return StreamingQueryProgress.fromJson(document)
