"""`backfill`: migrates what no live row touches, or plans it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.budget import OnError
from statemigrate.commands.fleet import Progress, unseen
from statemigrate.deployment import StorePlan
from statemigrate.embedded import Layout, StoppedBackfill, StoppedQuery, stopped
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.event_log import STEP, Note, Stamp, planned_revisions, require_writable
from statemigrate.native import (
    BackfillLimits,
    ChunkFiles,
    SparkCheckpoint,
    chunk_files,
    looks_again,
    require_control_source,
    retried,
)
from statemigrate.state import (
    EmbeddedState,
    Project,
    engine_of,
    is_embedded,
    open_committed,
    planned,
    require_own_state,
    require_scripted,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.migration import Lineage
    from statemigrate.native import BackfillPlan, BackfillStatus, Spark


# `retire`: drops the empty older families of a stopped query.


# What a stopped query of the embedded engine would do with each of its stores.


def offline_plans(layout: Layout, project: Project) -> dict[str, StorePlan]:
    """By store, how code written for the targets would access it.

    Raises `LineageError` for a target of a store without scripts.
    """
    lineages = project.folder.lineages()
    require_scripted(project.targets, lineages)
    with closing(EmbeddedState(layout.files.location)) as state:
        return {store: planned(state, store, lineages, project) for store in state.stores}


@dataclass(frozen=True)
class Retirement:
    """The dropped families, and by name the values in those that are not empty.

    ``later`` are empty families of Spark's own state, which the query's next start drops; only a
    Spark query can. ``complements`` are the dropped families of what scripts had left out of
    values.
    """

    dropped: tuple[str, ...]
    later: tuple[str, ...]
    kept: Mapping[str, int]
    complements: tuple[str, ...] = ()


def retire(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    complement: bool = False,
    spark: Spark = None,
) -> Retirement:
    """Drop the empty older families of a stopped query, after reading its committed state again.

    A query does the same at its next start. On Spark's own state only the query can drop families,
    and this lists those that it will drop. A family that still has a value is kept and counted.
    With ``complement`` it also gives up what scripts have left out of values, which a later
    rollback then does not bring back; `UnsupportedError` for Spark's own state, where code with
    ``migrated(complement=False)`` does that. Other parameters and errors are those of `backfill`.
    """
    project = Project(migrations, targets or {}, {}, spark, operator, tuple(accept_edited))
    return retire_families(checkpoint, project, complement=complement)


def retire_families(
    checkpoint: str | Path, project: Project, *, complement: bool = False
) -> Retirement:
    """Drop the drained families of a stopped query, as `retire` says."""
    if engine_of(checkpoint) != "embedded":
        if complement:
            raise _only_by_code(checkpoint)
        return _later(checkpoint, project)
    layout = Layout.of(checkpoint)
    with stopped(layout) as query:
        plans = offline_plans(layout, project)
        if complement:
            plans = {
                store: replace(plan, complement=None, dropped=plan.complement)
                for store, plan in plans.items()
            }
        given_up = sorted(plan.dropped.name for plan in plans.values() if plan.dropped)
        require_writable(layout.files)
        dropped = query.retire(plans)
        if dropped or given_up:
            left = {store: plan.without(frozenset(dropped)) for store, plan in plans.items()}
            note = Note(Stamp.of(project.directory), planned_revisions(left))
            note.done(
                layout.files, "retire", query.version, {"dropped": ", ".join([*dropped, *given_up])}
            )
        kept = _values(layout, plans, but=dropped)
    return Retirement(dropped, (), kept, tuple(given_up))


def _only_by_code(checkpoint: str | Path) -> UnsupportedError:
    return UnsupportedError(
        "SM-BACKFILL-016",
        "only a query can drop complements of Spark's own state",
        expected="a checkpoint of the embedded engine",
        found=str(checkpoint),
        next_action="deploy the code with migrated(..., complement=False): its first batch drops "
        "them; on pages each page does when it is touched",
    )


@looks_again
def _later(checkpoint: str | Path, project: Project) -> Retirement:
    lineages = project.folder.lineages()
    with closing(open_committed(checkpoint, lineages, project)) as state:
        # The state of Spark's own operators has one family each, which no query leaves behind.
        stores = [store for store in state.stores if store not in state.operator_stores]
        plans = [planned(state, store, lineages, project) for store in stores]
        values = {
            family.name: sum(state.counts(plan.declared.store).get(family.name, {}).values())
            for plan in plans
            for family in plan.sources
        }
    empty = tuple(sorted(name for name, count in values.items() if not count))
    return Retirement((), empty, {name: count for name, count in values.items() if count})


def _values(
    layout: Layout, plans: Mapping[str, StorePlan], *, but: tuple[str, ...]
) -> dict[str, int]:
    """By family other than the targets', the exact number of values."""
    with closing(EmbeddedState(layout.files.location)) as state:
        counts = {store: state.counts(store, but=plan.target.name) for store, plan in plans.items()}
        return {
            family.name: sum(counts[store].get(family.name, {}).values())
            for store, plan in plans.items()
            for family in plan.sources
            if family.name not in but
        }


def backfill(
    checkpoint: str | Path,
    project: Project,
    *,
    keys_per_chunk: int | None = None,
    share: float | None = None,
    keys_per_second: float | None = None,
    on_error: OnError = "raise",
    progress: Progress = unseen,
) -> BackfillPlan | StoppedBackfill:
    """Migrate what no live row touches, as `statemigrate.backfill` says."""
    if is_embedded(checkpoint):
        layout = Layout.of(checkpoint)
        with stopped(layout) as query:
            query.expect_much()
            plans = offline_plans(layout, project)
            require_writable(layout.files)
            done = query.backfill(plans, on_error=on_error, tick=progress)
            _record_backfill(query, layout, project, plans, done)
            return done
    # Not before it is known that the state is Spark's: little state is to be done in no time.
    pace = _pace(keys_per_chunk, share, keys_per_second)
    chunk = _KEYS_PER_CHUNK if keys_per_chunk is None else keys_per_chunk
    return _chunked_backfill(str(checkpoint), project, chunk, pace)


def _record_backfill(
    query: StoppedQuery,
    layout: Layout,
    project: Project,
    plans: Mapping[str, StorePlan],
    done: StoppedBackfill,
) -> None:
    """Note in the log what was done, if anything was."""
    if done.migrated:
        counts = {"migrated": str(done.migrated), "quarantined": str(done.quarantined)}
        note = Note(Stamp.of(project.directory), planned_revisions(plans))
        note.done(layout.files, "backfill", query.version, counts)


# The backfill of Spark's own state: chunks that its query takes, one a batch.


__all__ = ["backfill", "backfill_status", "pause_backfill"]

_KEYS_PER_CHUNK = 10_000


def _chunked_backfill(
    path: str, project: Project, keys_per_chunk: int, pace: BackfillLimits | None
) -> BackfillPlan:
    """Write down what is to be migrated."""
    # Said before Spark takes its time to start.
    files = chunk_files(path, project.operator)
    files.directory.require_query()
    require_own_state(path)
    require_control_source(files)
    scripts = project.folder.survey()
    from statemigrate.native import session_of

    session = session_of(project.spark, path)
    retried(lambda: _check_start(path, scripts.every(), project, session), path)
    from statemigrate.native import OlderFamilies, plan_backfill
    from statemigrate.pages import older

    # What is in pages is compared with the scripts where it is looked for.
    find = partial(older, accept_edited=project.accept_edited)
    families = OlderFamilies(path, project.operator, session, scripts, project.targets, find)
    begin = partial(require_writable, files.files)
    plan = plan_backfill(families, keys_per_chunk, pace=pace, begin=begin)
    if plan.keys or plan.withdrawn:
        _report_chunks(files, Stamp.of(project.directory), "planned", _planned(plan, pace))
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
    return backfill_status_of(checkpoint, Project(migrations, targets or {}, {}, spark, operator))


def backfill_status_of(checkpoint: str | Path, project: Project) -> BackfillStatus:
    """How far a backfill of Spark's own state is, as `backfill_status` says."""
    path = str(checkpoint)
    ChunkFiles(path).directory.require_query()
    scripts = project.folder.survey()
    from statemigrate.native import session_of

    session = session_of(project.spark, path)
    from statemigrate.native import OlderFamilies
    from statemigrate.native import backfill_status as status_of
    from statemigrate.pages import older

    return status_of(
        OlderFamilies(path, project.operator, session, scripts, project.targets, older)
    )


def _report_chunks(files: ChunkFiles, stamp: Stamp, step: str, details: Mapping[str, str]) -> None:
    batch = files.directory.last_commit()
    Note(stamp, operator=files.operator or "").done(
        files.files, "backfill", batch, {STEP: step, **details}
    )


def _planned(plan: BackfillPlan, pace: BackfillLimits | None) -> dict[str, str]:
    """The details of a plan: how much, which families, and how fast it may go."""
    figures = {"keys": str(plan.keys), "families": ", ".join(plan.families)}
    if plan.withdrawn:
        figures["withdrawn"] = str(plan.withdrawn)
    if pace is None:
        return {**figures, "chunks": str(plan.chunks)}
    rate = {} if pace.keys_per_second is None else {"keys_per_second": f"{pace.keys_per_second:g}"}
    return {**figures, "share": f"{pace.share:g}", **rate}


def _pace(
    keys_per_chunk: int | None, share: float | None, keys_per_second: float | None
) -> BackfillLimits | None:
    pace = BackfillLimits.of(share, keys_per_second)
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
    path: str, lineages: Mapping[str, Lineage], project: Project, spark: SparkSession
) -> None:
    """Raise `StartupError` where the query would refuse to start with these scripts."""
    reader = SparkCheckpoint(path, spark, operator=project.operator)
    if reader.last_batch() is None or reader.is_paged:
        return
    with closing(open_committed(path, lineages, replace(project, spark=spark))) as state:
        for store in (state.stores.keys() & lineages.keys()) - state.operator_stores:
            planned(state, store, lineages, project)
