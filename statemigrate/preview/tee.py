"""A source read again by itself, for sources that only Spark can read, such as Kafka.

A function of the user's opens the source as the query does. A query that only reads it gets the
offsets of a batch as those of one that was begun and not committed, so that Spark reads precisely
the rows of that batch, as it does after a crash.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import NO_OFFSET, CommitEntry, Offsets
from statemigrate.errors import CheckpointError, CodeError, StatemigrateError
from statemigrate.files import Files
from statemigrate.preview.history import CommittedBatch, History, later_batches
from statemigrate.preview.inputs import RecordedInput, write_rows
from statemigrate.preview.stream_plan import UnoptimizedPlan, reader_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOO_LONG = 600  # seconds
_NOT_LOST = "failondataloss"


def record_by_tee(
    files: Files,
    history: History,
    source: str,
    opener: Callable[..., Any],
    reference: str,
    folder: Path,
    session: SparkSession,
) -> RecordedInput:
    """Write the rows that each batch has read of a ``source`` to ``folder``.

    ``opener`` makes the stream of a Spark session. The newest batch is read first, so that an error
    says from which batch on the source still has everything. Raises `CodeError` for a function that
    opens no source, or one that loses rows in silence, and `CheckpointError` for rows that are
    gone.
    """
    folder.mkdir(parents=True)
    reads = history.reads(source)
    schema = _opened(opener, reference, session).schema.jsonValue()
    for batch in reversed(history.batches):
        if batch.number not in reads:
            continue
        stream = _opened(opener, reference, session)
        since, until = reads[batch.number]
        place = folder / f".tee-{batch.number}"
        _begin(files, history.folders[source], place, batch, since, until)
        _read(stream, place, folder, batch.number, reference, history.batches[-1].number)
        shutil.rmtree(place)
    return RecordedInput(folder, tuple(sorted(reads)), schema)


def _opened(opener: Callable[..., Any], reference: str, session: SparkSession) -> DataFrame:
    try:
        stream: DataFrame = opener(session)
    except StatemigrateError:
        raise
    except Exception as cause:
        raise _no_source(reference, f"{type(cause).__name__}: {cause}") from cause
    if not getattr(stream, "isStreaming", False):
        raise _no_source(reference, f"it returns {type(stream).__name__}")
    reads = UnoptimizedPlan.of(stream).reads
    if len(reads) != 1:
        raise _no_source(reference, f"it reads {len(reads)} streams")
    if reader_options(stream).get(_NOT_LOST, "true").casefold() == "false":
        raise CodeError(
            "SM-PREVIEW-016",
            f"{reference} opens a source that leaves out in silence what it no longer has",
            expected="a source that fails where rows are gone",
            found="failOnDataLoss=false",
            next_action="leave the option out in the function that is for previews",
            reference=reference,
        )
    return stream


def _no_source(reference: str, found: str) -> CodeError:
    return CodeError(
        "SM-PREVIEW-015",
        f"{reference} opens no source",
        expected="a function from the Spark session to one stream, opened as the query does",
        found=found[:300],
        next_action="correct the function that --source names",
        reference=reference,
    )


def _begin(
    files: Files,
    log: str | None,
    place: Path,
    batch: CommittedBatch,
    since: str | None,
    until: str | None,
) -> None:
    """Write the checkpoint of a query that has begun the batch, and reads this source alone."""
    for name in ("offsets", "commits", "sources/0"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    for number, text in ((0, since), (1, until)):
        offsets = Offsets(False, (NO_OFFSET if text is None else text,))
        entry = replace(batch.entry, offsets=offsets, pinned=None, source_metadata=None)
        (place / "offsets" / str(number)).write_bytes(entry.data)
    (place / "commits" / "0").write_bytes(CommitEntry(0).data)
    if log is not None:
        for each in files.list(f"sources/{log}"):
            if each.kind == "file" and not each.base_name.startswith("."):
                files.fetch(each.name, place / "sources" / "0" / each.base_name, most=each.size)


def _read(
    stream: DataFrame, place: Path, folder: Path, batch: int, reference: str, newest: int
) -> None:
    def keep(rows: DataFrame, number: int) -> None:  # noqa: ARG001 - of Spark
        write_rows(rows, folder, batch)

    writer = stream.writeStream.foreachBatch(keep).trigger(once=True)
    try:
        query = writer.option("checkpointLocation", place.as_uri()).start()
        if not query.awaitTermination(_TOO_LONG):
            query.stop()
    except Exception as cause:
        text = str(cause).partition("\n=== Streaming Query ===")[0].rstrip()
        raise _unread(batch, newest, reference, f"{type(cause).__name__}: {text}") from cause
    if not (folder / f"{batch}.parquet").exists():
        raise _unread(batch, newest, reference, f"nothing within {_TOO_LONG} seconds")


def _unread(batch: int, newest: int, reference: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-PREVIEW-017",
        f"what batch {batch} has read cannot be read again by {reference}",
        expected="a source that still has the rows between the offsets of the batch",
        found=found,
        next_action=later_batches(batch, newest)
        or "correct the function; if the rows are gone, let the query commit more batches",
        batch=batch + 1,
    )
