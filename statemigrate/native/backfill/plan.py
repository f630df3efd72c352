"""Planning a backfill: the keys still in an older family, written as files for the control source.

Nothing of the query is touched; it may be running. Its batches take one file each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemigrate.errors import StartupError
from statemigrate.native.backfill.keys import Older, OlderFamilies, OlderKeys
from statemigrate.native.backfill.leftovers import older_families
from statemigrate.native.backfill.meant import chunk_files
from statemigrate.native.backfill.pace import Pace
from statemigrate.native.backfill.presence import require_control_source
from statemigrate.native.spark_state.retrying import retried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.scripts.survey import Survey


@dataclass(frozen=True)
class BackfillPlan:
    """What was planned: ``keys`` in ``chunks`` files; 0 where they are cut while the query runs.

    ``families`` has the number of keys of each older family that the plan covers; a key that is in
    several stores is in several of them. ``withdrawn`` counts the files of the plan before that the
    query had not taken. Of state in pages both numbers are of entries, all families' together
    in ``keys``, and ``pages`` is how many pages they are in; else it is None.
    """

    keys: int
    chunks: int
    families: Mapping[str, int]
    withdrawn: int
    pages: int | None = None


def plan_backfill(  # noqa: PLR0913 - all but four by name
    path: str,
    scripts: Survey,
    targets: Mapping[str, str],
    keys_per_chunk: int = 10_000,
    *,
    pace: Pace | None = None,
    operator: int | str | None = None,
    spark: SparkSession | None = None,
    older: Older = older_families,
    begin: Callable[[], None] = lambda: None,
) -> BackfillPlan:
    """Write down every key that still has values in another family than its store's target.

    The query of the checkpoint ``path`` must have the control source (`with_backfill`); running or
    stopped, it takes one chunk of about ``keys_per_chunk`` keys a batch; with a ``pace`` chunks are
    cut while it runs, each as large as the batches before allow. Whatever an earlier plan left is
    withdrawn first, so that planning again is how a paused backfill is resumed. ``scripts``
    and ``targets`` are those that the query is deployed with. Values that expire are left to do so,
    unless their scripts say that migrating may restart their time. ``operator`` is the number or
    name of the operator that is meant, where several could be; ``spark`` is the session to read
    with, the active one unless given. ``older`` finds the families to be emptied, for state that is
    laid out otherwise. ``begin`` is called when all is checked and nothing changed yet; what it
    raises ends the planning.

    Raises `CheckpointError` for what is not the checkpoint of such a query, `ScriptError` or
    `LineageError` for scripts that cannot be used, and `StartupError` where they and the state do
    not fit; nothing was changed then. A state that cannot be read is a `CheckpointError` too; the
    earlier plan is withdrawn by then.
    """
    _check_size(keys_per_chunk)
    files = chunk_files(path, operator)
    query = files.directory.require_query()
    require_control_source(files)
    families = OlderFamilies(path, operator, spark, scripts, targets, older)
    retried(families.read, path)
    begin()
    # Before the state is read: what the query takes in between would be planned again.
    withdrawn = files.withdraw()
    with closing(OlderKeys(families)) as keys:
        plan = keys.write(files, query, keys_per_chunk, pace)
    left = keys.left
    return BackfillPlan(left.keys, plan.chunks, left.families, withdrawn, left.pages)


def _check_size(keys_per_chunk: int) -> None:
    if keys_per_chunk < 1:
        raise StartupError(
            "SM-BACKFILL-007",
            "a chunk needs at least one key",
            expected="keys_per_chunk of 1 or more",
            found=keys_per_chunk,
            next_action="leave it out for 10,000",
        )
