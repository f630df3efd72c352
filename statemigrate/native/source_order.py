"""Whether a query that starts has its backfill source where Spark will find it again: at the end.

Spark goes on from a checkpoint by the order of a query's sources, unless they have names. A source
that comes behind the backfill source would take the offsets of another one, and read rows twice or
never. Who calls `stateful` or `with_backfill` cannot know what is made of the stream later; so the
plan is looked at when the query starts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError
from statemigrate.native.adoption_files import newest_adoption
from statemigrate.native.chunks import ChunkFiles, is_described_by
from statemigrate.processor import has_named_sources
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("statemigrate.native")
_STOPPED = 20.0
"""Seconds for a query to be stopped that has not begun."""


def stop_misplaced(
    spark: SparkSession, query: str, files: ChunkFiles, listen: Callable[[], None]
) -> None:
    """Stop a query that starts, before its first batch, where sources follow the backfill source.

    It ends with a `StartupError` as its exception. Sources with names may follow in any order. A
    listener of Spark's that calls this is removed by it: ``listen`` adds it again.
    """
    if has_named_sources(spark):
        return
    session: Any = spark
    started = session._jsparkSession.streams().get(session._jvm.java.util.UUID.fromString(query))
    if started is None:
        return
    execution = started.streamingQuery()
    sources = list(_sources(execution.analyzedPlan()))
    own = [place for place, each in enumerate(sources) if is_described_by(files.path, each)]
    if own and not _is_in_place(files, own, sources):
        error = _misplaced(files, sources, sources[own[0] + 1 :])
        _LOG.error("%s", error)
        _stop(session._jvm, execution, error, listen)


def _is_in_place(files: ChunkFiles, own: list[int], sources: list[str]) -> bool:
    """Whether the backfill source is where its line in the log is, or will be looked for."""
    adoption = newest_adoption(files.adoptions())
    if adoption is not None and adoption.progress == "adopted":
        return own == [adoption.sources]
    # Where operators on pages have sources too, in folders beside its own, each is known by what it
    # has taken.
    control = files.path.rpartition("/")[0]
    others = [each for place, each in enumerate(sources) if place not in own]
    return own == [len(others)] or (len(own) == 1 and any(f"{control}/" in each for each in others))


def _sources(plan: Any) -> Iterator[str]:
    """The streams that a plan reads, in Spark's order."""
    children = plan.children()
    # What stands for a WITH of SQL is a leaf that streams too, and no source.
    if not children.size() and str(plan.getClass().getSimpleName()).startswith("Streaming"):
        yield str(plan.toString()).strip()
    for place in range(children.size()):
        yield from _sources(children.apply(place))


def _stop(jvm: Any, execution: Any, error: StartupError, listen: Callable[[], None]) -> None:
    def stop() -> None:
        execution.stop()
        # Spark interrupts its thread, and removes the listener that it has interrupted.
        listen()

    # Spark waits here; the thread that stops waits for Spark.
    threading.Thread(target=stop, name="statemigrate-refusing", daemon=True).start()
    until = time.monotonic() + _STOPPED
    while execution.isActive() and time.monotonic() < until:
        time.sleep(0.01)
    details = {"id": str(execution.id()), "runId": str(execution.runId()), "message": str(error)}
    made = jvm.org.apache.spark.sql.streaming.StreamingQueryException(
        str(error),
        jvm.java.lang.IllegalStateException(str(error)),
        "STREAM_FAILED",
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(details),
    )
    # What ends a query with an exception is nobody's but Spark's own to set.
    getattr(execution, "streamDeathCause_$eq")(made)


def _misplaced(files: ChunkFiles, sources: list[str], behind: list[str]) -> StartupError:
    return StartupError(
        "SM-BACKFILL-017",
        f"the query of {files.checkpoint} reads sources behind its backfill source",
        expected="the backfill source as the query's last: Spark goes on by the order of sources",
        found=f"{', '.join(behind)} behind it, of {len(sources)} sources",
        next_action=_advice(files),
        path=files.checkpoint,
    )


def _advice(files: ChunkFiles) -> str:
    offsets = files.offsets()
    if offsets is None:
        return (
            "no batch has run: call stateful or with_backfill for one operator alone, and read its "
            "stream last, as in other.union(migrated)"
        )
    undo = ""
    if files.adoptions():
        undo = (
            f"`statemigrate backfill {argument(files.checkpoint)} --prepare --undo --apply`, then "
        )
    return (
        f"no batch has run: {undo}migrate this operator by touch, with migrated on its processor "
        "and neither stateful nor with_backfill, or with `statemigrate rewrite`; leave the order "
        "of the query's own sources as it is"
    )
