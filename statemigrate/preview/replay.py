"""Code run again on committed batches, each with the input, the watermark and the time it had.

A fork of the checkpoint has the state before the first of them. A batch is written into its offset
log as one that was begun and not committed. A query that starts there with one trigger runs
precisely that batch, as Spark does after a crash, and takes the watermark and the clock from the
log. What the code gives out goes to files: its own sink is never run.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs.entries import (
    FILE_IDS,
    OffsetEntry,
    read_commit,
    read_entry,
)
from statemigrate.checkpoint.logs.offsets import Offsets, batches_in, names_in
from statemigrate.errors import CodeError, StatemigrateError
from statemigrate.files import Files
from statemigrate.files.open import open_files
from statemigrate.preview.history import CommittedBatch, History
from statemigrate.preview.inputs import RecordedInput
from statemigrate.preview.stream_plan import StreamPlan
from statemigrate.rewrite.fork import fork_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_SETTINGS = {
    # The logs of the sources are written here, and none of their files is a compact one.
    "spark.sql.streaming.fileSource.log.compactInterval": "1000000",
    # The state after each batch is compared once all of them have run.
    "spark.sql.streaming.minBatchesToRetain": "1000",
}
_TOO_LONG = 1800  # seconds


@dataclass(frozen=True)
class Code:
    """A function of the user's: ``inputs`` has by parameter the source that it stands for.

    ``schemas`` are those of its parameters. ``sessions`` are the parameters that get the Spark
    session. ``repeated`` has by source others that the query has for the same stream.
    """

    reference: str
    function: Callable[..., Any]
    inputs: Mapping[str, str]
    schemas: Mapping[str, Any]
    mode: str
    sessions: tuple[str, ...] = ()
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplayedBatch:
    """A batch that was run again: the ``watermark`` after it, as Spark has committed it."""

    number: int
    watermark: int
    seconds: float


@dataclass(frozen=True)
class Replayed:
    """What a run has left: its checkpoint with the state after each batch, and its output."""

    checkpoint: str
    output: Path
    batches: tuple[ReplayedBatch, ...]
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def watermarks(self) -> dict[int, int]:
        """The watermark after each batch."""
        return {each.number: each.watermark for each in self.batches}


def start_fork(files: Files, history: History, folder: Path) -> Path:
    """Copy the state before the batches to ``folder``."""
    fork_state(files, open_files(folder.as_uri()), history.before.number)
    point_at_inputs(folder, len(history.sources))
    return folder


def point_at_inputs(folder: Path, sources: int) -> None:
    """Let each entry of the offset log be that of a query that has read no recorded input yet."""
    files = open_files(folder.as_uri())
    for batch in batches_in(names_in(files, "offsets")):
        lines = (_line(0),) * sources
        _write_entry(folder, batch, _unnamed(read_entry(files, batch), lines))
    shutil.rmtree(folder / "sources", ignore_errors=True)


def _unnamed(entry: OffsetEntry, lines: tuple[str, ...]) -> OffsetEntry:
    pinned = None if entry.pinned is None else dict(entry.pinned)
    if pinned is not None and _EVOLUTION in pinned:
        pinned[_EVOLUTION] = "false"
    return replace(entry, offsets=Offsets(False, lines), pinned=pinned, source_metadata=None)


def _line(position: int) -> str:
    return json.dumps({"logOffset": position}, separators=(",", ":"))


def _write_entry(folder: Path, batch: int, entry: OffsetEntry) -> None:
    for name in (f"{batch}.crc", f".{batch}.crc"):
        (folder / "offsets" / name).unlink(missing_ok=True)
    (folder / "offsets" / str(batch)).write_bytes(entry.data)


def replay(
    code: Code,
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
    """
    output.mkdir(parents=True)
    own = _session(session, history)
    files = open_files(folder.as_uri())
    start = read_entry(files, history.before.number)
    done: list[ReplayedBatch] = []
    schemas: list[Mapping[str, Any]] = []
    is_alike = True
    for batch in history.batches:
        entry = batch.entry
        if not is_alike:
            entry = replace(entry, watermark=done[-1].watermark)
        stream = _called(code, recorded, own)
        plan = StreamPlan.of(stream)
        places = _sources_of(plan, code, recorded)
        if not done:
            point_at_inputs(folder, len(places))
            _write_source_logs(folder, dict(zip(plan.sources, places, strict=True)), recorded)
        lines = tuple(_line(recorded[each].position(batch.number)) for each in places)
        entry = replace(_unnamed(entry, lines), pinned=start.pinned)
        _write_entry(folder, batch.number, entry)
        began = time.monotonic()
        schemas[:] = [_run(code, stream, folder, output, batch)]
        seconds = time.monotonic() - began
        watermark = read_commit(files, batch.number).watermark
        done.append(ReplayedBatch(batch.number, watermark, seconds))
        if like is not None and like.get(batch.number) != watermark:
            is_alike = False
        if progress is not None:
            progress(batch.number)
    return Replayed(folder.as_uri(), output, tuple(done), schemas[0])


def _session(spark: SparkSession, history: History) -> SparkSession:
    """A session with the settings of the given one, and those that a replay needs."""
    session = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    if history.before.commit.state_ids is not None:
        session.conf.set(FILE_IDS, "2")
    return session


def _called(code: Code, recorded: Mapping[str, RecordedInput], session: SparkSession) -> DataFrame:
    """What the function makes of the recorded streams."""
    streams = {
        name: session.readStream.schema(code.schemas[name]).parquet(
            recorded[source].folder.as_uri()
        )
        for name, source in code.inputs.items()
    }
    try:
        made = code.function(**streams, **dict.fromkeys(code.sessions, session))
    except StatemigrateError:
        raise
    except Exception as cause:
        raise _failed(code, None, cause) from cause
    if not getattr(made, "isStreaming", False):
        raise _failed(code, None, TypeError(f"it returns {type(made).__name__}, and no stream"))
    stream: DataFrame = made
    return stream


def _sources_of(
    plan: StreamPlan, code: Code, recorded: Mapping[str, RecordedInput]
) -> tuple[str, ...]:
    """The recorded source in each place where the query reads one, as its plan shows."""
    by_folder = {recorded[each].folder.as_uri(): each for each in code.inputs.values()}
    for each in plan.reads:
        if each not in by_folder:
            raise _other_source(code, each)
    return tuple(by_folder[each] for each in plan.reads)


def _other_source(code: Code, found: str) -> CodeError:
    return CodeError(
        "SM-PREVIEW-008",
        f"{code.reference} reads a stream that it is not given",
        expected="a function whose streams are its parameters",
        found=found[:200],
        next_action="let the function take the stream as a parameter, and open it where it is "
        "called",
        reference=code.reference,
    )


def _write_source_logs(
    folder: Path, places: Mapping[int, str], recorded: Mapping[str, RecordedInput]
) -> None:
    """The logs of the sources, as Spark's file source writes them: a file with one line a batch.

    ``places`` has by the number of Spark's source the recorded one.
    """
    for number, source in places.items():
        log = folder / "sources" / str(number)
        log.mkdir(parents=True)
        (log / "0").write_text("v1")
        for position, batch in enumerate(recorded[source].batches, 1):
            file = recorded[source].file(batch)
            line = {"path": file.as_uri(), "timestamp": position, "batchId": position}
            (log / str(position)).write_text(f"v1\n{json.dumps(line, separators=(',', ':'))}")


def _run(
    code: Code, stream: DataFrame, folder: Path, output: Path, batch: CommittedBatch
) -> Mapping[str, Any]:
    """Run the batch that is begun in ``folder``; what the schema of the output is."""
    from pyspark.sql.types import StructType

    names = unique_names(stream.columns)
    schema = StructType.fromJson(stream.schema.jsonValue())
    for each, name in zip(schema.fields, names, strict=True):
        each.name = name

    def keep(rows: DataFrame, number: int) -> None:
        rows.toDF(*names).write.mode("overwrite").parquet((output / str(number)).as_uri())

    writer = stream.writeStream.foreachBatch(keep).outputMode(code.mode).trigger(once=True)
    try:
        query = writer.option("checkpointLocation", folder.as_uri()).start()
        ended = query.awaitTermination(_TOO_LONG)
    except Exception as cause:
        raise _failed(code, batch.number, cause) from cause
    if not ended:
        query.stop()
        raise _failed(code, batch.number, TimeoutError(f"it takes more than {_TOO_LONG} seconds"))
    return dict(schema.jsonValue())


def unique_names(columns: Sequence[str]) -> list[str]:
    """Names of columns that a file can have: a name that comes again gets a number."""
    found: list[str] = []
    for name in columns:
        unique, number = name, 2
        while unique.casefold() in {each.casefold() for each in found}:
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def _failed(code: Code, batch: int | None, cause: Exception) -> CodeError:
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
