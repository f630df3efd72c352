"""The verbs that are about one thing or several: one function each, as on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from statemigrate.commands.fleet import Progress, look_at_all, named_checkpoints, unseen
from statemigrate.commands.status import status as status_of_one
from statemigrate.errors import StatemigrateError
from statemigrate.state.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.budget import OnError
    from statemigrate.commands.current import Current, CurrentOf, Log, LogOf
    from statemigrate.commands.dry_run import Trials
    from statemigrate.commands.fleet import Fleet, Named
    from statemigrate.commands.new_script import NewScript
    from statemigrate.commands.status import Status
    from statemigrate.embedded.offline import StoppedBackfill
    from statemigrate.formats import Format
    from statemigrate.inspect.estimate import Pace
    from statemigrate.inspect.report import DryRunReport
    from statemigrate.native.backfill import BackfillPlan
    from statemigrate.native.backfill_progress import BackfillStatus
    from statemigrate.native.session import Spark


__all__ = ["backfill", "current", "dry_run", "log", "new", "status"]


@overload
def status(
    checkpoint: str | Path,
    *,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Status: ...


@overload
def status(
    *,
    checkpoints: Named,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Fleet: ...


def status(
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Status | Fleet:
    """Count the values that are left to migrate in each store, as of the last committed batch.

    The query may be running. ``migrations`` is the folder of its scripts, None if it has none; the
    default folder may be missing. ``targets`` decides which store an envelope belongs to, if
    scripts of several stores fit. Spark's own state is read with ``spark``, the active session by
    default, or a function that makes one. ``operator`` is the number or name of the operator, if
    there are several. ``stores`` has the project's names for the stores of operators. State
    variables and envelopes are counted, and the state of other operators if it has scripts. A store
    is behind if the head of its scripts, or the revision in ``targets``, is newer than the deployed
    one.

    With ``checkpoints``, paths by name, the result is a `Fleet` with all of them, and with the
    error of each one that fails. A checkpoint with its own targets or operator is a
    `NamedCheckpoint`.

    Raises `CheckpointError` if the checkpoint cannot be read, and `ScriptError` if ``migrations``
    is not a folder of scripts. A store with broken scripts is counted, too, and marked.
    """
    project = Project(migrations, targets or {}, stores or {}, spark, operator)
    if checkpoints is not None:
        _require_alone("status", checkpoint=checkpoint, operator=operator)
        return look_at_all(named_checkpoints(checkpoints), project)
    return status_of_one(_required("status", checkpoint), project)


@overload
def current(
    checkpoint: str | Path,
    *,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Current: ...


@overload
def current(
    *,
    checkpoints: Named,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> tuple[CurrentOf, ...]: ...


def current(
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Current | tuple[CurrentOf, ...]:
    """The revision of each store, read from the state, with its entries in the log.

    This counts no values: `status` does. With ``checkpoints``, paths by name, it returns the result
    for all of them. The parameters and errors are those of `status`.
    """
    project = Project(migrations, targets or {}, stores or {}, spark, operator)
    from statemigrate.commands.current import current as current_of_one
    from statemigrate.commands.current import current_of_each

    if checkpoints is not None:
        _require_alone("current", checkpoint=checkpoint, operator=operator)
        return current_of_each(named_checkpoints(checkpoints), project)
    return current_of_one(_required("current", checkpoint), project)


@overload
def log(
    checkpoint: str | Path, *, limit: int | None = ..., spark: SparkSession | None = ...
) -> Log: ...


@overload
def log(
    *, checkpoints: Named, limit: int | None = ..., spark: SparkSession | None = ...
) -> tuple[LogOf, ...]: ...


def log(
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    limit: int | None = None,
    spark: SparkSession | None = None,
) -> Log | tuple[LogOf, ...]:
    """The log of ``checkpoint``, newest first, with at most ``limit`` events.

    The query may be running. A start is ``done`` when a batch of it is committed. If a document is
    damaged, its events are missing, and the error names it. ``spark`` reaches a remote checkpoint.
    With ``checkpoints``, paths by name, the result has the logs of all of them, with ``limit``
    events each. Raises `CheckpointError` if ``checkpoint`` is not the checkpoint of a query.
    """
    if checkpoints is not None:
        _require_alone("log", checkpoint=checkpoint)
        from statemigrate.commands.current import log_of_all

        return log_of_all(named_checkpoints(checkpoints), limit=limit, spark=spark)
    from statemigrate.commands.current import log as log_of_one

    return log_of_one(_required("log", checkpoint), limit=limit, spark=spark)


@overload
def dry_run(
    store: str,
    checkpoint: str | Path | None = ...,
    *,
    from_file: str | Path | None = ...,
    from_revision: str | None = ...,
    sample: int | None = ...,
    pace: Pace | None = ...,
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
    accept_edited: Sequence[str] = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
    progress: Progress = ...,
) -> DryRunReport: ...


@overload
def dry_run(
    *,
    checkpoints: Named,
    sample: int | None = ...,
    pace: Pace | None = ...,
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
    accept_edited: Sequence[str] = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Trials: ...


def dry_run(  # noqa: PLR0913 - all but two by name
    store: str | None = None,
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    from_file: str | Path | None = None,
    from_revision: str | None = None,
    sample: int | None = None,
    pace: Pace | None = None,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> DryRunReport | Trials:
    """Run the values of ``store`` through its scripts, as its query would, and report on it.

    The query may be running: this reads its last committed batch and writes nothing. ``sample``
    tries about so many values, spread evenly over families and partitions, instead of all.
    ``targets`` names, by store, the revision to migrate to, the head by default. ``accept_edited``
    names scripts that were edited after they were applied. ``pace`` is the part of a batch that the
    backfill may take. ``operator`` is the number or name of the operator, if there are several.
    ``stores`` has the project's names for the stores of operators. Spark's own state is read with
    ``spark``, the active session by default, or a function that makes one. Processes of this
    machine read the state of the embedded engine, without Spark. ``progress`` gets the number of
    values read and the total, from time to time.

    With ``from_file`` the values are those of an Avro container file or of JSON lines: records with
    ``key`` and ``value`` as `export` writes them, or values alone. ``from_revision`` is their
    revision, the one before the target by default. With ``checkpoints``, paths by name, this tries
    every store with scripts in all of them, and returns `Trials`, which have an error for each
    checkpoint that cannot be tried.

    Raises `CheckpointError` if the checkpoint cannot be read, `ScriptError` or `LineageError` for
    unusable scripts, `StartupError` if the query would refuse to start, and `FormatError` or
    `ValueMismatchError` for a file whose values are not of that revision.
    """
    project = Project(
        migrations, targets or {}, stores or {}, spark, operator, tuple(accept_edited)
    )
    if checkpoints is not None:
        _require_alone(
            "dry_run", store=store, checkpoint=checkpoint, from_file=from_file, operator=operator
        )
        from statemigrate.commands.dry_run import try_each

        return try_each(named_checkpoints(checkpoints), project, sample, pace)
    tried = _required("dry_run", store, "a store")
    if from_file is not None:
        _require_alone("dry_run", "from_file", checkpoint=checkpoint)
        from statemigrate.inspect.dry_run_file import dry_run_file

        return dry_run_file(
            tried,
            from_file,
            migrations=migrations,
            revision=from_revision,
            targets=targets,
            sample=sample,
        )
    where = _required("dry_run", checkpoint)
    from statemigrate.commands.dry_run import dry_run as dry_run_of_one

    return dry_run_of_one(tried, where, project, sample=sample, pace=pace, progress=progress)


@overload
def backfill(
    checkpoint: str | Path,
    *,
    keys_per_chunk: int | None = ...,
    share: float | None = ...,
    keys_per_second: float | None = ...,
    on_error: OnError = ...,
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
    accept_edited: Sequence[str] = ...,
    operator: int | str | None = ...,
    spark: Spark = ...,
    progress: Progress = ...,
) -> BackfillPlan | StoppedBackfill: ...


@overload
def backfill(
    checkpoint: str | Path, *, pause: Literal[True], operator: int | str | None = ...
) -> int: ...


@overload
def backfill(
    checkpoint: str | Path,
    *,
    status: Literal[True],
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
    operator: int | str | None = ...,
    spark: Spark = ...,
) -> BackfillStatus: ...


def backfill(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
    pause: bool = False,
    status: bool = False,
    keys_per_chunk: int | None = None,
    share: float | None = None,
    keys_per_second: float | None = None,
    on_error: OnError = "raise",
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> BackfillPlan | StoppedBackfill | BackfillStatus | int:
    """Migrate the values that no live row touches: now, or in chunks on Spark's own state.

    **Spark's own state**: this writes every key that has values in an older family to files, and
    the query of ``checkpoint``, running or started later, takes one chunk in each batch. A chunk
    has about ``keys_per_chunk`` keys, 10,000 by default. With ``share`` it has as many as take that
    share (0 to 1) of a batch's time, in addition to live rows. ``keys_per_second`` is the maximum
    within the share, or within half of the time by default. For state in pages, entries are
    counted. With a share or a rate, the query cuts chunks while it runs. The query needs an
    operator that `stateful` declares, or `with_backfill` around its stream. A new plan withdraws
    the rest of an earlier one first, so plan again to resume a paused backfill or to change its
    pace. Values that expire are not migrated, unless their scripts allow a restart of their time to
    live. ``pause`` withdraws the chunks that the query has not taken yet, and returns their number.
    ``status`` reads all remaining keys, and returns the progress of the backfill.

    **The embedded engine**: a running query backfills by itself. This migrates all stores of a
    stopped query, so that its next start finds one family for each store. After an interruption
    another call continues. With ``on_error`` as "quarantine" a value that does not migrate stays
    unchanged and is counted; by default it raises a `TransformError`. ``progress`` gets the number
    of migrated values and the total.

    ``migrations``, ``targets`` and ``accept_edited`` are those of the deployed query. ``operator``
    is the number or name of the operator, if there are several. ``spark`` is the session that reads
    Spark's own state, the active one by default, or a function that makes one.

    Raises `CheckpointError` if ``checkpoint`` is not the checkpoint of such a query,
    `CheckpointInUseError` while a query of the embedded engine runs, `ScriptError` or
    `LineageError` for unusable scripts, and `StartupError` if the query would refuse to start.
    Nothing is changed then.
    """
    if pause:
        _require_alone("backfill", "pause", status=status or None)
        from statemigrate.commands.backfill import pause_backfill

        return pause_backfill(checkpoint, operator=operator)
    project = Project(migrations, targets or {}, {}, spark, operator, tuple(accept_edited))
    if status:
        from statemigrate.commands.backfill import backfill_status_of

        return backfill_status_of(checkpoint, project)
    from statemigrate.commands.backfill import backfill as backfill_all

    return backfill_all(
        checkpoint,
        project,
        keys_per_chunk=keys_per_chunk,
        share=share,
        keys_per_second=keys_per_second,
        on_error=on_error,
        progress=progress,
    )


@overload
def new(
    store: str,
    message: str,
    *,
    old: Format | None = ...,
    new: Format | None = ...,
    baseline: bool = ...,
    migrations: str | Path = ...,
) -> NewScript: ...


@overload
def new(
    store: str | None = ...,
    message: str | None = ...,
    *,
    autogenerate: str,
    migrations: str | Path = ...,
) -> tuple[NewScript, ...]: ...


@overload
def new(
    store: str | None = ...,
    message: str | None = ...,
    *,
    from_checkpoint: str | Path,
    like: str | Path | None = ...,
    migrations: str | Path = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> tuple[NewScript, ...]: ...


def new(  # noqa: PLR0913 - all but two by name
    store: str | None = None,
    message: str | None = None,
    *,
    old: Format | None = None,
    new: Format | None = None,
    baseline: bool = False,
    autogenerate: str | None = None,
    from_checkpoint: str | Path | None = None,
    like: str | Path | None = None,
    migrations: str | Path = "migrations",
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> NewScript | tuple[NewScript, ...]:
    """Write a script after the store's newest one, or its first.

    ``old`` is the newest script's ``new``; ``new`` and ``upgrade`` are left for you to fill in
    unless given. With ``baseline``, for a store without scripts, the script only records ``new``,
    the current format of the state. The same happens if only ``new`` is given and there is no
    script to take ``old`` from; the result says so.

    With ``autogenerate``, a processor as ``MODULE:OBJECT``, this writes a script for each store
    whose declared schema differs from its newest script's format, or for ``store`` alone; see
    `statemigrate.autogenerate`. With ``from_checkpoint`` it records the current format of each
    store without a script, or of ``store``, as `statemigrate.baseline` does. With ``like`` too, a
    checkpoint that the new code made, the scripts migrate the state to that of ``like``, as
    `statemigrate.autogenerate_like` does. These three return a tuple of the written scripts.

    Raises `LineageError` if ``old`` is not the newest format or a baseline would not come first,
    and `ScriptError` if ``migrations`` is not a folder of scripts.
    """
    formats = {"old": old, "new": new, "baseline": baseline or None}
    if like is not None and from_checkpoint is None:
        raise StatemigrateError(
            "SM-CLI-002",
            "new is given like, and no state that is to become so",
            expected="from_checkpoint, the state that there is",
            found="like alone",
            next_action="add from_checkpoint",
        )
    if from_checkpoint is not None:
        _require_alone("new", "from_checkpoint", autogenerate=autogenerate, **formats)
        shared: dict[str, Any] = {"store": store, "migrations": migrations, "stores": stores}
        if like is not None:
            wanted = _required("new", message, "a message")
            from statemigrate.commands.new_script import autogenerate_like

            return autogenerate_like(from_checkpoint, like, wanted, **shared)
        from statemigrate.commands.new_script import MESSAGE
        from statemigrate.commands.new_script import baseline as record_formats

        return record_formats(
            from_checkpoint, message or MESSAGE, operator=operator, spark=spark, **shared
        )
    said = _required("new", message, "a message")
    if autogenerate is not None:
        _require_alone("new", "autogenerate", **formats)
        from statemigrate.commands.new_script import autogenerate as autogenerated

        return autogenerated(autogenerate, said, store=store, migrations=migrations)
    named = _required("new", store, "a store")
    from statemigrate.commands.new_script import new as new_script

    return new_script(named, said, old=old, new=new, baseline=baseline, migrations=migrations)


def _required(verb: str, given: Any, what: str = "a checkpoint") -> Any:
    if given is None:
        raise StatemigrateError(
            "SM-CLI-003",
            f"{verb} is not given {what}",
            expected=what,
            found="none",
            next_action=f"give {what}",
        )
    return given


def _require_alone(verb: str, name: str = "checkpoints", **others: Any) -> None:
    """Raise `StatemigrateError` for what ``name`` has no use for."""
    given = [each for each, value in others.items() if value is not None]
    if given:
        raise StatemigrateError(
            "SM-CLI-004",
            f"{verb} is given {name}, which stands in place of {', '.join(given)}",
            expected=f"{name} alone",
            found=f"{name} and {', '.join(given)}",
            next_action=f"leave {name} out, or the others",
        )
