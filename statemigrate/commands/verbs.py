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
    """Count what is left in each store of a checkpoint, as of its last committed batch.

    The query may be running. ``migrations`` is the folder of its scripts, None if it has none, and
    the default one may be missing; ``targets`` tells whose state envelopes are, where scripts of
    several stores fit. Spark's own state is read with ``spark``, the active session unless given,
    or a function that makes one. ``operator`` is the number or name of the operator that is
    meant, where several could be; ``stores`` has the names that operators' stores get. Besides
    state variables and envelopes, other operators' state is counted where it has scripts. A store
    is behind where the head of its scripts, or the revision that ``targets`` asks for, is newer
    than what is deployed.

    With ``checkpoints``, paths by name, it is all of these, and what is wrong with one is in its
    place: a `Fleet`. One that has targets or an operator of its own is a `NamedCheckpoint`.

    Raises `CheckpointError` for what cannot be read, and `ScriptError` for what is no folder of
    scripts; a store with broken scripts is counted too, and says so.
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
    """The revision of each store, read from the state, and what the log says of it.

    No value is counted: `status` does that. With ``checkpoints``, paths by name, it is all of
    these. The parameters and errors are those of `status`.
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
    """What was done to ``checkpoint``, newest first, of ``limit`` events at most.

    The query may be running. A start is ``done`` when a batch of it is committed. What a document
    that is damaged said is missing, and the error names it. ``spark`` reaches a remote checkpoint.
    With ``checkpoints``, paths by name, it is all of these, of ``limit`` events each. Raises
    `CheckpointError` for what is not the checkpoint of a query.
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
    """Take the values of ``store`` through its scripts, as its query would, and report on it.

    The query may be running: its last committed batch is read, and nothing is written. ``sample``
    tries about so many values, spread evenly over families and partitions, instead of all of them.
    ``targets`` names, by store, the revision to migrate to, the head unless said otherwise.
    ``accept_edited`` names applied scripts that were corrected since. ``pace`` is what the backfill
    may take a batch. ``operator`` is the number or name of the operator that is meant, where
    several could be; ``stores`` has the names that operators' stores get. Spark's own state is read
    on ``spark``, the active session unless given, or a function that makes one; that of the
    embedded engine by processes of this machine, without Spark. ``progress`` gets
    from time to time how many values were read, and of how many.

    With ``from_file`` the values are those of an Avro container file or of JSON lines: records with
    ``key`` and ``value`` as `export` writes them, or bare values, of ``from_revision``, the one
    before the target unless given. With ``checkpoints``, paths by name, every store of all of them
    that has scripts is tried; one that cannot be has an error in its place: `Trials`.

    Raises `CheckpointError` for what cannot be read, `ScriptError` or `LineageError` for scripts
    that cannot be used, `StartupError` where the query would refuse to start, and `FormatError` or
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
    """Migrate what no live row touches: now on the embedded engine, a chunk a batch on Spark's own.

    **Spark's own state**: every key that has values in an older family is written down, and the
    query of ``checkpoint``, running or started later, takes one chunk a batch: of about
    ``keys_per_chunk`` keys, 10,000 unless said, or with ``share`` as many as take that part (0 to
    1) of a batch's time next to live rows. ``keys_per_second`` is the most there may be, within the
    share, half of the time unless said; of state in pages entries are counted. With a share or a
    rate chunks are cut while the query runs. The query must have the control source
    (`with_backfill`). Whatever an earlier plan left is withdrawn first, so that planning again is
    how a paused backfill is resumed and how its pace is changed. Values that expire are left to do
    so, unless their scripts say that migrating may restart their time. ``pause`` withdraws the
    chunks that the query has not taken yet, and is how many there were; ``status`` reads all keys
    that are left, and is how far the backfill is.

    **The embedded engine**: a running query backfills by itself. All stores of a stopped one are
    migrated to the end here, so that its next start finds one family a store. It may be interrupted
    at any time: what is done is done, and another run goes on from there. With ``on_error`` as
    "quarantine" a value that does not migrate is left where it is, and counted; by default it is a
    `TransformError`. ``progress`` gets how many values were migrated, and of how many.

    ``migrations``, ``targets`` and ``accept_edited`` are those that the query is deployed with.
    ``operator`` is the number or name of the operator that is meant, if several could be;
    ``spark`` is the session to read Spark's own state with, the active one unless given, or a
    function that makes one.

    Raises `CheckpointError` for what is not the checkpoint of such a query, `CheckpointInUseError`
    while a query of the embedded engine runs, `ScriptError` or `LineageError` for scripts that
    cannot be used, and `StartupError` where the query would refuse to start; nothing was changed
    then.
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
    """Write a script on the store's newest one, or its first.

    ``old`` is filled in from the newest script's ``new``, and otherwise left open, as ``new`` and
    ``upgrade`` are. With ``baseline``, for a store without scripts, it only records ``new``, the
    format that the state has today; so it does where only ``new`` is given and no script is there
    to take ``old`` from, and the result says so.

    With ``autogenerate``, a processor as ``MODULE:OBJECT``, a script is written for each store
    whose declared schema is not its newest script's format, or for ``store`` alone; see
    `statemigrate.autogenerate`. With ``from_checkpoint`` what the state has today is recorded, of
    each store without a script or of ``store``, as `statemigrate.baseline` does; with ``like``
    too, a checkpoint that the new code made, the scripts take state to what that has, as
    `statemigrate.autogenerate_like` does. These three are a tuple of what was written.

    Raises `LineageError` if ``old`` is not the newest format or a baseline would not come first,
    and `ScriptError` for what is no folder of scripts.
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
