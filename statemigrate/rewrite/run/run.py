"""A plan carried out: the new checkpoint written, read back through Spark, and then published."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from statemigrate.files import Files
from statemigrate.rewrite.plan.lineages import noted_stores
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.rows.checksums import Checksum
from statemigrate.rewrite.rows.reading import StateReader
from statemigrate.rewrite.rows.session import rewriting_session
from statemigrate.rewrite.run.operator import OperatorRun
from statemigrate.rewrite.run.publishing import publish_shape
from statemigrate.rewrite.run.reading_back import check_written
from statemigrate.rewrite.run.report import FamilyReport, RewriteReport
from statemigrate.rewrite.run.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int | None], None]
"""Told how many rows are written, of how many."""


def run_plan(
    plan: RewritePlan,
    old: Files,
    target: Target,
    spark: SparkSession,
    progress: Progress | None = None,
) -> RewriteReport:
    """Write and publish the new checkpoint of a ``plan`` without open questions.

    Every old key is looked at before anything is written. What is written is read back and compared
    before it becomes a checkpoint. Raises `RewriteError` for rows that are not where they must be,
    and for what did not come back as it was written.
    """
    begun = time.monotonic()
    reader = StateReader(old, plan.old.batch, rewriting_session(spark, plan.old))
    runs = [OperatorRun(plan, each, reader, target.files) for each in plan.operators]
    read = [each.surveyed() for each in runs]
    target.begin()
    rows = sum(total.count for each in read for total in each.values())
    families: list[FamilyReport] = []
    for run, found in zip(runs, read, strict=True):
        if run.operator.new is not None:
            families += _written(run, found, target)
            if progress:
                progress(sum(each.total.count for each in families), rows)
    publish_shape(plan.new, old, target.files, noted_stores(plan.scripts, plan.new.batch))
    report = RewriteReport(
        old.location,
        plan.old.query_id,
        plan.old.batch,
        plan.fingerprint,
        tuple(families),
        _gone(runs),
        tuple(
            {"name": each.question.name, "text": each.question.text, "said": each.said}
            for each in plan.answered
        ),
        time.monotonic() - begun,
        {name: list(pair) for name, pair in plan.changed_conf.items()},
    )
    report.write(target.files)
    session = rewriting_session(spark, plan.new)
    check_written(plan, report, StateReader(target.files, plan.new.batch, session))
    target.publish(old.get("metadata"))
    return report


def _written(
    run: OperatorRun, read: dict[str, Checksum], target: Target
) -> tuple[FamilyReport, ...]:
    assert run.operator.new is not None, "an operator that goes is not written"  # noqa: S101
    number = run.operator.new.number
    finished = target.finished(number)
    if finished is not None:
        return finished
    target.files.delete_folder(f"state/{number}")
    families = run.run(read)
    target.finish(number, families)
    return families


def _gone(runs: list[OperatorRun]) -> dict[str, Checksum]:
    found: dict[str, Checksum] = {}
    for run in runs:
        found |= run.left()
    return found
