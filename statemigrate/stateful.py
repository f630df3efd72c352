"""`stateful`: an operator of your own on Spark's state, whose values migrate, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.commands.adopt import adopt
from statemigrate.deployment import Settings
from statemigrate.deployment.code import is_only_looking, note_call
from statemigrate.errors import StartupError
from statemigrate.files.open import open_files
from statemigrate.meaning.guard import guard_operator
from statemigrate.native.adoption_checks import has_named_sources, has_room, native_log
from statemigrate.native.control_source import is_migrated, with_backfill
from statemigrate.native.decorator import mark
from statemigrate.native.deployed import DEPLOYED, Undeployable
from statemigrate.pages.query import paged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
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
    settings = Settings(
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
        on_pages = paged(
            stream,
            by=by,
            processor=processor,
            output=output,
            checkpoint=checkpoint,
            pages=pages,
            outputMode=output_mode,
            timeMode=time_mode,
            operator=name,
        )
        _compare(on_pages, output_mode, checkpoint, f"pages-{name}" if name else "pages", accept)
        return on_pages
    number = _number(operator)
    if not is_migrated(processor):
        own = replace(settings, checkpoint=str(checkpoint), operator=number)
        processor = mark(processor, own)
    deployed = vars(processor).get(DEPLOYED)
    if isinstance(deployed, Undeployable):
        # A worker would say so, and Spark of it that a worker failed.
        raise deployed.error
    note_call("stateful")
    if not is_only_looking():
        _make_room(checkpoint)
    keys = (by,) if isinstance(by, str) else tuple(by)
    fed = with_backfill(stream, keys, checkpoint=checkpoint, operator=number)
    result = fed.groupBy(*keys).transformWithState(processor, output, output_mode, time_mode)
    called = "operator" if number is None else f"operator-{number}"
    _compare(result, output_mode, checkpoint, called, accept)
    return result


def _compare(
    stream: DataFrame,
    mode: str,
    checkpoint: str | Path,
    name: str,
    accept: Mapping[str, str] | None,
) -> None:
    """Compare the operator with the record of its last start, unless code is only tried."""
    if not is_only_looking():
        guard_operator(stream, mode.lower(), checkpoint, name, accept or {})


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
