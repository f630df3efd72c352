"""Runs the new code on empty streams, so that Spark itself writes down what it keeps.

An input is a folder with one empty file, of which Spark makes one batch without rows. In it every
stateful operator writes its metadata and the schemas of its stores. Nothing else is taken from the
checkpoint that this makes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs.offsets import folders_in
from statemigrate.checkpoint.logs.sources import files_taken
from statemigrate.errors import CodeError
from statemigrate.files import Files
from statemigrate.rewrite.probe.inputs import Schema, input_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MODES = ("append", "update", "complete")
_TOO_LONG = 300.0  # seconds
_PARTITIONS = "spark.sql.shuffle.partitions"


def run_probe(
    function: Callable[..., Any],
    folder: Path,
    spark: SparkSession,
    *,
    inputs: Mapping[str, Schema] | None = None,
    mode: str | None = None,
    conf: Mapping[str, str] | None = None,
    reference: str = "",
    look: Callable[[StreamingQuery], None] | None = None,
) -> Path:
    """Run the ``function`` in an empty ``folder``; return the checkpoint that it made.

    The query is given to ``look`` once it has run its batch, before it is stopped.

    ``inputs`` has schemas by the names of the function's parameters, see `input_schemas`; ``mode``
    is the output mode, the first that Spark takes unless given; ``conf`` has settings as they are
    pinned to the query. Raises `CodeError` for what is no such function, and where it fails.
    """
    name = reference or getattr(function, "__qualname__", repr(function))
    schemas = input_schemas(function, inputs or {}, name)
    session = _session(spark, conf or {})
    streams = {each: _empty(session, schemas[each], folder / "in" / each) for each in schemas}
    result = _result(function, streams, name)
    checkpoint = folder / "checkpoint"
    query = _started(result, checkpoint, (mode,) if mode else _MODES, name)
    try:
        _first_batch(query, checkpoint, name)
        if look is not None:
            look(query)
    finally:
        query.stop()
    return checkpoint


def probed_inputs(files: Files) -> dict[str, str]:
    """The parameter that each source of a checkpoint which `run_probe` has made stands for."""
    return {
        source: path.split("/")[-2]
        for source in folders_in(files, "sources")
        for path in files_taken(files, source)
    }


def _session(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """One of its own settings, so that the query runs with those that are pinned to the old one."""
    session = spark.newSession()
    for setting, value in conf.items():
        session.conf.set(setting, value)
    session.conf.set(_PARTITIONS, "1")
    return session


def _empty(session: SparkSession, schema: Schema, folder: Path) -> DataFrame:
    folder.mkdir(parents=True)
    (folder / "empty.json").touch()
    return session.readStream.schema(schema).json(folder.as_uri())


def _result(
    function: Callable[..., Any], streams: Mapping[str, DataFrame], reference: str
) -> DataFrame:
    try:
        result = function(**streams)
    except Exception as cause:
        raise _failed("SM-CODE-013", reference, "does not run on empty streams", cause) from cause
    if not getattr(result, "isStreaming", False):
        raise CodeError(
            "SM-CODE-012",
            f"{reference} returns no stream",
            expected="the streaming DataFrame that the query writes",
            found=type(result).__name__,
            next_action="return the DataFrame from the function, before writeStream",
            reference=reference,
        )
    found: DataFrame = result
    return found


def _started(
    result: DataFrame, checkpoint: Path, modes: tuple[str, ...], reference: str
) -> StreamingQuery:
    from pyspark.errors import AnalysisException

    refused: AnalysisException | None = None
    for mode in modes:
        writer = result.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        try:
            return writer.option("checkpointLocation", checkpoint.as_uri()).start()
        except AnalysisException as error:
            # A query that one output mode is not for may be for another.
            refused = refused or error
    raise _failed(
        "SM-CODE-014", reference, f"is no query for output mode {' or '.join(modes)}", refused
    )


def _first_batch(query: StreamingQuery, checkpoint: Path, reference: str) -> None:
    """Wait for it: with timers in processing time there is no last one."""
    until = time.monotonic() + _TOO_LONG
    while not (checkpoint / "commits" / "0").exists():
        if not query.isActive:
            break
        if time.monotonic() > until:
            raise _failed(
                "SM-CODE-015", reference, f"takes more than {_TOO_LONG:g} seconds for no rows", None
            )
        time.sleep(0.05)
    error = query.exception()
    if error is not None or not (checkpoint / "commits" / "0").exists():
        raise _failed("SM-CODE-013", reference, "does not run on empty streams", error)


def _failed(code: str, reference: str, problem: str, cause: Exception | None) -> CodeError:
    return CodeError(
        code,
        f"{reference} {problem}",
        expected="a query that runs one batch without rows",
        found=None if cause is None else f"{type(cause).__name__}: {cause}",
        next_action="correct the function, or let the new code run on a little input elsewhere and "
        "give its checkpoint with --like",
        reference=reference,
    )
