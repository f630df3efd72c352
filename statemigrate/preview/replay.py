"""Code run again on committed batches, each with the input, the watermark and the time it had.

A fork of the checkpoint has the state before the first of them. A batch is written into its offset
log as one that was begun and not committed. A query that starts there with one trigger runs
precisely that batch, as Spark does after a crash, and takes the watermark and the clock from the
log. What the code gives out goes to files: its own sink is never run.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import (
    FILE_IDS,
    OffsetEntry,
    Offsets,
    batches_in,
    names_in,
    read_commit,
    read_entry,
)
from statemigrate.checkpoint.operators import operator_files
from statemigrate.deployment import Copy, running_on_copy
from statemigrate.errors import CheckpointError, CodeError, StatemigrateError
from statemigrate.files import Files, open_files
from statemigrate.native import class_of_any_release, uri_of
from statemigrate.preview.history import History
from statemigrate.preview.inputs import RecordedInput
from statemigrate.preview.stream_plan import UnoptimizedPlan
from statemigrate.processor import SOURCE_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from statemigrate.preview.engines import RunnableCode

WITHOUT_NAMES = {SOURCE_NAMES: "false"}
"""Settings with which Spark takes sources without names: what stands for a source has none."""
_SETTINGS = {
    # The logs of the sources are written here, and none of their files is a compact one.
    "spark.sql.streaming.fileSource.log.compactInterval": "1000000",
    # The state after each batch is compared once all of them have run.
    "spark.sql.streaming.minBatchesToRetain": "1000",
    # RocksDB writes what a batch has changed; otherwise it copies its files after each batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch without rows that the query has run has an empty file.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1ms",
    # Output is compared: the usual form of a timestamp in a file ends in the year 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A folder of output is read once its batch has ended: it needs no mark of success.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Each task moves its own file to the folder; otherwise the driver moves all of them again.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    **WITHOUT_NAMES,
}
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_FILE_MANAGERS = tuple(
    f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
    for package in ("checkpointing.", "")
)
"""The class of Spark's that renames local files by itself, by its names since 4.1 and before.

The usual one starts the program ``readlink`` for each of the four names in a rename, and a replay
renames thousands of files.
"""
_TOO_LONG = 1800  # seconds


@dataclass(frozen=True)
class QueryFunction:
    """A function of the user's: ``inputs`` has by parameter the source that it stands for.

    ``schemas`` are those of its parameters. ``sessions`` are the parameters that get the Spark
    session. ``repeated`` has by source others that the query has for the same stream. ``deployed``
    are the revisions that the code is deployed with, by store, where newer scripts may be there,
    and ``named`` the checkpoints that it has named.
    """

    reference: str
    function: Callable[..., Any]
    inputs: Mapping[str, str]
    schemas: Mapping[str, Any]
    mode: str
    sessions: tuple[str, ...] = ()
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    deployed: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ReplayedBatch:
    """A batch that was run again: the ``watermark`` after it, as Spark has committed it."""

    number: int
    watermark: int
    seconds: float


@dataclass(frozen=True)
class Replayed:
    """What a run has left: its checkpoint with the state after each batch, and its output.

    ``columns`` has, by column of the output's files, the name that it has in the code.
    """

    checkpoint: str
    output: Path
    batches: tuple[ReplayedBatch, ...]
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def watermarks(self) -> dict[int, int]:
        """The watermark after each batch."""
        return {each.number: each.watermark for each in self.batches}


def start_fork(files: Files, history: History, folder: Path) -> Path:
    """Copy the state before the batches to ``folder``."""
    history.engine.fork(files, folder, history.before.number)
    point_at_inputs(folder, len(history.sources))
    for number in range(len(set(history.folders.values()))):
        # Fewer of them than lines are a query that reads one stream in several places.
        _empty_source_log(folder, number)
    return folder


def copy_fork(fork: Path, place: Path) -> Path:
    """Copy a fork to another ``place``, whose operators' metadata name its own files."""
    shutil.copytree(fork, place)
    files = open_files(place.as_uri())
    for each in operator_files(files):
        own = each.rooted_at(uri_of(files)).data
        if own != each.data:
            files.replace(each.path, own)
            # What Spark has written has a checksum next to it, which is that of the other content.
            folder, _, name = each.path.rpartition("/")
            files.delete([f"{folder}/.{name}.crc"])
    return place


def point_at_inputs(folder: Path, sources: int) -> None:
    """Let each entry of the offset log be that of a query that has read no recorded input yet."""
    files = open_files(folder.as_uri())
    for batch in batches_in(names_in(files, "offsets")):
        lines = (_line(0),) * sources
        _write_entry(folder, batch, _unnamed(read_entry(files, batch), lines))
    shutil.rmtree(folder / "sources", ignore_errors=True)


def _unnamed(entry: OffsetEntry, lines: tuple[str, ...]) -> OffsetEntry:
    pinned = None if entry.pinned is None else dict(entry.pinned)
    if pinned is not None and SOURCE_NAMES in pinned:
        pinned |= WITHOUT_NAMES
    return replace(entry, offsets=Offsets(False, lines), pinned=pinned, source_metadata=None)


def _line(position: int) -> str:
    return json.dumps({"logOffset": position}, separators=(",", ":"))


def _write_entry(folder: Path, batch: int, entry: OffsetEntry) -> None:
    for name in (f"{batch}.crc", f".{batch}.crc"):
        (folder / "offsets" / name).unlink(missing_ok=True)
    (folder / "offsets" / str(batch)).write_bytes(entry.data)


def replay(
    code: QueryFunction,
    folder: Path,
    history: History,
    *,
    recorded: Mapping[str, RecordedInput],
    output: Path,
    session: SparkSession,
    like: Mapping[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Replayed:
    """Run ``code`` on the batches of ``history``, on the fork in ``folder``.

    Rows that it gives out are written below ``output``. The watermark of each batch is that of the
    query's own log, as long as the code arrives at the watermarks that it had before it: those of
    ``like``, another run's, where they are given. From then on it is the code's own. Raises
    `CodeError` where the code fails.

    Where nothing depends on the time at which a batch runs, and there is one watermark at most, one
    query runs all batches. If it does not arrive at the watermarks of the query, as ``like`` does
    not say, the batches are run one by one.
    """
    own = _session(session, history)
    plan = UnoptimizedPlan.of(_called(code, folder, history, recorded, own).stream)
    places = _sources_of(plan, code, recorded)
    run = _Run(code, history, recorded, output, own, plan, places, progress or (lambda _: None))
    has_rows = all(recorded[each].batches for each in places)
    if has_rows and not plan.clock and plan.watermarks < 2:
        # With several watermarks Spark begins another time with those that it has not logged.
        at_once = folder.with_name(f"{folder.name}-at-once")
        found = run.at_once(copy_fork(folder, at_once))
        if like is not None or found.watermarks == history.watermarks:
            return found
    return run.one_by_one(folder, like)


@dataclass(frozen=True)
class _Run:
    """Some code on recorded rows, all batches at once or one by one."""

    code: QueryFunction
    history: History
    recorded: Mapping[str, RecordedInput]
    output: Path
    session: SparkSession
    plan: UnoptimizedPlan
    places: Sequence[str]
    progress: Callable[[int], None]

    def at_once(self, folder: Path) -> Replayed:
        """Run one query over all batches: each takes one file of each source, an empty one too."""
        inputs = {
            source: _one_file_each(
                self.recorded[source], self.history, folder.parent / "one-file-each" / source
            )
            for source in dict.fromkeys(self.places)
        }
        self._begin(folder, {})
        made = _called(self.code, folder, self.history, inputs, self.session, at_once=True)
        ended = dict.fromkeys((each.number for each in self.history.batches), 0.0)
        began = time.monotonic()

        def note(batch: int) -> None:
            ended[batch] = time.monotonic()
            self.progress(batch)

        columns = _run(self.code, made, folder, self.output, None, note, self.history.times)
        times = [began, *ended.values()]
        files = open_files(folder.as_uri())
        done = [
            ReplayedBatch(number, read_commit(files, number).watermark, times[n + 1] - times[n])
            for n, number in enumerate(ended)
        ]
        return Replayed(folder.as_uri(), self.output, tuple(done), columns)

    def one_by_one(self, folder: Path, like: Mapping[int, int] | None) -> Replayed:
        """Run each batch by a start of its own, with the time and the watermark that it had."""
        files = open_files(folder.as_uri())
        start = read_entry(files, self.history.before.number)
        self._begin(folder, self.recorded)
        done: list[ReplayedBatch] = []
        columns: Mapping[str, str] = {}
        reached = read_commit(files, self.history.before.number).watermark
        is_alike = reached == self.history.before.commit.watermark
        for batch in self.history.batches:
            entry = batch.entry
            if not is_alike:
                entry = replace(entry, watermark=reached)
            made = _called(self.code, folder, self.history, self.recorded, self.session)
            lines = tuple(_line(self.recorded[each].position(batch.number)) for each in self.places)
            entry = replace(_unnamed(entry, lines), pinned=start.pinned)
            _write_entry(folder, batch.number, entry)
            began = time.monotonic()
            columns = _run(
                self.code, made, folder, self.output, batch.number, lambda _: None,
                self.history.times,
            )  # fmt: skip
            seconds = time.monotonic() - began
            reached = read_commit(files, batch.number).watermark
            done.append(ReplayedBatch(batch.number, reached, seconds))
            if like is not None and like.get(batch.number) != reached:
                is_alike = False
            self.progress(batch.number)
        return Replayed(folder.as_uri(), self.output, tuple(done), columns)

    def _begin(self, folder: Path, recorded: Mapping[str, RecordedInput]) -> None:
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(parents=True)
        point_at_inputs(folder, len(self.places))
        _write_source_logs(folder, dict(zip(self.plan.sources, self.places, strict=True)), recorded)


def _one_file_each(recorded: RecordedInput, history: History, folder: Path) -> RecordedInput:
    """The same rows with a file for each batch, in the order of their times, empty where none is.

    Raises what reading a schema from Parquet does.
    """
    import pyarrow.parquet as pq

    if not folder.exists():
        folder.mkdir(parents=True)
        for place, batch in enumerate(history.batches):
            file = folder / f"{batch.number}.parquet"
            if batch.number in recorded.batches:
                shutil.copyfile(recorded.file(batch.number), file)
            else:
                empty = pq.read_schema(recorded.file(recorded.batches[0])).empty_table()
                pq.write_table(empty, file)
            os.utime(file, (place + 1, place + 1))
    return RecordedInput(folder, tuple(each.number for each in history.batches), recorded.schema)


def _session(spark: SparkSession, history: History) -> SparkSession:
    """A session with the settings of the given one, else the query's, and those of a replay."""
    session = spark.newSession()
    given = spark.conf.getAll
    _set_recorded(
        session, {name: each for name, each in history.settings.items() if name not in given}
    )
    for name, value in given.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    if history.before.commit.state_ids is not None:
        session.conf.set(FILE_IDS, "2")
    manager = class_of_any_release(session._jvm, _FILE_MANAGERS)
    if manager is not None:
        session.conf.set(_FILE_MANAGER, manager.getName())
    return session


def _set_recorded(session: SparkSession, recorded: Mapping[str, str]) -> None:
    from pyspark.errors import IllegalArgumentException

    for name, value in recorded.items():
        try:
            if session.conf.isModifiable(name):
                session.conf.set(name, value)
        except IllegalArgumentException as error:
            refused, _, _ = str(error).partition("\n")
            raise CheckpointError(
                "SM-PREVIEW-039",
                f"the record of the query's settings has a value of {name} that Spark refuses",
                expected="a value with which the query can have run",
                found=refused,
                next_action=f"set {name} in [tool.statemigrate.spark], or in your session; a "
                "setting there counts in place of the recorded one",
                setting=name,
            ) from error


def _called(
    code: QueryFunction,
    folder: Path,
    history: History,
    recorded: Mapping[str, RecordedInput],
    session: SparkSession,
    *,
    at_once: bool = False,
) -> RunnableCode:
    """The function's result on the recorded streams, made for the checkpoint in ``folder``.

    A batch takes all of a stream, or one file.
    """
    limit = {"maxFilesPerTrigger": "1"} if at_once else {}
    streams = {
        name: session.readStream.schema(code.schemas[name])
        .options(**limit)
        .parquet(recorded[source].folder.as_uri())
        for name, source in code.inputs.items()
    }
    try:
        with running_on_copy(Copy(folder.as_uri(), code.deployed)):
            made = code.function(**streams, **dict.fromkeys(code.sessions, session))
            return history.engine.runnable(made, code.reference, code.mode)
    except StatemigrateError:
        raise
    except Exception as cause:
        raise _failed(code, None, cause) from cause


def _sources_of(
    plan: UnoptimizedPlan, code: QueryFunction, recorded: Mapping[str, RecordedInput]
) -> tuple[str, ...]:
    """The recorded source in each place where the query reads one, as its plan shows."""
    by_folder = {recorded[each].folder.as_uri(): each for each in code.inputs.values()}
    for each in plan.reads:
        if each not in by_folder:
            raise _other_source(code, each)
    return tuple(by_folder[each] for each in plan.reads)


def _other_source(code: QueryFunction, found: str) -> CodeError:
    return CodeError(
        "SM-PREVIEW-008",
        f"{code.reference} reads a stream that it is not given",
        expected="a function whose streams are its parameters",
        found=found[:200],
        next_action="let the function take the stream as a parameter, and open it where it is "
        "called",
        reference=code.reference,
    )


def _empty_source_log(folder: Path, number: int) -> Path:
    log = folder / "sources" / str(number)
    log.mkdir(parents=True)
    (log / "0").write_text("v1")
    return log


def _write_source_logs(
    folder: Path, places: Mapping[int, str], recorded: Mapping[str, RecordedInput]
) -> None:
    """The logs of the sources, as Spark's file source writes them: a file with one line a batch.

    ``places`` has by the number of Spark's source the recorded one.
    """
    for number, source in places.items():
        log = _empty_source_log(folder, number)
        if source not in recorded:
            continue
        for position, batch in enumerate(recorded[source].batches, 1):
            file = recorded[source].file(batch)
            line = {"path": file.as_uri(), "timestamp": position, "batchId": position}
            (log / str(position)).write_text(f"v1\n{json.dumps(line, separators=(',', ':'))}")


def _run(
    code: QueryFunction,
    made: RunnableCode,
    folder: Path,
    output: Path,
    batch: int | None,
    note: Callable[[int], None],
    times: Mapping[int, int],
) -> Mapping[str, str]:
    """Run the ``batch`` that is begun in ``folder``, or all if none is; the columns of `Replayed`.

    ``note`` is called with each batch when its rows are written. ``times`` are those of batches.
    """
    own = made.output.fieldNames()
    names = unique_names(own)

    def keep(rows: DataFrame, number: int) -> None:
        rows.toDF(*names).write.mode("overwrite").parquet((output / str(number)).as_uri())
        note(number)

    trigger = {"availableNow": True} if batch is None else {"once": True}
    try:
        query = made.start(folder, keep, times, **trigger)
        ended = query.awaitTermination(_TOO_LONG)
    except StatemigrateError:
        raise
    except Exception as cause:
        begun = max(batches_in(names_in(open_files(folder.as_uri()), "offsets")))
        raise _failed(code, begun if batch is None else batch, cause) from cause
    if not ended:
        query.stop()
        raise _failed(code, batch, TimeoutError(f"it takes more than {_TOO_LONG} seconds"))
    return dict(zip(names, own, strict=True))


def unique_names(columns: Sequence[str]) -> list[str]:
    """Names of columns that a file can have: a name that comes again gets a number."""
    found: list[str] = []
    for name in columns:
        unique, number = name, 2
        while unique.casefold() in {each.casefold() for each in found}:
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def _failed(code: QueryFunction, batch: int | None, cause: Exception) -> CodeError:
    at = "" if batch is None else f" on batch {batch}"
    text = str(cause).partition("\n=== Streaming Query ===")[0].rstrip()
    return CodeError(
        "SM-PREVIEW-009",
        f"{code.reference} does not run{at}",
        expected="code that runs on the input of the committed batches",
        found=f"{type(cause).__name__}: {text}",
        next_action="correct the function",
        reference=code.reference,
        batch=batch,
    )
