"""The rows of a query's sources for some code: read again from the sources, or from a bundle.

`Tee` reads a source by itself, for sources that only Spark can read, such as Kafka. A function of
the user's opens the source as the query does. A query that only reads it gets the
offsets of a batch as those of one that was begun and not committed, so that Spark reads precisely
the rows of that batch, as it does after a crash.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.checkpoint.logs import NO_OFFSET, CommitEntry, Offsets
from statemigrate.errors import CheckpointError, CodeError, StatemigrateError
from statemigrate.files import Files
from statemigrate.preview.bundle import Bundle
from statemigrate.preview.history import CommittedBatch, History, later_batches, read_twice
from statemigrate.preview.inputs import (
    FilesRead,
    RecordedInput,
    merged_schema,
    record_files,
    struct_of,
    unreadable,
    write_rows,
)
from statemigrate.preview.replay import QueryFunction
from statemigrate.preview.stream_plan import UnoptimizedPlan, reader_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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


class Recorder(Protocol):
    """Gives the rows that some code reads."""

    def record(
        self, codes: Sequence[QueryFunction], folder: Path, session: SparkSession
    ) -> Mapping[str, RecordedInput]:
        """The rows of each source that any of the code reads; they may be written to ``folder``."""


@dataclass(frozen=True)
class Opener:
    """A function of the user's from the Spark session to a stream, and its ``reference``."""

    reference: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class SourceRecorder:
    """Reads the sources of a query again: files by their names, others as ``openers`` open them.

    ``read`` has by source the files of each batch, ``openers`` are by the parameter of the code.
    """

    files: Files
    history: History
    read: Mapping[str, FilesRead | None]
    openers: Mapping[str, Opener]

    def record(
        self, codes: Sequence[QueryFunction], folder: Path, session: SparkSession
    ) -> Mapping[str, RecordedInput]:
        """As `Recorder` says. Raises `UnsupportedError` for a source that nobody can read."""
        for code in codes:
            for source, others in code.repeated.items():
                self._check_same(source, others)
        found: dict[str, RecordedInput] = {}
        for source, schemas in _schemas(codes).items():
            place = folder / source
            names = {name for each in codes for name in each.inputs if each.inputs[name] == source}
            opener = next((self.openers[name] for name in sorted(names & {*self.openers})), None)
            read = self.read[source]
            if opener is not None:
                found[source] = record_by_tee(
                    self.files, self.history, source, opener.function, opener.reference, place,
                    session,
                )  # fmt: skip
            elif read is not None:
                schema = merged_schema(source, schemas, session)
                found[source] = record_files(read, schema, place, session)
            else:
                raise unreadable(self.files, self.history, source)
        _check_columns(codes, found, session)
        return found

    def _check_same(self, source: str, others: Sequence[str]) -> None:
        """Raise `UnsupportedError` where one stream has read differently in several places."""
        for other in others:
            reads = [self.history.reads(each) for each in (source, other)]
            if self.read[source] != self.read[other] or reads[0].keys() != reads[1].keys():
                raise read_twice(self.files, source)


@dataclass(frozen=True)
class BundledRecorder:
    """Takes the rows that a bundle has."""

    bundle: Bundle

    def record(
        self,
        codes: Sequence[QueryFunction],
        folder: Path,  # noqa: ARG002 - as `Recorder` has it
        session: SparkSession,
    ) -> Mapping[str, RecordedInput]:
        """As `Recorder` says. Raises `CodeError` for a column that was not recorded."""
        _check_columns(codes, self.bundle.inputs, session)
        return self.bundle.inputs


def _schemas(codes: Sequence[QueryFunction]) -> dict[str, dict[str, Any]]:
    """By source the schema with which each of the code reads it."""
    found: dict[str, dict[str, Any]] = {}
    for code in codes:
        for name, source in code.inputs.items():
            found.setdefault(source, {})[code.reference] = code.schemas[name]
    return found


def _check_columns(
    codes: Sequence[QueryFunction], recorded: Mapping[str, RecordedInput], session: SparkSession
) -> None:
    """Raise `CodeError` for a column that some code reads, and that was not recorded as such."""
    for source, schemas in _schemas(codes).items():
        there = _types(recorded[source]) if source in recorded else {}
        for reference, schema in schemas.items():
            for field in struct_of(schema, session).fields:
                found = there.get(field.name.casefold(), "no such column")
                if found != field.dataType.simpleString():
                    raise CodeError(
                        "SM-PREVIEW-022",
                        f"the recorded rows of source {source} have no such column {field.name}",
                        expected=f"{field.name} {field.dataType.simpleString()}, as {reference} "
                        "reads it",
                        found=found,
                        next_action="read what was recorded, or record it again with code that "
                        "reads the column",
                        reference=reference,
                    )


def _types(recorded: RecordedInput) -> dict[str, str]:
    from pyspark.sql.types import StructType

    schema: StructType = StructType.fromJson(dict(recorded.schema))
    return {each.name.casefold(): each.dataType.simpleString() for each in schema.fields}
