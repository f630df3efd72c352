"""The backfill of Spark's own state: chunks that its query takes, one a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.events import STEP
from statemigrate.logbook.folder import require_writable
from statemigrate.logbook.noting import Note
from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.native.backfill.meant import chunk_files
from statemigrate.native.backfill.pace import Pace
from statemigrate.native.backfill.plan import BackfillPlan, plan_backfill
from statemigrate.native.backfill.presence import require_control_source
from statemigrate.native.backfill.progress import BackfillStatus
from statemigrate.native.backfill.progress import backfill_status as status_of
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.spark_state.retrying import retried
from statemigrate.native.spark_state.session import session_of
from statemigrate.pages.startup.leftovers import older
from statemigrate.scripts import ScriptFolder
from statemigrate.state.opening import open_state, require_own_state
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.migration import Lineage
    from statemigrate.native.spark_state.session import Spark

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
    session = session_of(spark, path)
    retried(
        lambda: _check_start(path, scripts.every(), targets, accept_edited, operator, session), path
    )
    most = _KEYS_PER_CHUNK if keys_per_chunk is None else keys_per_chunk
    # What is in pages is compared with the scripts where it is looked for.
    find = partial(older, accept_edited=accept_edited)
    named: dict[str, Any] = {"operator": operator, "spark": session, "older": find}
    begin = partial(require_writable, files.files)
    plan = plan_backfill(path, scripts, targets, most, pace=pace, begin=begin, **named)
    if plan.keys or plan.withdrawn:
        _tell(files, Stamp.of(Path(migrations)), "planned", _planned(plan, pace))
    return plan


def pause_backfill(checkpoint: str | Path, *, operator: int | str | None = None) -> int:
    """Withdraw the chunks that the query has not taken yet; how many there were.

    The query may be running, and finishes the chunk it is at. `backfill` resumes: what is
    migrated already is not planned again. ``operator`` is as of `backfill`. The checkpoint's log
    is told of it. Raises `CheckpointError` for what is not a checkpoint, or where its log cannot be
    written.
    """
    files = chunk_files(str(checkpoint), operator)
    files.directory.require_query()
    require_writable(files.files)
    withdrawn = files.withdraw()
    if withdrawn:
        _tell(files, Stamp.of(Path.cwd()), "paused", {"withdrawn": str(withdrawn)})
    return withdrawn


def backfill_status(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    spark: Spark = None,
) -> BackfillStatus:
    """How far a backfill of Spark's own state is; reads all keys that are left.

    The parameters and errors are those of `statemigrate.backfill`.
    """
    path = str(checkpoint)
    ChunkFiles(path).directory.require_query()
    scripts = ScriptFolder(migrations).survey()
    session = session_of(spark, path)
    return status_of(path, scripts, targets or {}, operator=operator, spark=session, older=older)


def _tell(files: ChunkFiles, stamp: Stamp, step: str, details: Mapping[str, str]) -> None:
    batch = files.directory.last_commit()
    Note(stamp).done(files.files, "backfill", batch, {STEP: step, **details})


def _planned(plan: BackfillPlan, pace: Pace | None) -> dict[str, str]:
    """What is told of a plan: how much, of which families, and how fast it may go."""
    told = {"keys": str(plan.keys), "families": ", ".join(plan.families)}
    if plan.withdrawn:
        told["withdrawn"] = str(plan.withdrawn)
    if pace is None:
        return {**told, "chunks": str(plan.chunks)}
    rate = {} if pace.keys_per_second is None else {"keys_per_second": f"{pace.keys_per_second:g}"}
    return {**told, "share": f"{pace.share:g}", **rate}


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
