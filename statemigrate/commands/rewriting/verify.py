"""`verify`: whether every row of an old checkpoint is accounted for in the new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.files.opening import open_files
from statemigrate.native.spark_state.session import session_of
from statemigrate.rewrite.run.report import read_report
from statemigrate.rewrite.verifying.verify import Verified, verify_files
from statemigrate.scripts.folder import survey_of

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


def verify(
    old: str | Path | None,
    new: str | Path,
    *,
    migrations: str | Path | None = "migrations",
    spark: Spark = None,
) -> Verified:
    """Read both checkpoints again through Spark, as of the batch that was rewritten.

    Compared are the rows of old with what the rewrite noted to have read, those of new with what it
    noted to have written, the partition of every key with Spark's hash of it, and of joins the
    counts with the rows. Then the new rows are made once more from the old ones, by the scripts of
    the folder ``migrations`` where some were run, and must be the same: a script that was edited
    since, or gives another result each time, is seen. Spark's logs, what sources keep and
    ``metadata`` must be what the rewrite wrote, and follow from the old logs. The new query may
    have gone on, as long as the state of that batch is kept. Where ``old`` is None it is the one
    that the rewrite noted; a checkpoint that was seeded from tables has none, and is looked at
    alone. Raises `CheckpointError` where one of both cannot be read, or was not made by a rewrite,
    `RewriteError` for an ``old`` that is not the one, and `ScriptError` for a folder that is none.
    """
    files = open_files(new)
    if old is None:
        report = read_report(files)
        old = None if report.tables else report.old
    survey = survey_of(migrations)
    lineages = None if survey is None else dict(survey.lineages)
    old_files = None if old is None else open_files(old)
    return verify_files(old_files, files, lambda: session_of(spark, str(new)), lineages)
