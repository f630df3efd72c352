"""`backfill`: migrates what no live row touches, or plans it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.budget import OnError
from statemigrate.commands.following.progress import Progress, unseen
from statemigrate.commands.planning import offline_plans
from statemigrate.embedded.engine.offline import StoppedBackfill, stopped
from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import StartupError
from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.native.backfill.pace import Pace
from statemigrate.native.backfill.plan import BackfillPlan, pause_backfill, plan_backfill
from statemigrate.native.backfill.presence import require_control_source
from statemigrate.native.backfill.progress import BackfillStatus
from statemigrate.native.backfill.progress import backfill_status as status_of
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.spark_state.session import session_of
from statemigrate.pages.record import is_paged
from statemigrate.pages.startup.leftovers import older
from statemigrate.scripts import ScriptFolder
from statemigrate.state.opening import is_embedded, open_state, require_own_state
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.migration import Lineage
    from statemigrate.native.spark_state.session import Spark

__all__ = ["backfill", "backfill_status", "pause_backfill"]

_KEYS_PER_CHUNK = 10_000


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
    operator: int | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> BackfillPlan | StoppedBackfill:
    """Migrate what no live row touches: now on the embedded engine, a chunk a batch on Spark's own.

    **Spark's own state**: every key that has values in an older family is written down, and the
    query of ``checkpoint``, running or started later, takes one chunk a batch: of about
    ``keys_per_chunk`` keys, 10,000 unless said, or with ``share`` as many as take that part (0 to
    1) of a batch's time beside live rows. ``keys_per_second`` is the most there may be, within the
    share, half of the time unless said; of state in pages entries are counted. With a share or a
    rate chunks are cut while the query runs. The query must have the control source
    (`with_backfill`). Whatever an earlier plan left is withdrawn first, so that planning again is
    how a paused backfill is resumed and how its pace is changed. Values that expire are left to do
    so, unless their scripts say that migrating may restart their time.

    **The embedded engine**: a running query backfills by itself. All stores of a stopped one are
    migrated to the end here, so that its next start finds one family a store. It may be interrupted
    at any time: what is done is done, and another run goes on from there. With ``on_error`` as
    "quarantine" a value that does not migrate is left where it is, and counted; by default it is a
    `TransformError`. ``progress`` is told how many values were migrated, and of how many.

    ``migrations``, ``targets`` and ``accept_edited`` are those that the query is deployed with.
    ``operator`` is Spark's number of the stateful operator that is meant, where several could be;
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
            plans = offline_plans(layout, migrations, targets or {}, accept_edited)
            return query.backfill(plans, on_error=on_error, tick=progress)
    pace = _pace(keys_per_chunk, share, keys_per_second)
    path = str(checkpoint)
    # Said before Spark takes its time to start.
    files = ChunkFiles(path)
    files.directory.require_query()
    require_own_state(path)
    require_control_source(files)
    scripts = ScriptFolder(migrations).survey()
    session = session_of(spark, path)
    _check_start(path, scripts.every(), targets or {}, accept_edited, operator, session)
    most = _KEYS_PER_CHUNK if keys_per_chunk is None else keys_per_chunk
    named: dict[str, Any] = {"operator": operator, "spark": session, "older": older}
    return plan_backfill(path, scripts, targets or {}, most, pace=pace, **named)


def backfill_status(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | None = None,
    spark: Spark = None,
) -> BackfillStatus:
    """How far a backfill of Spark's own state is; reads all keys that are left.

    The parameters and errors are those of `backfill`.
    """
    path = str(checkpoint)
    ChunkFiles(path).directory.require_query()
    scripts = ScriptFolder(migrations).survey()
    session = session_of(spark, path)
    return status_of(path, scripts, targets or {}, operator=operator, spark=session, older=older)


def _pace(
    keys_per_chunk: int | None, share: float | None, keys_per_second: float | None
) -> Pace | None:
    pace = Pace.of(share, keys_per_second)
    if pace is not None and keys_per_chunk is not None:
        raise StartupError(
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
    operator: int | None,
    spark: SparkSession,
) -> None:
    """Raise `StartupError` where the query would refuse to start with these scripts."""
    # What is in pages is compared with the scripts where it is looked for.
    reader = SparkCheckpoint(path, spark)
    if reader.last_batch() is None or is_paged(reader.files):
        return
    opened = open_state(path, lineages, targets=targets, operator=operator, spark=spark)
    with closing(opened) as state:
        for store in (state.stores.keys() & lineages.keys()) - state.operator_stores:
            planned(state, store, lineages, targets, accept_edited)
