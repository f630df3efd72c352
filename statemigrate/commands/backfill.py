"""`backfill`: migrates what no live row touches, or plans it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.budget import OnError
from statemigrate.commands.following.progress import Progress, unseen
from statemigrate.commands.planning import offline_plans
from statemigrate.deployment import StorePlan
from statemigrate.embedded.engine.driver.facts import standings
from statemigrate.embedded.engine.stopped.offline import StoppedBackfill, StoppedQuery, stopped
from statemigrate.embedded.storage.layout import Layout
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.folder import require_writable
from statemigrate.logbook.noting import Note
from statemigrate.state.opening import is_embedded

if TYPE_CHECKING:
    from statemigrate.native.backfill.plan import BackfillPlan
    from statemigrate.native.spark_state.session import Spark


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
            _tell(query, layout, migrations, plans, done)
            return done
    # Not before it is known that the state is Spark's: little state is to be done in no time.
    from statemigrate.commands.chunked_backfill import chunked_backfill

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


def _tell(
    query: StoppedQuery,
    layout: Layout,
    migrations: str | Path,
    plans: Mapping[str, StorePlan],
    done: StoppedBackfill,
) -> None:
    """Note in the log what was done, if anything was."""
    if done.migrated:
        counts = {"migrated": str(done.migrated), "quarantined": str(done.quarantined)}
        note = Note(Stamp.of(Path(migrations)), standings(plans))
        note.done(layout.files, "backfill", query.version, counts)
