"""`dry-run`: a migration tried on the state a query has, or on values in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.commands.following.progress import Progress, unseen
from statemigrate.inspect.report.dry_run import DryRunReport
from statemigrate.inspect.trial.estimate import Pace
from statemigrate.inspect.trial.file import dry_run_file
from statemigrate.inspect.trial.run import check_sample, read_lineages, tried
from statemigrate.native.spark_state.retrying import looks_again
from statemigrate.native.spark_state.session import session_of
from statemigrate.state.opening import is_embedded, open_state, require_store
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark

__all__ = ["dry_run", "dry_run_file"]


@looks_again
def dry_run(  # noqa: PLR0913 - all but two by name
    store: str,
    checkpoint: str | Path,
    *,
    sample: int | None = None,
    pace: Pace | None = None,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> DryRunReport:
    """Take the values of ``store`` through its scripts, as its query would, and report on it.

    The query may be running: its last committed batch is read, and nothing is written. ``sample``
    tries about so many values, spread evenly over families and partitions, instead of all of them.
    ``targets`` names, by store, the revision to migrate to, the head unless said otherwise.
    ``accept_edited`` names applied scripts that were corrected since. ``pace`` is what the backfill
    may take a batch. ``operator`` is the number or name of the operator that is meant, where
    several could be; ``stores`` has the names that operators' stores get. Spark's own state is read
    on ``spark``, the active session unless given, or a function that makes one; that of the
    embedded engine by processes of this machine, without Spark. ``progress`` is told
    from time to time how many values were read, and of how many.

    Raises `CheckpointError` for what cannot be read, `ScriptError` or `LineageError` for scripts
    that cannot be used, and `StartupError` where the query would refuse to start.
    """
    path = str(checkpoint)
    check_sample(sample)
    lineages = read_lineages(migrations, store)
    lineages[store].resolve((targets or {}).get(store, "head"))
    require_store(path, store)
    session = None if is_embedded(path) else session_of(spark, path)
    with closing(
        open_state(path, lineages, targets=targets, operator=operator, stores=stores, spark=session)
    ) as state:
        # The embedded engine's checkpoint is not rewritten: there a query runs all scripts.
        rewrites = state.engine != "embedded"
        plan = planned(state, store, lineages, targets or {}, accept_edited, rewrites=rewrites)
        return tried(state, plan, sample, pace or Pace(), progress)
