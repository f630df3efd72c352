"""The embedded engine as a user meets it: a streaming query with a processor over its rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import Epoch
from statemigrate.deployment import (
    SETTINGS,
    DeploymentSettings,
    StorePlan,
    is_tried,
    query_checkpoint,
)
from statemigrate.embedded.batches import (
    Batches,
    Drain,
    Engine,
    LastBatchState,
    Sink,
    beat,
    drains,
    facts_of,
    with_heartbeat,
)
from statemigrate.embedded.continuation import last_committed, next_start
from statemigrate.embedded.embedded_options import EmbeddedOptions
from statemigrate.embedded.layout import (
    DirectoryLock,
    Layout,
    Releasable,
    checkpoint_locks,
    given_directory,
    private_directory,
    remove_stale_copies,
)
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.offline import (
    StoppedQuery,
    note_released,
    register_holding,
    release_ended,
)
from statemigrate.embedded.progress import BatchProgress
from statemigrate.embedded.task import EmbeddedHandle
from statemigrate.embedded.task_plan import BatchSchema
from statemigrate.embedded.versions import WriterHeartbeat, claim
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.event_log import Stamp
from statemigrate.files import Files, has_jvm
from statemigrate.processor import (
    EMBEDDED,
    BatchProcessor,
    Start,
    check_names,
    grouping_key,
    is_one_machine,
    output_type,
    require_workers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from statemigrate.embedded.offline import StoppedBackfill


# A started query, and its locks, which end with it however it ends.


class RunningQuery:
    """A started query: Spark's own query, the batches, and the error that ended it.

    The members of Spark's ``StreamingQuery`` have the same names here; ``query`` is that query.
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
        register_holding(self)
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
        """The id of this run; each start has another one."""
        return self.query.runId

    @property
    def name(self) -> str | None:
        """The name of the query, from ``start(queryName=...)``."""
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
        """The values migrated after the last batch, with ``BackfillOptions(drain=True)``.

        None before that, and if nothing was left to migrate.
        """
        return None if self._drain is None else self._drain.done

    def exception(self) -> BaseException | None:
        """The error that ended it, this package's or Spark's; None if there is none."""
        drain = None if self._drain is None else self._drain.error
        return self._batches.error or drain or self.query.exception()

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds, and return whether it came.

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
        """Wait until all current input is processed; raises the errors of `awaitTermination`."""
        try:
            self.query.processAllAvailable()
        except Exception:
            self.release()
            if self._batches.error is not None:
                raise self._batches.error from None
            raise

    def stop(self) -> None:
        """Interrupt the running batch and stop; an uncommitted batch runs again at the next start.

        A drain ends after its current chunk.
        """
        if self._drain is not None:
            self._drain.cancel()
        self.query.stop()
        self._is_drained()
        self.release()

    def has_ended(self) -> bool:
        """Whether Spark no longer runs it, and no drain is running."""
        return self._has_stopped() and (self._drain is None or not self._ending.is_alive())

    def _has_stopped(self) -> bool:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            return not self.query.isActive
        except (Py4JError, OSError):
            # Spark's Java process is gone, and with it all that it ran.
            return True

    def release(self) -> None:
        """Let the next query in; it may start once this returns, whichever thread releases."""
        note_released(self)
        # A file that two threads close at once raises in one of them.
        with self._releasing:
            self._batches.close()
            for lock in self._locks:
                lock.release()

    def _release_at_the_end(self) -> None:
        try:
            self.query.awaitTermination()
        except Exception:
            # The caller that waits for the query gets the error; here it only matters that it
            # ended.
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


Planned = Callable[["Manifest | None"], dict[str, StorePlan]]


Compare = Callable[["DataFrame", Sequence[str], "Files", int], Callable[[], None]]
"""Compares a query with its state before it starts, and returns what the start then begins with.

It gets the stream, the grouping columns, the checkpoint, and its last version, -1 if there is none.
"""


class ProcessorQuery:
    """A query that is started by `start`, which first runs ``compare``; see `EmbeddedQuery`."""

    def __init__(
        self,
        stream: DataFrame,
        *,
        by: tuple[str, ...],
        processor: StatefulProcessor,
        output: StructType | str,
        checkpoint: str | Path,
        sink: Sink,
        options: EmbeddedOptions | None,
        compare: Compare,
    ) -> None:
        _require_jvm(stream.sparkSession)
        self._stream = stream
        self._by = by
        self._processor = processor
        self._output = output_type(output)
        self._layout = Layout.of(query_checkpoint(str(checkpoint)), stream.sparkSession)
        self._sink = sink
        self._options = options or EmbeddedOptions()
        self._settings: DeploymentSettings = getattr(processor, SETTINGS, DeploymentSettings())
        self._compare = compare

    def start(self, *, queryName: str | None = None, **trigger: Any) -> RunningQuery:
        """Check, then start; ``trigger`` has the arguments of ``DataStreamWriter.trigger``.

        ``queryName`` is the name that Spark shows for the query.
        """
        if is_tried():
            raise StartupError(
                "SM-EMBEDDED-033",
                "code that is tried out starts its query",
                expected="a function that returns the EmbeddedQuery and does not start it",
                found="a call of start(), of the query itself",
                next_action="return the EmbeddedQuery from the function, and call start() where "
                "the function is called",
            )
        check_master(self._stream, self._layout, self._options)
        release_ended()
        locks = self._lock()
        try:
            return self._start(locks, queryName, trigger)
        except BaseException:
            for lock in locks:
                lock.release()
            raise

    def _start(
        self, locks: list[Releasable], name: str | None, trigger: dict[str, Any]
    ) -> RunningQuery:
        schema = self._schema
        require_workers(EMBEDDED, self._stream.sparkSession)
        batch, committed = next_start(self._layout)
        check_checkpoint(self._layout, self._options, committed, schema)
        # Checked now; planned again from the version that the first batch really starts from.
        start, planned = plans_of(self._processor, schema, self._stream.sparkSession)
        stores = planned(committed)
        version = -1 if committed is None else committed.version
        begin = self._compare(self._stream, self._by, self._layout.files, version)
        epoch = claim(self._layout)
        if self._layout.remote is not None:
            locks.append(WriterHeartbeat(epoch))
        # One query is all there is in its checkpoint.
        note = start.note(stores, is_whole_query=True)
        note.start(self._layout.files, batch, facts_of(committed))
        begin()
        batches = Batches(self._engine(schema, epoch, note.stamp), planned)
        writer = with_heartbeat(self._stream, self._layout).writeStream.foreachBatch(batches.run)
        writer = writer.option("checkpointLocation", self._layout.location)
        if committed is not None and any(plan.sources for plan in stores.values()):
            beat(self._layout, committed.version)
        writer = writer.trigger(**trigger) if trigger else writer
        writer = writer.queryName(name) if name else writer
        drain = self._drain(epoch, planned) if drains(self._options, trigger) else None
        return RunningQuery(writer.start(), batches, locks, drain)

    @property
    def _schema(self) -> BatchSchema:
        rows = self._stream.schema
        key = grouping_key(rows, self._by, argument="groupBy")
        names = rows.fieldNames()
        columns = tuple(names.index(column) for column in self._by)
        return BatchSchema(rows, key, columns, self._output)

    def _drain(self, epoch: Epoch, planned: Planned) -> Drain:
        def last_state() -> LastBatchState | None:
            # The run's own manifests too.
            manifest = last_committed(self._layout, before=epoch.number + 1)
            if manifest is None:
                return None
            stopped = StoppedQuery(epoch, manifest, self._working())
            return LastBatchState(stopped, manifest, planned(manifest))

        return Drain(last_state, self._options)

    def _engine(self, schema: BatchSchema, epoch: Epoch, stamp: Stamp) -> Engine:
        working = self._working()
        return Engine(
            layout=self._layout.within(working),
            working=str(working),
            processor=self._processor,
            schema=schema,
            settings=self._settings,
            options=self._options,
            sink=self._sink,
            epoch=epoch,
            stamp=stamp,
        )

    def _working(self) -> Path:
        given = self._options.working_directory
        return given_directory(Path(given)) if given else private_directory(self._layout)

    def _lock(self) -> list[Releasable]:
        locks: list[Releasable] = [*checkpoint_locks(self._layout)]
        try:
            working = self._working()
            locks.append(DirectoryLock(working / "lock", "the working directory"))
            remove_stale_copies(working)
        except BaseException:
            for lock in locks:
                lock.release()
            raise
        return locks


def plans_of(
    processor: StatefulProcessor, schema: BatchSchema, session: SparkSession
) -> tuple[Start, Planned]:
    """The start of a query, and what plans its stores from the version that it starts from.

    Scripts are read once: the first batch may come hours later, with another release's there.
    """
    start = Start.of(processor, EmbeddedHandle, session)
    if isinstance(processor, BatchProcessor):
        check_names(start.declared, schema.key.fieldNames())

    def planned(manifest: Manifest | None) -> dict[str, StorePlan]:
        return start.plans({} if manifest is None else manifest.stored_stores())

    return start, planned


def check_master(stream: DataFrame, layout: Layout, options: EmbeddedOptions) -> None:
    """Raise `StartupError` where tasks may run on other machines, which have not the same files."""
    session = stream.sparkSession
    if options.shared_path:
        return
    master = session.sparkContext.master
    if is_one_machine(master):
        return
    remote = layout.remote is not None
    shared = "working directory (working_directory=)" if remote else "checkpoint"
    raise StartupError(
        "SM-EMBEDDED-003",
        "the embedded engine runs on one machine, and this session has a cluster",
        expected="a local master, such as local[*]",
        found=str(master),
        next_action="start the query with a local master; or take Spark's own state, or pages, "
        f"for a cluster. Where all machines have the {shared} under one path on a shared disk, "
        "say so by EmbeddedOptions(shared_path=True)",
        master=str(master),
    )


def check_checkpoint(
    layout: Layout, options: EmbeddedOptions, committed: Manifest | None, schema: BatchSchema
) -> None:
    """Raise `StartupError` for another number of partitions, or another key, than there is."""
    if committed is None:
        return
    found = len(committed.partitions)
    if found != options.partitions:
        raise StartupError(
            "SM-EMBEDDED-004",
            f"the checkpoint {layout.files.location} has another number of partitions",
            expected=f"{found} partitions, as it was made with",
            found=f"{options.partitions} in the options",
            next_action=f"start with EmbeddedOptions(partitions={found}); the number is fixed "
            "for the life of a checkpoint",
        )
    expected, key = _columns(committed.key_schema), _columns(schema.key.jsonValue())
    if key != expected:
        raise StartupError(
            "SM-EMBEDDED-005",
            f"the checkpoint {layout.files.location} has another grouping key",
            expected=expected,
            found=key,
            next_action="group by the same columns, with the same names and types",
        )


@dataclass(frozen=True)
class QueryParts:
    """What a query consists of, without its checkpoint and its sink."""

    stream: DataFrame
    processor: StatefulProcessor
    schema: BatchSchema
    options: EmbeddedOptions


def parts_of(query: ProcessorQuery) -> QueryParts:
    """The parts of a query, for who runs its code elsewhere or only looks at it."""
    return QueryParts(query._stream, query._processor, query._schema, query._options)


def _require_jvm(spark: SparkSession) -> None:
    if not has_jvm(spark):
        raise UnsupportedError(
            "SM-EMBEDDED-006",
            "the embedded engine does not run over Spark Connect",
            expected="a classic SparkSession, whose driver runs the engine's batches",
            found="a session of Spark Connect",
            next_action="start the query from a classic session, or keep its state in Spark's own "
            "store with statemigrate.migrated",
        )


def _columns(schema: dict[str, Any]) -> str:
    # Without nullability and metadata, which do not change a key's bytes.
    return ", ".join(f"{field['name']!r} {field['type']}" for field in schema["fields"])
