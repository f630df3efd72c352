"""`status`, `dry_run` and `backfill`: one function each, for one thing or several."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from statemigrate.commands.arguments import require_alone, required
from statemigrate.commands.fleet import Progress, look_at_all, named_checkpoints, unseen
from statemigrate.commands.status import status as status_of_one
from statemigrate.state import Project

if TYPE_CHECKING:
    from statemigrate.budget import OnError
    from statemigrate.commands.backfill import Retirement
    from statemigrate.commands.current import Current, CurrentOf
    from statemigrate.commands.dry_run import Trials
    from statemigrate.commands.fleet import Fleet, Named
    from statemigrate.commands.quarantine import FailedValue
    from statemigrate.commands.status import Status
    from statemigrate.embedded import StoppedBackfill
    from statemigrate.inspect import DryRunReport, Pace
    from statemigrate.native import BackfillPlan, Preparation, Spark


__all__ = ["backfill", "dry_run", "status"]


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
    checkpoint: str | Path,
    *,
    revisions: Literal[True],
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Current: ...


@overload
def status(
    checkpoint: str | Path,
    *,
    failed: str,
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
    accept_edited: Sequence[str] = ...,
    operator: int | str | None = ...,
    spark: Spark = ...,
) -> Iterator[FailedValue]: ...


@overload
def status(
    *,
    checkpoints: Named,
    revisions: Literal[True],
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> tuple[CurrentOf, ...]: ...


@overload
def status(
    *,
    checkpoints: Named,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Fleet: ...


def status(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    revisions: bool = False,
    failed: str | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Status | Current | Iterator[FailedValue] | Fleet | tuple[CurrentOf, ...]:
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

    With ``revisions`` nothing is counted: the result has the revision of each store, read from the
    state, with its entries in the log. With ``failed``, the name of a store, it has the values of
    that store that a backfill could not migrate, each tried again with the current scripts. On the
    embedded engine these are the values that a backfill has marked. Spark's own state has no marks:
    there they are all values in older families that do not migrate. ``accept_edited`` names scripts
    that were edited after they were applied.

    Raises `CheckpointError` if the checkpoint cannot be read, and `ScriptError` if ``migrations``
    is not a folder of scripts. A store with broken scripts is counted, too, and marked.
    """
    if failed is not None:
        require_alone("status", "failed", checkpoints=checkpoints, revisions=revisions or None)
        from statemigrate.commands.quarantine import quarantine

        return quarantine(
            failed,
            required("status", checkpoint),
            migrations=required("status", migrations, "a folder of scripts"),
            targets=targets,
            accept_edited=accept_edited,
            operator=operator,
            spark=spark,
        )
    project = Project(migrations, targets or {}, stores or {}, spark, operator)
    if checkpoints is not None:
        require_alone("status", checkpoint=checkpoint, operator=operator)
        named = named_checkpoints(checkpoints)
        if not revisions:
            return look_at_all(named, project)
        from statemigrate.commands.current import current_of_each

        return current_of_each(named, project)
    if revisions:
        from statemigrate.commands.current import current

        return current(required("status", checkpoint), project)
    return status_of_one(required("status", checkpoint), project)


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
        require_alone(
            "dry_run", store=store, checkpoint=checkpoint, from_file=from_file, operator=operator
        )
        from statemigrate.commands.dry_run import try_each

        return try_each(named_checkpoints(checkpoints), project, sample, pace)
    tried = required("dry_run", store, "a store")
    if from_file is not None:
        require_alone("dry_run", "from_file", checkpoint=checkpoint)
        from statemigrate.inspect import dry_run_file

        return dry_run_file(
            tried,
            from_file,
            migrations=migrations,
            revision=from_revision,
            targets=targets,
            sample=sample,
        )
    where = required("dry_run", checkpoint)
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
    prepare: Literal[True],
    undo: bool = ...,
    declared: Collection[str] = ...,
    apply: bool = ...,
    stopped: bool = ...,
    wait: float | None = ...,
    spark: Spark = ...,
) -> Preparation: ...


@overload
def backfill(
    checkpoint: str | Path,
    *,
    retire: Literal[True],
    complement: bool = ...,
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
    accept_edited: Sequence[str] = ...,
    operator: int | str | None = ...,
    spark: Spark = ...,
) -> Retirement: ...


def backfill(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
    pause: bool = False,
    prepare: bool = False,
    undo: bool = False,
    declared: Collection[str] = (),
    apply: bool = False,
    stopped: bool = False,
    wait: float | None = None,
    retire: bool = False,
    complement: bool = False,
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
) -> BackfillPlan | StoppedBackfill | Preparation | Retirement | int:
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
    `status` has the progress.

    With ``prepare``, the backfill source is added behind the sources of a stopped query that ran
    without it. If the checkpoint was moved or copied here, its paths are changed to its own files,
    which Spark needs for a start. Without ``apply`` nothing is changed. ``stopped`` confirms that a
    query whose newest batch is not committed is not running. ``wait`` is the number of seconds for
    which the checkpoint is watched for changes first, 5 by default. The next call finishes an
    interrupted one. With ``undo`` too the backfill source is removed again, so that code without it
    starts. This reads the families that such code would forget, and raises an error if one has
    values, unless it is in ``declared``, the families that the next code declares. `rollback`
    migrates the values back first, step by step.

    With ``retire`` the empty older families of a stopped query are dropped, after this has read the
    committed state again. On Spark's own state only the query can drop families, and the result
    lists those that it will drop. A family that still has a value is kept and counted. With
    ``complement`` too, what scripts have left out of values is given up, and a later rollback does
    not bring it back. On Spark's own state code with ``migrated(complement=False)`` does that.

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
    modes = {"pause": pause or None, "prepare": prepare or None, "retire": retire or None}
    for mode in [name for name, given in modes.items() if given]:
        require_alone("backfill", mode, **{name: modes[name] for name in modes if name != mode})
    if pause:
        from statemigrate.commands.backfill import pause_backfill

        return pause_backfill(checkpoint, operator=operator)
    if prepare:
        from statemigrate.commands.adopt import adopt
        from statemigrate.native import WATCHED

        return adopt(
            checkpoint,
            undo=undo,
            declared=declared,
            apply=apply,
            stopped=stopped,
            wait=WATCHED if wait is None else wait,
            spark=spark,
        )
    project = Project(migrations, targets or {}, {}, spark, operator, tuple(accept_edited))
    if retire:
        from statemigrate.commands.backfill import retire_families

        return retire_families(checkpoint, project, complement=complement)
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
