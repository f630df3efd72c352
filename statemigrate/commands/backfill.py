"""`backfill`: migrates what no live row touches, or plans it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.budget import OnError
from statemigrate.commands.fleet import Progress, unseen
from statemigrate.commands.retire import offline_plans
from statemigrate.deployment import StorePlan
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.offline import StoppedBackfill, StoppedQuery, stopped
from statemigrate.errors import StartupError
from statemigrate.event_log.events import STEP, Stamp
from statemigrate.event_log.log import Note, planned_revisions, require_writable
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.chunks import ChunkFiles, Pace
from statemigrate.native.control_source import require_control_source
from statemigrate.native.paged_operators import chunk_files
from statemigrate.native.retrying import retried
from statemigrate.scripts import ScriptFolder
from statemigrate.state.open import is_embedded, open_state, require_own_state
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.migration import Lineage
    from statemigrate.native.backfill import BackfillPlan
    from statemigrate.native.backfill_progress import BackfillStatus
    from statemigrate.native.session import Spark


def backfill(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
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
) -> BackfillPlan | StoppedBackfill:
    """Migrate what no live row touches: now on the embedded engine, a chunk a batch on Spark's own.

    **Spark's own state**: every key that has values in an older family is written down, and the
    query of ``checkpoint``, running or started later, takes one chunk a batch: of about
    ``keys_per_chunk`` keys, 10,000 unless said, or with ``share`` as many as take that part (0 to
    1) of a batch's time next to live rows. ``keys_per_second`` is the most there may be, within the
    share, half of the time unless said; of state in pages entries are counted. With a share or a
    rate chunks are cut while the query runs. The query must have the control source
    (`with_backfill`). Whatever an earlier plan left is withdrawn first, so that planning again is
    how a paused backfill is resumed and how its pace is changed. Values that expire are left to do
    so, unless their scripts say that migrating may restart their time.

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
    if is_embedded(checkpoint):
        layout = Layout.of(checkpoint)
        with stopped(layout) as query:
            query.expect_much()
            plans = offline_plans(layout, migrations, targets or {}, accept_edited)
            require_writable(layout.files)
            done = query.backfill(plans, on_error=on_error, tick=progress)
            _record_backfill(query, layout, migrations, plans, done)
            return done
    # Not before it is known that the state is Spark's: little state is to be done in no time.
    return chunked_backfill(
        str(checkpoint),
        migrations,
        targets or {},
        accept_edited,
        keys_per_chunk=keys_per_chunk,
        share=share,
        keys_per_second=keys_per_second,
        operator=operator,
        spark=spark,
    )


def _record_backfill(
    query: StoppedQuery,
    layout: Layout,
    migrations: str | Path,
    plans: Mapping[str, StorePlan],
    done: StoppedBackfill,
) -> None:
    """Note in the log what was done, if anything was."""
    if done.migrated:
        counts = {"migrated": str(done.migrated), "quarantined": str(done.quarantined)}
        note = Note(Stamp.of(Path(migrations)), planned_revisions(plans))
        note.done(layout.files, "backfill", query.version, counts)


# The backfill of Spark's own state: chunks that its query takes, one a batch.


__all__ = ["backfill_status", "chunked_backfill", "pause_backfill"]

_KEYS_PER_CHUNK = 10_000


def chunked_backfill(  # noqa: PLR0913 - all but four by name
    path: str,
    migrations: str | Path,
    targets: Mapping[str, str],
    accept_edited: Sequence[str],
    *,
    keys_per_chunk: int | None,
    share: float | None,
    keys_per_second: float | None,
    operator: int | str | None,
    spark: Spark,
) -> BackfillPlan:
    """Write down what is to be migrated; see `statemigrate.backfill`, whose parameters these are.

    Raises what that does.
    """
    pace = _pace(keys_per_chunk, share, keys_per_second)
    # Said before Spark takes its time to start.
    files = chunk_files(path, operator)
    files.directory.require_query()
    require_own_state(path)
    require_control_source(files)
    scripts = ScriptFolder(migrations).survey()
    from statemigrate.native.session import session_of

    session = session_of(spark, path)
    retried(
        lambda: _check_start(path, scripts.every(), targets, accept_edited, operator, session), path
    )
    most = _KEYS_PER_CHUNK if keys_per_chunk is None else keys_per_chunk
    # What is in pages is compared with the scripts where it is looked for.
    from statemigrate.pages.older_families import older

    find = partial(older, accept_edited=accept_edited)
    named: dict[str, Any] = {"operator": operator, "spark": session, "older": find}
    begin = partial(require_writable, files.files)
    from statemigrate.native.backfill import plan_backfill

    plan = plan_backfill(path, scripts, targets, most, pace=pace, begin=begin, **named)
    if plan.keys or plan.withdrawn:
        _report_chunks(files, Stamp.of(Path(migrations)), "planned", _planned(plan, pace))
    return plan


def pause_backfill(checkpoint: str | Path, *, operator: int | str | None = None) -> int:
    """Withdraw the chunks that the query has not taken yet, and return their number.

    The query may be running, and finishes its current chunk. `backfill` resumes, and does not plan
    migrated values again. ``operator`` is that of `backfill`. The checkpoint's log records the
    pause. Raises `CheckpointError` if ``checkpoint`` is not a checkpoint, or if its log cannot be
    written.
    """
    files = chunk_files(str(checkpoint), operator)
    files.directory.require_query()
    require_writable(files.files)
    withdrawn = files.withdraw()
    if withdrawn:
        _report_chunks(files, Stamp.of(Path.cwd()), "paused", {"withdrawn": str(withdrawn)})
    return withdrawn


def backfill_status(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    spark: Spark = None,
) -> BackfillStatus:
    """The progress of a backfill of Spark's own state; this reads all remaining keys.

    The parameters and errors are those of `statemigrate.backfill`.
    """
    path = str(checkpoint)
    ChunkFiles(path).directory.require_query()
    scripts = ScriptFolder(migrations).survey()
    from statemigrate.native.session import session_of

    session = session_of(spark, path)
    from statemigrate.native.backfill_progress import backfill_status as status_of
    from statemigrate.pages.older_families import older

    return status_of(path, scripts, targets or {}, operator=operator, spark=session, older=older)


def _report_chunks(files: ChunkFiles, stamp: Stamp, step: str, details: Mapping[str, str]) -> None:
    batch = files.directory.last_commit()
    Note(stamp, operator=files.operator or "").done(
        files.files, "backfill", batch, {STEP: step, **details}
    )


def _planned(plan: BackfillPlan, pace: Pace | None) -> dict[str, str]:
    """The details of a plan: how much, of which families, and how fast it may go."""
    figures = {"keys": str(plan.keys), "families": ", ".join(plan.families)}
    if plan.withdrawn:
        figures["withdrawn"] = str(plan.withdrawn)
    if pace is None:
        return {**figures, "chunks": str(plan.chunks)}
    rate = {} if pace.keys_per_second is None else {"keys_per_second": f"{pace.keys_per_second:g}"}
    return {**figures, "share": f"{pace.share:g}", **rate}


def _pace(
    keys_per_chunk: int | None, share: float | None, keys_per_second: float | None
) -> Pace | None:
    pace = Pace.of(share, keys_per_second)
    if pace is not None and keys_per_chunk is not None:
        raise StartupError(
            "SM-BACKFILL-002",
            "a backfill has chunks of one size, or of what a share or a rate allows",
            expected="keys_per_chunk, or share and keys_per_second",
            found="both",
            next_action="leave keys_per_chunk out where a share or a rate decides",
        )
    return pace


def _check_start(
    path: str,
    lineages: Mapping[str, Lineage],
    targets: Mapping[str, str],
    accept_edited: Sequence[str],
    operator: int | str | None,
    spark: SparkSession,
) -> None:
    """Raise `StartupError` where the query would refuse to start with these scripts."""
    reader = SparkCheckpoint(path, spark, operator=operator)
    if reader.last_batch() is None or reader.is_paged:
        return
    opened = open_state(path, lineages, targets=targets, operator=operator, spark=spark)
    with closing(opened) as state:
        for store in (state.stores.keys() & lineages.keys()) - state.operator_stores:
            planned(state, store, lineages, targets, accept_edited)
