"""A plan carried out: the new checkpoint written, read back through Spark, and then published."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.reading import StateReader
from statemigrate.rewrite.rows.session import rewriting_session
from statemigrate.rewrite.run.functions import check_functions, functions_document
from statemigrate.rewrite.run.leftovers import remove_leftovers
from statemigrate.rewrite.run.log_record import LogRecord
from statemigrate.rewrite.run.operator import OperatorRun, Read
from statemigrate.rewrite.run.origin import Origin
from statemigrate.rewrite.run.publishing import publish_shape
from statemigrate.rewrite.run.reading_back import check_written
from statemigrate.rewrite.run.report import FamilyReport, RewriteReport, ScriptsRun
from statemigrate.rewrite.run.target import Begun, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int | None], None]
"""Told how many rows are written, of how many."""


def run_plan(
    plan: RewritePlan,
    origin: Origin,
    target: Target,
    spark: SparkSession,
    progress: Progress | None = None,
) -> RewriteReport:
    """Write and publish the new checkpoint of a ``plan`` without open questions.

    ``origin`` is what its rows come from. Every old key is looked at before anything is written.
    What is written is read back and compared before it becomes a checkpoint. Raises `RewriteError`
    for rows that are not where they must be, and for what did not come back as it was written.
    """
    begun = time.monotonic()
    for family in (each for operator in plan.operators for each in operator.families):
        check_functions(family, plan.starts, _answers(plan))
    session = rewriting_session(spark, plan.new)
    runs = _runs(plan, origin, target, spark, session)
    read = [each.surveyed() for each in runs]
    rows = sum(found.total.count for each in read for of in each.values() for found in of.values())
    families: list[FamilyReport] = []
    with target.begun() as new:
        for run, found in zip(runs, read, strict=True):
            if run.operator.new is not None:
                families += _written(run, found, new)
                if progress:
                    progress(sum(each.total.count for each in families), rows)
        new.require_own()
        metadata = origin.metadata
        hashes = publish_shape(plan.new, new.files, origin.beside(plan, new.files, spark))
        hashes["metadata"] = hashlib.sha256(metadata).hexdigest()
        report = replace(
            _report(plan, origin, families, _gone(runs), time.monotonic() - begun),
            logs=LogRecord.of(plan, new.files, hashes),
        )
        report.write(new.files)
        remove_leftovers(new.files)
        check_written(plan, report, StateReader(new.files, plan.new.batch, session))
        origin.confirm(plan)
        new.publish(metadata)
    return report


def _runs(
    plan: RewritePlan, origin: Origin, target: Target, spark: SparkSession, session: SparkSession
) -> list[OperatorRun]:
    reader, stored, kept = origin.reader(plan, spark), origin.stored(plan), origin.kept(plan)
    return [
        OperatorRun(
            plan,
            each,
            reader,
            target.files,
            session,
            None if each.old is None else stored.get(each.old.number),
            None if each.new is None else kept.get(each.new.number),
        )
        for each in plan.operators
    ]


def _report(
    plan: RewritePlan,
    origin: Origin,
    families: list[FamilyReport],
    gone: dict[str, Checksum],
    seconds: float,
) -> RewriteReport:
    return RewriteReport(
        origin.location,
        origin.query,
        plan.old.batch,
        plan.fingerprint,
        tuple(families),
        gone,
        _answers(plan),
        seconds,
        {name: list(pair) for name, pair in plan.changed_conf.items()},
        dict(origin.tables),
        {
            name: ScriptsRun(each.store, each.path.target, dict(each.applied))
            for name, each in plan.scripts.old.items()
            if each in plan.scripts_run
        },
        {
            name: ScriptsRun(each.store, each.path.target, dict(each.applied))
            for name, each in plan.scripts.new.items()
            if each in plan.scripts_run
        },
        {
            family.name: document
            for each in plan.operators
            for family in each.families
            if (document := functions_document(family, plan.starts)) is not None
        },
        plan.windows,
    )


def _answers(plan: RewritePlan) -> tuple[dict[str, str], ...]:
    return tuple(
        {
            "name": each.question.name,
            "kind": each.question.kind,
            "text": each.question.text,
            "said": each.said,
        }
        for each in plan.answered
    )


def _written(run: OperatorRun, read: Read, new: Begun) -> tuple[FamilyReport, ...]:
    assert run.operator.new is not None, "an operator that goes is not written"  # noqa: S101
    number = run.operator.new.number
    finished = new.finished(number)
    if finished is not None:
        return finished
    new.require_own()
    new.files.delete_folder(f"state/{number}")
    families = run.run(read)
    new.require_own()
    new.finish(number, families)
    return families


def _gone(runs: list[OperatorRun]) -> dict[str, Checksum]:
    found: dict[str, Checksum] = {}
    for run in runs:
        found |= run.left()
    return found
