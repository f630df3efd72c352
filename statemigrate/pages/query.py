"""`paged`: what a user calls in place of ``groupBy(...).transformWithState(...)``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from statemigrate.deployment import (
    SETTINGS,
    DeploymentSettings,
    is_on_copy,
    is_only_looking,
    note_pages,
    query_checkpoint,
)
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.native import (
    COUNTED,
    WATERMARK,
    ChunkFiles,
    check_spark_version,
    is_name,
    whole,
    with_control,
)
from statemigrate.pages.deployed_pages import TimeMode
from statemigrate.pages.packed_rows import BUCKET, PACKED, pack, packed_output
from statemigrate.pages.pages_startup import checked, initial_state, with_bucket
from statemigrate.pages.visit import PagedProcessor
from statemigrate.processor import (
    PROCESSORS,
    grouping_key,
    is_by_table,
    output_type,
    require_workers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from statemigrate.pages.deployed_pages import PagedDeployment


_MOST_PAGES = 1_000_000
_OLDEST = (4, 1)
"""The first release of Spark with ``transformWithState`` over rows."""
_TIME_MODES: dict[str, TimeMode] = {mode: mode for mode in get_args(TimeMode)}


def run_on_pages(  # noqa: PLR0913 - groupBy and transformWithState have as many together
    stream: DataFrame,
    *,
    by: str | Sequence[str],
    processor: StatefulProcessor,
    output: StructType | str,
    checkpoint: str | Path,
    pages: int | None,
    outputMode: str,
    timeMode: str,
    initialState: GroupedData | None = None,
    eventTimeColumnName: str = "",
    operator: str | None = None,
) -> DataFrame:
    """The output of a ``StatefulProcessor`` on pages, as `statemigrate.paged` says."""
    check_spark_version(_OLDEST, "keep state in pages")
    checkpoint = query_checkpoint(str(checkpoint))
    asked = pages
    if pages is None and is_only_looking():
        # The number is the checkpoint's, which code that is tried out does not see.
        pages = 1
    columns = (by,) if isinstance(by, str) else tuple(by)
    _check_stream(stream, columns)
    key = grouping_key(stream.schema, columns, argument="by")
    _check_pages(pages)
    name = _checked_name(operator)
    if asked is not None:
        note_pages(name, asked)
    _check_processor(processor)
    mode = _time_mode(timeMode, stream)
    # Before pages are read, which workers do.
    require_workers(PROCESSORS, stream.sparkSession)
    made = output_type(output)
    check = partial(
        checked,
        processor,
        spark=stream.sparkSession,
        checkpoint=str(checkpoint),
        pages=pages,
        key=key,
        key_columns=tuple(stream.columns.index(column) for column in columns),
        output=made,
        time_mode=mode,
        operator=name,
    )
    deployment = whole(check, str(checkpoint))
    # For `migration_counts`; what travels to the workers has them anyway.
    vars(processor)[COUNTED] = deployment.counts
    if is_by_table(processor) and initialState is not None:
        raise _no_initial_state(processor)
    began = initial_state(initialState, deployment.key, deployment.pages)
    by_row = bool(eventTimeColumnName)
    visits = PagedProcessor(
        processor,
        deployment,
        stream.schema,
        initial_columns=began.key_columns,
        initial_names=began.names,
        gives_rows=by_row,
    )
    given = made if by_row else packed_output(made)
    rows = _arriving(stream, deployment)
    visited = _grouped(rows, checkpoint, name).transformWithState(
        visits, given, outputMode, timeMode, began.grouped, eventTimeColumnName
    )
    return visited if by_row else visited.selectExpr("inline(rows)")


def _arriving(stream: DataFrame, deployment: PagedDeployment) -> DataFrame:
    """The stream's rows, with the number of the page."""
    rows = with_bucket(stream, deployment.key_columns, deployment.pages)
    # In event time Spark itself sees the rows and drops the late ones.
    return rows if deployment.time_mode == "eventtime" else rows.mapInArrow(pack, PACKED)


def _grouped(rows: DataFrame, checkpoint: str | Path, operator: str) -> GroupedData:
    """The rows by page, among them those that ask for a page to be migrated."""
    if is_on_copy():
        return rows.groupBy(BUCKET)
    files = ChunkFiles(str(checkpoint), operator)
    given, control = with_control(rows, (BUCKET,), files, operator, creates=False)
    return given.union(control).groupBy(BUCKET)


def _check_stream(stream: DataFrame, columns: Sequence[str]) -> None:
    names = stream.columns
    if not stream.isStreaming:
        raise StartupError(
            "SM-PAGES-021",
            "paged state is for a stream",
            expected="a DataFrame of readStream",
            found="a DataFrame that is none",
            next_action="read the input with readStream",
        )
    if BUCKET in (name.lower() for name in names):
        raise StartupError(
            "SM-PAGES-022",
            f"the stream has a column {BUCKET}, which pages need for themselves",
            expected="another name",
            found=BUCKET,
            next_action=f"rename it: stream.withColumnRenamed({BUCKET!r}, ...)",
        )
    if not columns:
        raise StartupError(
            "SM-PAGES-023",
            "the stream is grouped by no column",
            expected=f"one or more of its columns: {', '.join(names)}",
            found="none",
            next_action="name them in by=",
        )


def _check_pages(pages: Any) -> None:
    if pages is None:
        return
    if type(pages) is not int or not 0 < pages <= _MOST_PAGES:
        raise StartupError(
            "SM-PAGES-024",
            "the number of pages cannot be used",
            expected=f"a whole number from 1 to {_MOST_PAGES:,}",
            found=repr(pages),
            next_action="take the number of keys divided by 250 for a start",
        )


def _checked_name(operator: Any) -> str:
    if operator is None:
        return ""
    if not isinstance(operator, str) or not is_name(operator):
        raise StartupError(
            "SM-PAGES-037",
            "the operator cannot be called so",
            expected="a name of small letters, digits and underscores, which begins with a letter",
            found=repr(operator),
            next_action="give each `paged` of the query a name such as operator='totals'; "
            "Spark's number of an operator is for commands",
        )
    return operator


def _time_mode(mode: str, stream: DataFrame) -> TimeMode:
    found = _TIME_MODES.get(mode.lower())
    if found is None:
        raise UnsupportedError(
            "SM-PAGES-025",
            f"paged state has no time mode {mode}",
            expected='"None", "ProcessingTime" or "EventTime"',
            found=mode,
            next_action="correct timeMode",
        )
    if found == "eventtime" and not any(WATERMARK in each.metadata for each in stream.schema):
        raise StartupError(
            "SM-PAGES-026",
            "a query in event time needs a watermark",
            expected="a column of the stream that has one",
            found="none",
            next_action='set one before paged: stream.withWatermark("at", "10 minutes")',
        )
    return found


def _no_initial_state(processor: object) -> UnsupportedError:
    return UnsupportedError(
        "SM-PROCESSOR-011",
        "a batch processor takes no initial state",
        expected="no initialState",
        found=f"initialState with {type(processor).__qualname__}, a BatchProcessor",
        next_action="start with a processor that has handleInputRows and handleInitialState, and "
        "go on with the batch processor after the first batch",
    )


def _check_processor(processor: Any) -> None:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    if not isinstance(processor, StatefulProcessor):
        raise StartupError(
            "SM-PAGES-027",
            f"{processor!r} is no StatefulProcessor",
            expected="an instance of a StatefulProcessor class",
            found=type(processor).__qualname__,
            next_action="make an instance of the class, or wrap a function's state by hand",
        )
    settings: DeploymentSettings = getattr(processor, SETTINGS, DeploymentSettings())
    if settings.checkpoint is not None:
        raise StartupError(
            "SM-PAGES-028",
            "the checkpoint of paged state is named twice",
            expected="checkpoint= of paged alone",
            found=f"checkpoint={settings.checkpoint!r} of migrated",
            next_action="leave checkpoint= out where the processor is marked",
        )
