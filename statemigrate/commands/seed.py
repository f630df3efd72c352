"""`seed`: a new checkpoint whose state comes from tables."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.logs import PARTITIONS
from statemigrate.checkpoint.operators import OperatorShape
from statemigrate.commands.new_code import NewCode, Probed, check_inputs, meaning_files, probed
from statemigrate.commands.rewrite import counted, new_windows, require_answers
from statemigrate.errors import RewriteError
from statemigrate.files import Files, open_files
from statemigrate.native import REWRITING, check_spark_version, session_of
from statemigrate.quoting import argument
from statemigrate.rewrite import (
    BATCH,
    EXPIRES,
    OF_TABLES,
    FamilyAddress,
    ObservedWindows,
    Progress,
    Question,
    RewriteAnswers,
    RewriteOptions,
    RewritePlan,
    RewriteReport,
    RewriteScripts,
    Scripted,
    Seed,
    SeedTable,
    SeedTables,
    Target,
    WindowFinding,
    before_seeding,
    check_tables,
    find_seeds,
    find_windows,
    is_json,
    make_plan,
    observe_windows,
    only_store,
    plan_document,
    rewriting_session,
    run_plan,
    seed_script,
    seeded_stores,
    window_questions,
)
from statemigrate.state import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.native import Spark


_ZONE = "spark.sql.session.timeZone"


@dataclass(frozen=True)
class Seeding:
    """A plan, the ``tables`` by store, and the ``report``, None if the seed was not made.

    ``columns`` has, by store and field, the columns of its table that go into the field.
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
            return (
                f"`statemigrate rewrite {argument(self.new)} --verify`, then start the code on it"
            )
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


def seed(  # noqa: PLR0913 - all but two by name
    new: str | Path,
    tables: Mapping[str, str | Path] | str | Path,
    *,
    target: NewCode,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    revisions: Mapping[str, str] | str | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    apply: bool = False,
    spark: Spark = None,
    progress: Progress | None = None,
) -> Seeding:
    """Plan a ``new`` checkpoint of a query that has not run, and make it with ``apply``.

    ``tables`` are folders of Parquet or JSON, by the names of stores, as in ``aggregation-0``; or a
    single one, if the query has only one state. Columns go into the fields with the same names, or
    as in ``answers.take``. ``target`` is the code of the query, or a checkpoint that it made
    elsewhere. ``revisions`` has the revisions of tables in an older format: the scripts of their
    stores, in the folder ``migrations``, migrate them to the head or the revision in ``targets``.
    ``stores`` has the project's names. The state is that of batch 1: the query continues with batch
    2, at ``options.offsets`` for each source. Raises `CodeError` for the code, and `RewriteError`
    for tables that do not fit the state and for open questions with ``apply``.
    """
    project = Project(migrations, targets or {}, stores or {}, spark)
    options, answers = options or RewriteOptions(), answers or RewriteAnswers()
    check_spark_version(REWRITING, "rewrite a checkpoint")
    _check_paths(new, tables, target)
    session = session_of(spark, str(new))
    found = _probed(target, options, session, str(new))
    conf, further = _conf(found, target, options, session)
    by_store = revisions if isinstance(revisions, Mapping) else {"": revisions} if revisions else {}
    scripts = _scripts(project, seeded_stores(found.shape.operators), by_store)
    seeds = _seeds(found, tables, answers, session, scripts)
    shape = before_seeding(found.shape, conf, seeds, _begun(answers))
    own = replace(
        answers, take=_own(seeds), operators={each.number: each.number for each in shape.operators}
    )
    further += [*_unused(seeds), *_empty(found.shape.operators, seeds)]
    planned = partial(
        make_plan,
        shape,
        found.shape.operators,
        options,
        scripts=RewriteScripts(scripts),
        sources=found.sources,
        rows=OF_TABLES,
    )
    meaning = meaning_files(found, str(target.code), BATCH)
    origin = SeedTables(seeds, str(uuid.uuid4()), meaning)
    place = Target(open_files(new), "", origin.location, _origins(origin), "seed")
    place.check()
    first = planned(answers=replace(own, accept=frozenset()), further=further)
    windows = _windows(first, found, origin, session)
    plan = planned(answers=own, further=[*further, *window_questions(windows, of_tables=True)])
    plan = replace(plan, windows=windows)
    seeding = Seeding(str(new), origin.tables, {each.store: each.columns for each in seeds}, plan)
    if not apply:
        return seeding
    require_answers(plan)
    # What was half written is gone on with only where the tables have not changed.
    sums = check_tables(found.shape.operators, seeds)
    mark = hashlib.sha256(f"{plan.fingerprint} {sums}".encode()).hexdigest()
    report = run_plan(plan, origin, replace(place, fingerprint=mark), session, progress)
    return replace(seeding, report=report)


def _check_paths(
    new: str | Path, tables: Mapping[str, str | Path] | str | Path, target: NewCode
) -> None:
    """Raise what is wrong with the places and the code, before Spark takes its time to start."""
    Target(open_files(new), "", "", verb="seed").check()
    for each in _named(tables).values():
        is_json(str(each))
    if target.like:
        describe(open_files(target.like))
    elif target.code:
        check_inputs(target)
    else:
        raise _no_code()


def _windows(
    plan: RewritePlan, found: Probed, origin: SeedTables, spark: SparkSession
) -> tuple[WindowFinding, ...]:
    """What tables have in window columns, held against what the code makes.

    Of code that is known by a checkpoint alone its windows are those in that one.
    """
    reader = origin.reader(plan, spark)

    def in_tables(
        operator: OperatorShape, place: FamilyAddress, column: tuple[str, str]
    ) -> ObservedWindows:
        return observe_windows(reader.rows(operator, place), column)

    return tuple(find_windows(plan, new_windows(found, None, spark), in_tables))


def _origins(origin: SeedTables) -> tuple[tuple[str, Files], ...]:
    """The folders and files that the tables are in, but for patterns of them."""
    places = {
        store: place for store, place in origin.tables.items() if not set("*?[{") & set(place)
    }
    return tuple((f"the table of {store}", open_files(each)) for store, each in places.items())


def _scripts(
    project: Project,
    stores: Mapping[str, tuple[OperatorShape, FamilyAddress]],
    revisions: Mapping[str, str],
) -> dict[str, Scripted]:
    """By kind and number of a store the scripts from its table's revision on."""
    found = {}
    for label, revision in revisions.items():
        name = only_store(project.stores.get(label, label), stores)
        own = next((each for each, known in project.stores.items() if known == name), name)
        if project.survey is None:
            raise _no_scripts(own, revision, project.migrations)
        lineage, target = project.survey.sound(own)[own], project.targets.get(own, "head")
        found[name] = seed_script(name, stores[name], lineage, revision, target)
    return found


def _no_scripts(store: str, revision: str, folder: str | Path | None) -> RewriteError:
    return RewriteError(
        "SM-SEED-001",
        f"there are no scripts of {store}, and its table is given as of revision {revision}",
        expected="a folder of scripts with some of that store",
        found=f"none in {folder}",
        next_action="name the folder with --migrations, or leave --revision out",
        store=store,
    )


def _probed(target: NewCode, options: RewriteOptions, spark: SparkSession, new: str) -> Probed:
    found = probed(target, None if target.like else options.pinned({}), spark, new)
    if found is None:
        raise _no_code()
    return found


def _no_code() -> RewriteError:
    return RewriteError(
        "SM-SEED-002",
        "nothing describes the state of the query",
        expected="its code, or a checkpoint that it made elsewhere",
        found="neither",
        next_action="add --code MODULE:FUNCTION, or --like CHECKPOINT",
    )


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
            ("--partitions N",),
        )
    ]


def _seeds(
    found: Probed,
    tables: Mapping[str, str | Path] | str | Path,
    answers: RewriteAnswers,
    spark: SparkSession,
    scripts: Mapping[str, Scripted],
) -> tuple[Seed, ...]:
    session = rewriting_session(spark, found.shape)
    zone = spark.conf.get(_ZONE) or "UTC"
    opened = {
        store: SeedTable.at(str(place), session, zone) for store, place in _named(tables).items()
    }
    return find_seeds(found.shape.operators, opened, answers.take, answers.start, scripts)


def _named(tables: Mapping[str, str | Path] | str | Path) -> Mapping[str, str | Path]:
    named = tables if isinstance(tables, Mapping) else {"": tables}
    if not named:
        raise RewriteError(
            "SM-SEED-003",
            "no table is named",
            expected="a table of keys and values for each state that is to begin with history",
            found="none",
            next_action="add --from STORE=TABLE",
        )
    return named


def _begun(answers: RewriteAnswers) -> int:
    """Now, where values expire at a time after that.

    Otherwise the plan is the same at any time, so that what was interrupted is gone on with.
    """
    expirations = (text for name, text in answers.start.items() if name.endswith(f":{EXPIRES}"))
    return int(time.time() * 1000) if any("batch_time" in str(each) for each in expirations) else 0


def _own(seeds: Sequence[Seed]) -> dict[str, str]:
    """Each field that a table says goes on with itself, whatever else is called so."""
    return {f"{seed.store}.{each.name}": each.name for seed in seeds for each in seed.matched}


def _unused(seeds: Sequence[Seed]) -> Iterator[Question]:
    for seed in seeds:
        for column in seed.rest:
            name = f"{seed.store}.{column}"
            yield Question(
                name,
                "drop",
                f"no field of {seed.store} takes the column {column}: is it to be left out?",
                "left out",
                (f"--take {seed.store}.FIELD={column}",),
            )


def _empty(operators: Sequence[OperatorShape], seeds: Sequence[Seed]) -> Iterator[Question]:
    seeded = {each.store for each in seeds}
    for operator in operators:
        for name in seeded_stores([operator]):
            if name not in seeded:
                yield Question(
                    name,
                    "empty",
                    f"no table is named for {name}: does it begin empty?",
                    "empty",
                    (f"--from {name}=TABLE",),
                )


__all__ = ["BATCH", "Seeding", "seed"]
