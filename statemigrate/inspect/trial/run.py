"""Trying a migration on the state a query has, and writing nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.deployment import StorePlan
from statemigrate.errors import StartupError
from statemigrate.inspect.report.dry_run import DryRunReport
from statemigrate.inspect.trial.course import Course, courses
from statemigrate.inspect.trial.estimate import Pace, estimated
from statemigrate.inspect.trial.findings import Findings, added
from statemigrate.inspect.trial.task import Trying
from statemigrate.migration import Lineage, Step
from statemigrate.state.opening import open_state
from statemigrate.state.protocol import State, planned
from statemigrate.state.values import Share, Shares

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counts = Mapping[str, Mapping[int, int]]
Progress = Callable[[int, int], None]


def dry_run(  # noqa: PLR0913 - all but two by name
    store: str,
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    sample: int | None = None,
    accept_edited: Sequence[str] = (),
    pace: Pace | None = None,
    operator: int | None = None,
    spark: SparkSession | None = None,
    tick: Progress = lambda _done, _total: None,
) -> DryRunReport:
    """Take the values of ``store`` through its scripts, as its query would, and report on it.

    The query may be running: its last committed batch is read, and nothing is written. ``sample``
    tries about so many values, spread evenly over families and partitions, instead of all of them.
    ``targets`` names, by store, the revision to migrate to, the head unless said otherwise.
    ``accept_edited`` names applied scripts that were corrected since. ``pace`` is what the backfill
    may take a batch. ``operator`` is Spark's number of the stateful operator that is meant, where
    several could be. The work is done on ``spark``, the active session unless given; ``tick`` is
    told from time to time how many values were read, and of how many.

    Raises `CheckpointError` for what cannot be read, `ScriptError` or `LineageError` for scripts
    that cannot be used, and `StartupError` where the query would refuse to start.
    """
    check_sample(sample)
    lineages = read_lineages(migrations, store)
    session = spark or _active(checkpoint)
    with closing(
        open_state(str(checkpoint), lineages, targets=targets, operator=operator, spark=session)
    ) as state:
        plan = planned(state, store, lineages, targets or {}, accept_edited)
        return _tried(state, plan, sample, pace or Pace(), tick)


def check_sample(sample: int | None) -> None:
    """Raise `StartupError` for a sample that is none."""
    if sample is not None and sample < 1:
        raise StartupError(
            "a sample needs at least one value",
            expected="a number of 1 or more",
            found=sample,
            next_action="leave --sample out to try every value",
        )


def read_lineages(migrations: str | Path, store: str) -> dict[str, Lineage]:
    """The lineages of a folder in which nothing is wrong.

    Raises `LineageError` where ``store`` has no script, and what is wrong with its scripts.
    """
    from statemigrate.scripts import ScriptFolder

    return ScriptFolder(migrations).sound_lineages(store)


def _active(checkpoint: str | Path) -> SparkSession:
    from statemigrate.native.spark_state.reader import active_session

    return active_session(str(checkpoint))


def _tried(
    state: State, plan: StorePlan, sample: int | None, pace: Pace, tick: Progress
) -> DryRunReport:
    store = plan.declared.store
    to_try = courses(plan)
    counts = state.counts(store)
    total = sum(sum(counts.get(each.family.name, {}).values()) for each in to_try)
    began = time.monotonic()
    documents = state.values(plan, [each.family for each in to_try]).map(
        Trying.of(to_try),
        shares=shared(to_try, counts, sample),
        tick=lambda done: tick(done, total),
    )
    found = added(documents)
    return DryRunReport(
        store=store,
        kind=plan.declared.kind,
        engine=state.engine,
        checkpoint=state.checkpoint,
        batch=state.batch,
        target=plan.target.revision,
        sample=sample,
        in_target=sum(counts.get(plan.target.name, {}).values()),
        families=tuple(
            found.get(each.family.name, Findings()).described(
                each.family.name,
                each.family.revision,
                reversible=each.back is not None,
                steps=each.path.steps,
            )
            for each in to_try
        ),
        seconds=time.monotonic() - began,
        backfill=estimated(state, to_try, counts, found, pace),
        questions=open_questions(
            plan.lineage, [step for each in to_try for step in each.path.steps]
        ),
    )


def open_questions(lineage: Lineage, steps: Sequence[Step]) -> int:
    """How many questions are open in the scripts of these steps."""
    revisions = {step.revision for step in steps}
    return sum(len(each.questions) for each in lineage.migrations if each.revision in revisions)


def shared(to_try: Sequence[Course], counts: Counts, sample: int | None) -> Shares:
    """How much of each partition of each family is tried, in proportion to what it holds."""
    sizes = {
        (course.family.name, number): count
        for course in to_try
        for number, count in counts.get(course.family.name, {}).items()
    }
    total = sum(sizes.values())
    wanted = total if sample is None else min(sample, total)
    shares: dict[str, dict[int, Share]] = {course.family.name: {} for course in to_try}
    before = 0
    for (family, number), count in sizes.items():
        # Rounding the running sum, so that the parts add up to the sample.
        take = (before + count) * wanted // total - before * wanted // total if total else 0
        shares[family][number] = Share(take, max(count, 1))
        before += count
    return shares
