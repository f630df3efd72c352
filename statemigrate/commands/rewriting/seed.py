"""`seed`: a new checkpoint whose state comes from tables."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs.pinned import PARTITIONS
from statemigrate.checkpoint.operators.catalogue import user_stores
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.commands.rewriting.new_code import NewCode, Probed, probed
from statemigrate.commands.rewriting.rewrite import counted, require_answers
from statemigrate.errors import RewriteError
from statemigrate.files.opening import open_files
from statemigrate.native.spark_state.session import session_of
from statemigrate.rewrite.plan.asking.questions import Question, RewriteAnswers
from statemigrate.rewrite.plan.document import plan_document
from statemigrate.rewrite.plan.options import RewriteOptions
from statemigrate.rewrite.plan.plan import RewritePlan, make_plan
from statemigrate.rewrite.rows.session import rewriting_session
from statemigrate.rewrite.run.report import RewriteReport
from statemigrate.rewrite.run.run import Progress, run_plan
from statemigrate.rewrite.run.target import Target
from statemigrate.rewrite.seeding.origin import BATCH, Tables, before_seeding
from statemigrate.rewrite.seeding.rows import check_tables
from statemigrate.rewrite.seeding.seeds import Seed, find_seeds
from statemigrate.rewrite.seeding.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.native.spark_state.session import Spark

_ZONE = "spark.sql.session.timeZone"


@dataclass(frozen=True)
class Seeding:
    """A plan, the ``tables`` by store, and the ``report`` of what was done, None where nothing.

    ``columns`` has, by store and field, the columns of its table that are in the field.
    """

    new: str
    tables: Mapping[str, str]
    columns: Mapping[str, Mapping[str, tuple[str, ...]]]
    plan: RewritePlan
    report: RewriteReport | None = None

    @property
    def next_action(self) -> str:
        """What to do next."""
        if self.report is not None:
            return f"`statemigrate verify {self.new}`, then start the code on it"
        if self.plan.questions:
            return f"answer {counted(self.plan)}, as shown, in the same command"
        return "the same command with --apply"

    @property
    def document(self) -> dict[str, Any]:
        """The plan as JSON holds it."""
        return plan_document(self.plan)

    def to_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        report = None if self.report is None else self.report.to_json()
        place = {"new": self.new, "tables": dict(self.tables), "columns": self.columns}
        return {**place, "plan": self.document, "report": report, "next": self.next_action}


def seed(
    new: str | Path,
    tables: Mapping[str, str | Path] | str | Path,
    *,
    target: NewCode,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    apply: bool = False,
    spark: Spark = None,
    progress: Progress | None = None,
) -> Seeding:
    """Plan a ``new`` checkpoint of a query that has not run, and make it with ``apply``.

    ``tables`` are folders of Parquet or JSON, by the names of stores, as in ``aggregation-0``; or
    one, where the query keeps one state only. Columns go into the fields of their names, or as
    ``answers.take`` says. ``target`` is the code of the query, or a checkpoint that it made
    elsewhere. The state is that of batch 1: the query goes on with batch 2, from where
    ``options.offsets`` say for each source. Raises `CodeError` for the code, `RewriteError` for
    tables that do not say what state has, and for open questions with ``apply``.
    """
    options, answers = options or RewriteOptions(), answers or RewriteAnswers()
    session = session_of(spark, str(new))
    found = _probed(target, options, session, str(new))
    conf, further = _conf(found, target, options, session)
    seeds = _seeds(found, tables, answers, session)
    shape = before_seeding(found.shape, conf, seeds)
    further += [*_unused(seeds), *_empty(found.shape.operators, seeds)]
    said = replace(
        answers, take=_own(seeds), operators={each.number: each.number for each in shape.operators}
    )
    plan = make_plan(
        shape,
        found.shape.operators,
        options,
        said,
        sources=found.sources,
        further=further,
        rows="the rows of the table",
    )
    origin = Tables(seeds, str(uuid.uuid4()))
    new_files = open_files(new)
    Target(new_files, "", origin.location).check()
    seeding = Seeding(str(new), origin.tables, {each.store: each.columns for each in seeds}, plan)
    if not apply:
        return seeding
    require_answers(plan)
    # What was half written is gone on with only where the tables have not changed.
    sums = check_tables(found.shape.operators, seeds)
    mark = hashlib.sha256(f"{plan.fingerprint} {sums}".encode()).hexdigest()
    place = Target(new_files, mark, origin.location)
    report = run_plan(plan, origin, place, session, progress)
    return replace(seeding, report=report)


def _probed(target: NewCode, options: RewriteOptions, spark: SparkSession, new: str) -> Probed:
    found = probed(target, None if target.like else options.pinned({}), spark, new)
    if found is None:
        raise RewriteError(
            "what the query keeps is not said",
            expected="its code, or a checkpoint that it made elsewhere",
            found="neither",
            next_action="add --code MODULE:FUNCTION, or --like CHECKPOINT",
        )
    return found


def _conf(
    found: Probed, target: NewCode, options: RewriteOptions, spark: SparkSession
) -> tuple[dict[str, str], list[Question]]:
    """The settings that are pinned to the query, and a question where nobody has chosen one."""
    conf = dict(found.shape.conf)
    if target.like or options.partitions is not None:
        return conf, []
    conf[PARTITIONS] = spark.conf.get(PARTITIONS) or "200"
    return conf, [
        Question(
            "partitions",
            "partitions",
            f"the number of state partitions stays with the query: is it {conf[PARTITIONS]}, as in "
            "this session?",
            conf[PARTITIONS],
            "--accept partitions, or --partitions N",
        )
    ]


def _seeds(
    found: Probed,
    tables: Mapping[str, str | Path] | str | Path,
    answers: RewriteAnswers,
    spark: SparkSession,
) -> tuple[Seed, ...]:
    named = tables if isinstance(tables, Mapping) else {"": tables}
    if not named:
        raise RewriteError(
            "no table is named",
            expected="a table of keys and values for each state that is to begin with history",
            found="none",
            next_action="add --from STORE=TABLE",
        )
    session = rewriting_session(spark, found.shape)
    zone = spark.conf.get(_ZONE) or "UTC"
    opened = {store: Table.at(str(place), session, zone) for store, place in named.items()}
    return find_seeds(found.shape.operators, opened, answers.take, answers.start)


def _own(seeds: Sequence[Seed]) -> dict[str, str]:
    """Each field that a table says goes on with itself, whatever else is called so."""
    return {
        f"{seed.store}.{each.name}": each.name
        for seed in seeds
        for each in (*seed.key, *seed.value)
    }


def _unused(seeds: Sequence[Seed]) -> Iterator[Question]:
    for seed in seeds:
        for column in seed.rest:
            name = f"{seed.store}.{column}"
            yield Question(
                name,
                "drop",
                f"no field of {seed.store} takes the column {column}: is it to be left out?",
                "left out",
                f"--accept {name}, or --take {seed.store}.FIELD={column}",
            )


def _empty(operators: Sequence[OperatorShape], seeds: Sequence[Seed]) -> Iterator[Question]:
    seeded = {each.store for each in seeds}
    for operator in operators:
        for name in user_stores(operator):
            if name not in seeded:
                yield Question(
                    name,
                    "empty",
                    f"no table is named for {name}: does it begin empty?",
                    "empty",
                    f"--accept {name}, or --from {name}=TABLE",
                )


__all__ = ["BATCH", "Seeding", "seed"]
