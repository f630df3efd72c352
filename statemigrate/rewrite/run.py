"""A plan carried out: the new checkpoint written, read back through Spark, and then published."""

from __future__ import annotations

import hashlib
import io
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from statemigrate.checkpoint import seconds_since, time_since
from statemigrate.checkpoint.operators import (
    DEFAULT,
    FIRST_METADATA,
    CheckpointShape,
    FamilySchema,
    FamilyShape,
    OperatorShape,
    all_nullable,
    entry_of,
    is_at,
    written_v2,
    written_v3,
)
from statemigrate.checkpoint.stores import read_snapshot
from statemigrate.errors import RewriteError
from statemigrate.files import FileEntry, Files, has_jvm, local_path
from statemigrate.native import uri_of, whole
from statemigrate.rewrite.family_plans import DerivedFamily
from statemigrate.rewrite.log_record import LogRecord
from statemigrate.rewrite.operator import OperatorRun, Read
from statemigrate.rewrite.origin import Begun, Origin, Target
from statemigrate.rewrite.partitioning import survey
from statemigrate.rewrite.record import check_functions, functions_document
from statemigrate.rewrite.rewrite_plan import RewritePlan
from statemigrate.rewrite.rewrite_report import Checksum, FamilyReport, RewriteReport, ScriptsRun
from statemigrate.rewrite.spark_reader import StateReader, rewriting_session
from statemigrate.rewrite.window_columns import windows_in
from statemigrate.rewrite.windows import WindowFinding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Everything of the new checkpoint but its rows: metadata, schemas, sources, logs, in this order.
#
# The file that makes it a checkpoint is not written here.


def publish_shape(
    shape: CheckpointShape, new: Files, extra: Iterable[tuple[str, bytes]]
) -> dict[str, str]:
    """Write what the new checkpoint's ``shape`` says, and further files (``extra_files``) by name.

    Returns the SHA-256 of each by its name.
    """
    hashes: dict[str, str] = {}
    for name, data in _files(shape, new, extra):
        new.replace(name, data)
        hashes[name] = hashlib.sha256(data).hexdigest()
    return hashes


def _files(
    shape: CheckpointShape, new: Files, extra: Iterable[tuple[str, bytes]]
) -> Iterator[tuple[str, bytes]]:
    for operator in shape.operators:
        yield from _operator_files(operator, uri_of(new))
    yield from extra
    for batch, commit in shape.commits.items():
        yield f"commits/{batch}", commit.data
    for batch, offsets in shape.offsets.items():
        yield f"offsets/{batch}", offsets.data


def _operator_files(operator: OperatorShape, root: str) -> Iterator[tuple[str, bytes]]:
    if operator.metadata_version < 2:
        for store in operator.stores:
            inner = "" if store.name == DEFAULT else f"{store.name}/"
            path = f"state/{operator.number}/0/{inner}_metadata/schema"
            yield path, written_v2(_lenient(store.families[0]))
        # Where the old Spark noted none, the new one notes what it finds: what a function on groups
        # is called is not in its state.
        if operator.metadata_version:
            yield FIRST_METADATA.format(operator.number), entry_of(operator).data
        return
    schemas: dict[str, str] = {}
    for store in operator.stores:
        data = written_v3([_schema(each) for each in store.families])
        # The same schemas have the same name: a rewrite that is taken up again writes it again.
        unique = uuid.uuid5(uuid.NAMESPACE_OID, f"{operator.number} {store.name} {data.hex()}")
        path = f"state/{operator.number}/_stateSchema/{store.name}/0_{unique}"
        schemas[store.name] = f"{root}/{path}"
        yield path, data
    yield f"state/{operator.number}/_metadata/v2/0", entry_of(operator, schemas).data


def _schema(family: FamilyShape) -> FamilySchema:
    return FamilySchema(family.name, family.key, family.value, family.encoder, family.user_key)


def _lenient(family: FamilyShape) -> FamilySchema:
    """A schema that Spark's check takes whatever may be null.

    Rows are the same bytes either way, and releases do not agree about it: the key that a join of
    Spark 3.5 says is never null may be null for Spark 4.3, which then refuses to start.
    """
    schema = _schema(family)
    return replace(schema, key=all_nullable(schema.key), value=all_nullable(schema.value))


# Whether what a rewrite wrote is what Spark's own reader gives back.


def check_written(plan: RewritePlan, report: RewriteReport, reader: StateReader) -> None:
    """Read every row of the new state back, and compare it with what was written.

    Raises `RewriteError` where a row is missing, another one, or not in the partition where Spark
    would look for it; and where a script makes windows that the new code does not.
    """
    families = {(each.operator, each.name): each for each in report.families}
    for operator in plan.operators:
        for family in operator.families:
            if operator.new is not None and not isinstance(family, DerivedFamily):
                rows = reader.rows(operator.new, family.new)
                found = survey(rows, operator.new, family.new, family.name)
                written = families[operator.new.number, family.name]
                problem = next(_differences(written, found.partitions), None)
                if problem is not None:
                    raise problem
    unchanged = [each.new for each in plan.operators if each.new is not None]
    for finding, others in windows_in(unchanged, reader, plan.windows):
        if others != finding.left:
            raise _of_other_windows(finding, others)


def _of_other_windows(finding: WindowFinding, others: int) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-047",
        f"{finding.store} has windows in {finding.column} that the new code does not make",
        expected=f"{finding.new_text}, and {finding.left:,} others",
        found=f"{others:,} others",
        next_action=f"correct the script of {finding.store}, which says what the new windows are; "
        "no checkpoint was published",
        store=finding.store,
    )


def _differences(family: FamilyReport, found: dict[int, Checksum]) -> Iterator[RewriteError]:
    for partition in sorted({*family.written, *found}):
        written = family.written.get(partition, Checksum())
        read = found.get(partition, Checksum())
        if written != read:
            yield RewriteError(
                "SM-REWRITE-048",
                f"what was written of {family.name} in partition {partition} is not what Spark "
                "reads there",
                expected=f"{written.count:,} rows with the checksum {written.text}",
                found=f"{read.count:,} rows with the checksum {read.text}",
                next_action="no checkpoint was published; report this, as it is a fault of "
                "statemigrate's or of this release of Spark",
                store=family.name,
            )


# What ended attempts have left over: harmless, and removed all the same.
#
# A task that is tried again makes tables of its own under new names, and a process that ends leaves
# the file that it was writing under a name that nobody reads.


_TABLES = "/SSTs/"


def remove_unreferenced_files(files: Files) -> None:
    """Remove files that nothing refers to from a new checkpoint, before it is one.

    There are none on file systems that only the driver reaches: what it is handed is of one
    attempt, and nothing has another name there while it is written. Raises `CorruptFileError` for
    a snapshot that cannot be read.
    """
    if local_path(files.location) is None:
        return
    found = files.list(recursive=True)
    unfinished = [each.name for each in found if _is_unfinished(each.base_name)]
    tables = [each.name for each in found if _TABLES in each.name]
    used = _used(files, found) if tables else set()
    files.delete([*unfinished, *(name for name in tables if name not in used)])


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _used(files: Files, found: Iterable[FileEntry]) -> set[str]:
    """The tables that snapshots refer to."""
    used = set()
    for each in found:
        if each.name.startswith("state/") and each.name.endswith(".zip"):
            snapshot = read_snapshot(io.BytesIO(files.get(each.name)), each.name)
            folder = each.name.rpartition("/")[0]
            used |= {f"{folder}/{shared.name}" for shared in snapshot.shared}
    return used


Progress = Callable[[int, int | None], None]
"""Gets how many rows are written, of how many."""


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
    for rows that are not where they must be, and for what did not come back as it was written;
    `StorageError` where a store fails that Spark reads.
    """
    begun = time.monotonic()
    for family in (each for operator in plan.operators for each in operator.families):
        check_functions(family, plan.starts, _answers(plan))
    session = rewriting_session(spark, plan.new)
    runs = _runs(plan, origin, target, spark, session)
    # Nobody takes away what is read, and what was half written is written again.
    read = [whole(each.surveyed, origin.location) for each in runs]
    rows = sum(found.total.count for each in read for of in each.values() for found in of.values())
    families: list[FamilyReport] = []
    with target.begun() as new:
        for run, found in zip(runs, read, strict=True):
            if run.operator.new is not None:
                families += whole(
                    partial(_written, run, run.operator.new, found, new), origin.location
                )
                if progress:
                    progress(sum(each.total.count for each in families), rows)
        new.require_own()
        metadata = origin.metadata
        hashes = publish_shape(plan.new, new.files, origin.extra_files(plan, new.files, spark))
        hashes["metadata"] = hashlib.sha256(metadata).hexdigest()
        gone = whole(partial(_gone, runs), origin.location)
        report = replace(
            _report(plan, origin, families, gone, time.monotonic() - begun),
            logs=LogRecord.of(plan, new.files, hashes),
        )
        report.write(new.files)
        remove_unreferenced_files(new.files)
        reader = StateReader(new.files, plan.new.batch, session)
        whole(partial(check_written, plan, report, reader), new.files.location)
        origin.confirm(plan)
        new.publish(metadata)
    return report


def _runs(
    plan: RewritePlan, origin: Origin, target: Target, spark: SparkSession, session: SparkSession
) -> list[OperatorRun]:
    reader, unchanged = origin.reader(plan, spark), origin.unchanged_operators(plan)
    return [
        OperatorRun(
            plan,
            each,
            reader,
            target.files,
            session,
            None if each.new is None else unchanged.get(each.new.number),
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
            "answer": each.answer,
        }
        for each in plan.answered
    )


def _written(
    run: OperatorRun, operator: OperatorShape, read: Read, new: Begun
) -> tuple[FamilyReport, ...]:
    number = operator.number
    finished = new.finished(number)
    if finished is not None:
        return finished
    new.require_own()
    new.files.delete_folder(f"state/{number}")
    families = run.run(operator, read)
    new.require_own()
    new.finish(number, families)
    return families


def _gone(runs: list[OperatorRun]) -> dict[str, Checksum]:
    found: dict[str, Checksum] = {}
    for run in runs:
        found |= run.left()
    return found


# Whether the query of an old checkpoint still runs, as far as anything shows it.
#
# A query that waits for rows writes nothing and holds no lock: its checkpoint is that of a stopped
# one. What can be seen is a query of the same Spark, and how long ago the last batch was begun.


RECENT = 600
"""Seconds after which a batch that was begun gives no reason to ask any more."""


def check_stopped(old: Files, spark: SparkSession) -> None:
    """Raise `RewriteError` where a query of this Spark, in whichever session, writes to ``old``.

    That none does says nothing of queries elsewhere.
    """
    if not has_jvm(spark):
        # Spark Connect tells of a query's id alone, which a fork of it has too.
        return
    # Of the session's own queries PySpark tells; a notebook has more than one session.
    active = spark._jsparkSession.sharedState().activeStreamingQueries()
    for query in active.values():
        if is_at(query.resolvedCheckpointRoot(), uri_of(old)):
            raise RewriteError(
                "SM-REWRITE-049",
                f"a query runs on {old.location}",
                expected="a query that is stopped, since what it takes meanwhile would be missing",
                found=f"query {query.id()}, in the Spark that would rewrite its state",
                next_action="stop it, and run the same command again; nothing was written",
                path=old.location,
                query=str(query.id()),
            )


def doubts(begun: int) -> tuple[str, ...]:
    """What is to be asked where a batch was ``begun`` lately, in milliseconds since 1970."""
    if seconds_since(begun) >= RECENT:
        return ()
    return (
        f"Is the query stopped? Its last batch was begun {time_since(begun)}, and no checkpoint "
        "shows a query that waits for rows.",
    )
