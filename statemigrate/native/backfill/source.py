"""The control source: a second source of the query, that names keys whose state is to be migrated.

It stays in the query for good, and costs one listing of a small directory a batch while there is
nothing to backfill: files of committed batches are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.formats.struct.words import quoted
from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.native.backfill.feeding.listener import feed
from statemigrate.native.backfill.gate import gated
from statemigrate.native.backfill.presence import require_control_source
from statemigrate.native.live.control import MARKER
from statemigrate.native.live.deployed import DEPLOYED, Deployed
from statemigrate.native.spark_state.operators import Which
from statemigrate.native.spark_state.paths import check_source_path
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.startup.forgetting import check_forgetting
from statemigrate.processor.named_sources import reader_named
from statemigrate.shell import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

NAME = "statemigrate_control"
"""The control source's name in a query whose sources have names."""

WATERMARK = "spark.watermarkDelayMs"
"""What the metadata of a column says that has a watermark."""
_FILLED = {"boolean": False, "byte": 0, "short": 0, "integer": 0, "long": 0}
_OPTIONS = {
    # One chunk a batch; planning again and pausing are seen at once, since no listing is kept.
    "maxFilesPerTrigger": "1",
    "maxCachedFiles": "0",
    # A chunk may be withdrawn at any time.
    "ignoreMissingFiles": "true",
    "recursiveFileLookup": "true",
    # No chunk is ever too old, whatever was planned after it: a hundred years.
    "maxFileAge": "36500d",
}


def with_backfill(
    stream: DataFrame,
    by: str | Sequence[str],
    *,
    checkpoint: str | Path,
    operator: int | None = None,
) -> DataFrame:
    """The stream together with the control source of the query's backfill.

    ``by`` names the columns that the query groups by, ``checkpoint`` is the ``checkpointLocation``
    of the query, a path or URI. Group the result by the same columns and give it a processor marked
    with `statemigrate.migrated`; the processor sees the stream's rows alone. What is planned with
    `backfill` is then migrated one chunk a batch, beside live rows or while there are none. A
    processor that is not marked gets the stream as it was before, and is refused with
    `StartupError` while the state is in families that it does not declare.

    Call it last, right before ``groupBy`` and after everything that makes the stream, stateful
    operators included: what comes before sees the stream alone, and anywhere else a control row
    ends the query. ``operator`` is Spark's number of the one that the control rows
    are for, where the query has several that run migrated code. A watermark may be set before or
    after: rows of the control source have no event time and leave it where it is. Use the result
    from the query's first start; where the query has run without it, `statemigrate adopt` makes
    room for the control source, unless the query's sources have names. Where they have
    (``readStream.name``, with ``spark.sql.streaming.queryEvolution.enableSourceEvolution``), this
    one has a name too.

    Raises `StartupError` where stream, ``by`` and the checkpoint's state do not fit,
    `CheckpointError` for a directory that is in use for something else, and `UnsupportedError` for
    a grouping by event time. The control source's directory is made if it is missing, and nothing
    else is written.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    files = ChunkFiles(str(checkpoint))
    marked, control = with_control(stream, keys, files, operator)
    check = partial(check_forgetting, files.checkpoint, operator)
    return gated(marked, control, check, partial(ask_to_retire, files))


def with_control(
    stream: DataFrame,
    keys: tuple[str, ...],
    files: ChunkFiles,
    operator: Which = None,
    *,
    creates: bool = True,
) -> tuple[DataFrame, DataFrame]:
    """The stream, marked, and the control source that is to stand behind it, with its columns.

    Raises what `with_backfill` says, and makes the control source's directory. With ``creates`` as
    False the caller does, once a query runs there: until then nothing is written.
    """
    _check_stream(stream, keys)
    check_source_path(files.checkpoint)
    _check_checkpoint(stream, keys, files, operator, creates=creates)
    if creates:
        files.create()
    feed(stream.sparkSession, files)
    return _both(stream, keys, files)


def ask_to_retire(files: ChunkFiles, code: Any) -> None:
    """What is empty is dropped in a batch, and without input there would be none."""
    deployed = vars(code).get(DEPLOYED)
    if isinstance(deployed, Deployed) and deployed.retires and deployed.seen is not None:
        files.ask_for_batch(deployed.seen.batch)


def _both(
    stream: DataFrame, keys: tuple[str, ...], files: ChunkFiles
) -> tuple[DataFrame, DataFrame]:
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(name, stream.schema[name].dataType) for name in keys]
    schema = StructType([*fields, StructField(MARKER, StringType())])
    control = _source(stream.sparkSession, schema, files)
    columns = [
        functions.col(quoted(field.name))
        if field.name in keys
        else functions.lit(_blank(field)).cast(field.dataType).alias(field.name)
        for field in stream.schema
    ]
    # The stream comes first: sources without names are counted in this order.
    marked = stream.select("*", functions.lit(None).cast(StringType()).alias(MARKER))
    return marked, control.select(*columns, MARKER)


def _blank(field: StructField) -> Any:
    # A column with a null in it is one of floats in pandas, for the stream's own rows as well.
    return _FILLED.get(field.dataType.typeName())


def _source(spark: SparkSession, schema: StructType, files: ChunkFiles) -> DataFrame:
    location = files.location if files.is_made() else files.pattern
    name = f"{NAME}_{files.operator}" if files.operator else NAME
    return reader_named(spark, name).schema(schema).options(**_OPTIONS).parquet(location)


def _check_stream(stream: DataFrame, keys: tuple[str, ...]) -> None:
    columns = stream.columns
    if not stream.isStreaming:
        raise StartupError(
            "SM-BACKFILL-010",
            "with_backfill was given a DataFrame that is not a stream",
            expected="what spark.readStream made",
            found="a DataFrame of a batch",
            next_action="pass the stream that the query reads",
        )
    if MARKER in columns:
        raise StartupError(
            "SM-BACKFILL-011",
            f"the stream already has a column {MARKER}",
            expected="a stream without it, since it tells control rows from the stream's own",
            found=", ".join(columns),
            next_action="call with_backfill once, or rename the column",
        )
    wrong = [name for name in keys if columns.count(name) != 1 or keys.count(name) != 1]
    if wrong or not keys:
        raise StartupError(
            "SM-BACKFILL-012",
            "by does not name the columns that the stream is grouped by",
            expected=f"one or more of {', '.join(columns)}, each once",
            found=repr(keys),
            next_action="pass the names that groupBy gets; make a column of an expression first",
        )
    _check_event_time(stream, keys)


def _check_event_time(stream: DataFrame, keys: tuple[str, ...]) -> None:
    timed = [name for name in keys if WATERMARK in stream.schema[name].metadata]
    if timed:
        raise UnsupportedError(
            "SM-BACKFILL-013",
            f"the stream is grouped by its event time, {', '.join(timed)}",
            expected="keys without the column that has the watermark",
            found="control rows would be as late as their keys, and be dropped by the watermark",
            next_action="migrate by touch, without with_backfill",
        )


def _check_checkpoint(
    stream: DataFrame,
    keys: tuple[str, ...],
    files: ChunkFiles,
    operator: Which,
    *,
    creates: bool,
) -> None:
    if files.directory.is_unused():
        files.directory.refuse_embedded()
        return
    files.directory.require_query()
    checkpoint = SparkCheckpoint(files.checkpoint, stream.sparkSession, operator=operator)
    # A first batch may have been refused, which had the source, and not yet its directory.
    if creates or checkpoint.last_batch() is not None:
        require_control_source(files)
    if checkpoint.last_batch() is not None:
        _check_keys(stream, keys, checkpoint)


def _check_keys(stream: DataFrame, keys: tuple[str, ...], checkpoint: SparkCheckpoint) -> None:
    stored = {each.name: each.dataType for each in checkpoint.grouping_key()}
    named = {name: stream.schema[name].dataType for name in keys}
    # Nullability inside of a type does not change what a key is.
    if stored and _shown(stored) != _shown(named):
        raise StartupError(
            "SM-START-013",
            f"the state in {checkpoint.path} has other keys than the stream is grouped by",
            expected=", ".join(_shown(stored)),
            found=", ".join(_shown(named)),
            next_action="check that checkpoint is the checkpointLocation of this very query, and "
            "that by has the columns that it groups by; other keys are a rewrite, with the query "
            f"stopped: `statemigrate rewrite {argument(checkpoint.path)} NEW --code "
            "MODULE:FUNCTION` and a script that has `rekey`",
        )


def _shown(types: dict[str, Any]) -> list[str]:
    return sorted(f"{name} {data_type.simpleString()}" for name, data_type in types.items())
