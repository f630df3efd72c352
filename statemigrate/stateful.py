"""`stateful`, `with_backfill` and `paged`: your own operators, whose values migrate.

Each compares its operator, and all that comes before it, with the checkpoint's record of the last
start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.commands.adopt import adopt
from statemigrate.deployment import DeploymentSettings, is_tried, note_call
from statemigrate.errors import StartupError
from statemigrate.files import open_files
from statemigrate.meaning import guard_operator
from statemigrate.native import (
    DEPLOYED,
    Undeployable,
    has_named_sources,
    has_room,
    is_migrated,
    mark,
    native_log,
    with_backfill_source,
)
from statemigrate.pages import run_on_pages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType


def stateful(  # noqa: PLR0913 - groupBy and transformWithState have as many together
    stream: DataFrame,
    *,
    by: str | Sequence[str],
    processor: StatefulProcessor,
    output: StructType | str,
    checkpoint: str | Path,
    output_mode: str = "Update",
    time_mode: str = "None",
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    on_error: Literal["raise", "quarantine"] = "raise",
    pages: int | None = None,
    operator: int | str | None = None,
    accept: Mapping[str, str] | None = None,
    complement: bool | None = None,
) -> DataFrame:
    """The output of a ``StatefulProcessor`` whose state migrates while the stream runs.

    It replaces ``stream.groupBy(by).transformWithState(processor, output, output_mode,
    time_mode)``, with the same processor and the same rows. It stands for `with_backfill` and
    `migrated` together, so that the checkpoint and the keys are named once. Write the result with
    any ``writeStream`` whose ``checkpointLocation`` is ``checkpoint``.

    ``migrations`` is the folder of scripts, and ``targets`` names, by store, the revision that the
    code is written for, the head by default. ``accept_edited`` names scripts that were edited after
    they were applied, and ``on_error`` decides what a backfill does with a value that does not
    migrate. ``complement`` is that of `migrated`. A processor that has `migrated` already stays as
    it is, and so do its settings. ``pages`` keeps the state of many keys in one page, as `paged`
    does; the number is for good, but for a rewrite. ``operator`` is Spark's number of the operator
    if several of the query run migrated code; with ``pages`` it is the operator's own name.

    A query that ran without `stateful` has no room for the source of backfills. Then this makes it,
    as `backfill(..., prepare=True)` does, once, before the query starts: the checkpoint is watched
    for five seconds, and nothing is changed if the query may be running. Code that is only tried,
    as by `plan`, changes nothing.

    What the operator's keys are computed from, and what becomes of rows before it, is compared with
    the checkpoint's record of the last start, as `guarded` does for a whole query; the first start
    writes the record. ``accept`` has reasons for changes that are meant, by the names in the error.

    Raises what `with_backfill`, `migrated`, `paged` and `backfill` raise; `StartupError` for a name
    of an operator without ``pages``, or a number with them.
    """
    settings = DeploymentSettings(
        migrations,
        dict(targets or {}),
        accept_edited=tuple(accept_edited),
        on_error=on_error,
        call="stateful",
        complement=complement,
    )
    if pages is not None:
        name = _name(operator)
        if not is_migrated(processor):
            processor = mark(processor, settings)
        return _compared_on_pages(
            stream,
            "stateful",
            accept,
            by=by,
            processor=processor,
            output=output,
            checkpoint=checkpoint,
            pages=pages,
            outputMode=output_mode,
            timeMode=time_mode,
            operator=name,
        )
    number = _number(operator)
    if not is_migrated(processor):
        own = replace(settings, checkpoint=str(checkpoint), operator=number)
        processor = mark(processor, own)
    deployed = vars(processor).get(DEPLOYED)
    if isinstance(deployed, Undeployable):
        # A worker would say so, and Spark of it that a worker failed.
        raise deployed.error
    note_call("stateful")
    if not is_tried():
        _make_room(checkpoint)
    keys = (by,) if isinstance(by, str) else tuple(by)
    compare = partial(_compare, _called(number), checkpoint, accept, "stateful")
    fed = with_backfill_source(stream, keys, checkpoint, number, compare)
    return fed.groupBy(*keys).transformWithState(processor, output, output_mode, time_mode)


def with_backfill(
    stream: DataFrame,
    by: str | Sequence[str],
    *,
    checkpoint: str | Path,
    operator: int | None = None,
    accept: Mapping[str, str] | None = None,
) -> DataFrame:
    """The stream together with the backfill source of the query's backfill.

    ``by`` names the columns that the query groups by, and ``checkpoint`` is its
    ``checkpointLocation``, a path or URI. Group the result by the same columns and give it a
    processor with `statemigrate.migrated`; the processor gets only the stream's rows. The query
    then migrates the keys that `backfill` has planned, one chunk in each batch, with live rows or
    while there are none. A processor without `migrated` gets the stream unchanged, and raises
    `StartupError` while the state is in families that it does not declare.

    Call it last, right before ``groupBy`` and after everything that makes the stream, including
    stateful operators: earlier steps get the stream alone, and anywhere else a control row ends the
    query. ``operator`` is Spark's number of the operator for the control rows, if several of the
    query run migrated code. You may set a watermark before or after it: rows of the backfill source
    have no event time and do not move it. Use the result from the query's first start. If the query
    has run without it, `statemigrate backfill --prepare` adds the backfill source, unless the
    query's sources have names. In that case (``readStream.name``, with
    ``spark.sql.streaming.queryEvolution.enableSourceEvolution``), the backfill source has a name,
    too.

    The operator that follows, and all that comes before it, is compared with the checkpoint's
    record of the last start, as `stateful` does; the first start writes the record. ``accept`` has
    reasons for changes that are meant, by the names in the error.

    Raises `StartupError` if stream, ``by`` and the checkpoint's state do not fit, `CheckpointError`
    for a directory with other content, and `UnsupportedError` for a grouping by event time. It
    creates the backfill source's directory if it is missing. The operator that follows raises
    `StartupError` for a change that nobody accepted.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    compare = partial(_compare, _called(operator), checkpoint, accept, "with_backfill")
    return with_backfill_source(stream, keys, checkpoint, operator, compare)


def paged(  # noqa: PLR0913 - groupBy and transformWithState have as many together
    stream: DataFrame,
    *,
    by: str | Sequence[str],
    processor: StatefulProcessor,
    output: StructType | str,
    checkpoint: str | Path,
    pages: int | None = None,
    outputMode: str = "Update",
    timeMode: str = "None",
    initialState: GroupedData | None = None,
    eventTimeColumnName: str = "",
    operator: str | None = None,
    accept: Mapping[str, str] | None = None,
) -> DataFrame:
    """The output of a ``StatefulProcessor``, with the state of many keys in one page.

    It replaces ``stream.groupBy(by).transformWithState(processor, output, outputMode, timeMode)``,
    with the same processor and the same rows, and is several times as fast. Write the result with
    any ``writeStream`` whose ``checkpointLocation`` is ``checkpoint``. With ``timeMode`` as
    ``"ProcessingTime"`` the processor has timers, and its variables may have a time to live. With
    ``"EventTime"`` timers follow the stream's watermark, and Spark drops late rows. If a timer
    deletes a later one of the same key in the same batch, the later one does not fire; in Spark it
    does. ``initialState`` and ``eventTimeColumnName`` are those of ``transformWithState``.

    ``by`` names the grouping columns, and ``output`` is the type of the processor's rows, as DDL or
    StructType. ``pages`` is the number of pages, which `statemigrate rewrite` changes; omit it if
    the checkpoint already has pages. Choose it so that a batch touches ten keys of a page or more:
    200 pages for 50,000 keys. It need not be exact, because pages that grow split by themselves.
    The logger ``statemigrate.pages`` warns at a start if there are too few or too many.

    A query may have several, each with its own name, ``operator``: small letters, digits and
    underscores. The name cannot change, and commands use it. One of them, or the only one, may have
    none; a second one with the same name is an error when the query starts. The query may also have
    other stateful operators, including a ``transformWithState``.

    Migrations come from `migrated` on the processor, as on every engine; pass ``checkpoint=`` here
    and not there. A page that is touched migrates as a whole, unless ``write_on_read=False``. A
    value that does not migrate stays, and is an error when its own key is touched. `backfill`
    touches the other pages, a chunk of pages in each batch, through a second source that the query
    has from its first start. All keys of a page in a batch are in a worker's memory at once; a
    `BatchProcessor` gets them in one call.

    Code, scripts and committed pages are compared before anything is changed, and so is the
    operator, with all that comes before it, with the checkpoint's record of the last start, as
    `stateful` does. ``accept`` has reasons for changes that are meant, by the names in the error.

    Raises `StartupError`, `PageError` or `CheckpointError`, and `UnsupportedError` for a grouping
    column whose equal values may have different bytes.
    """
    return _compared_on_pages(
        stream,
        "paged",
        accept,
        by=by,
        processor=processor,
        output=output,
        checkpoint=checkpoint,
        pages=pages,
        outputMode=outputMode,
        timeMode=timeMode,
        initialState=initialState,
        eventTimeColumnName=eventTimeColumnName,
        operator=operator,
    )


def _compared_on_pages(
    stream: DataFrame, call: str, accept: Mapping[str, str] | None, **arguments: Any
) -> DataFrame:
    """The output of `run_on_pages`, whose operator is compared with that of the last start."""
    result = run_on_pages(stream, **arguments)
    name, mode = arguments["operator"], arguments["outputMode"]
    _compare(_pages(name), arguments["checkpoint"], accept, call, result, mode)
    return result


def _compare(
    name: str,
    checkpoint: str | Path,
    accept: Mapping[str, str] | None,
    call: str,
    result: DataFrame,
    mode: str,
) -> None:
    """Compare the operator with the record of its last start, unless code is only tried."""
    if not is_tried():
        guard_operator(result, mode.lower(), checkpoint, name, accept or {}, call)


def _called(number: int | None) -> str:
    return "operator" if number is None else f"operator-{number}"


def _pages(name: str | None) -> str:
    return f"pages-{name}" if name else "pages"


def _number(operator: int | str | None) -> int | None:
    if isinstance(operator, str):
        raise _other_operator("Spark's number of the operator", operator)
    return operator


def _name(operator: int | str | None) -> str | None:
    if isinstance(operator, int):
        raise _other_operator("a name, since the operator is on pages", operator)
    return operator


def _other_operator(expected: str, found: int | str) -> StartupError:
    return StartupError(
        "SM-START-032",
        f"the operator is called {found!r}",
        expected=expected,
        found=repr(found),
        next_action="give `operator` a number without `pages`, and a name with `pages`",
    )


def _make_room(checkpoint: str | Path) -> None:
    """Add the source of backfills to the checkpoint of a query that ran without it."""
    directory = CheckpointDirectory(open_files(checkpoint))
    if directory.query_id() is None or directory.last_commit() < 0:
        return
    log = native_log(checkpoint)
    if not (has_named_sources(log) or has_room(log)):
        adopt(checkpoint, apply=True)
