"""`fenced`: what a user puts on a function of ``foreachBatch``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.checkpoint.epochs import Fence, newest_epoch, this_driver
from statemigrate.files.opening import open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sink = Callable[["DataFrame", int], None]


def fenced(sink: Sink, *, checkpoint: str | Path) -> Sink:
    """A function for ``foreachBatch`` that calls ``sink`` as long as no other driver has begun.

    For a query on Spark's own state, also in pages: Spark finds out that two drivers run on one
    checkpoint when the second one commits, and that one has written its batch by then. Each driver
    begins an epoch in ``checkpoint``, the query's ``checkpointLocation``: where it plans the first
    batch of a processor that is marked with `migrated` and its ``checkpoint=``, or of `paged`, and
    else before the sink gets its first batch. Before and after each call the driver looks for a
    later one. What the sink writes while the other begins, nobody takes back: it should replace or
    upsert by the batch id, as for any batch that is run again.

    The call raises `CheckpointInUseError` where another driver has begun since, which ends the
    query before Spark commits the batch; `CheckpointError` where the checkpoint was removed or
    brought back meanwhile; and `UnsupportedError` on a store that cannot tell two drivers apart.
    """
    files = open_files(checkpoint)
    fence = Fence(files, this_driver(), newest_epoch(files))

    @wraps(sink)
    def guarded(rows: DataFrame, batch: int) -> None:
        fence.require_own(begins=True)
        sink(rows, batch)
        # A sink may take long, and whoever has begun meanwhile runs this batch again.
        fence.require_newest()

    return guarded
