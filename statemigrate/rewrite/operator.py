"""One operator of a plan: its rows read, changed, brought to their new partitions and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import is_avro
from statemigrate.checkpoint.operators import OperatorShape, partition_columns, used_partitions
from statemigrate.files import Files, local_path
from statemigrate.rewrite.checksums import RowsChecksum, hashes
from statemigrate.rewrite.column_pairing import FamilyAddress, is_unused, store_families
from statemigrate.rewrite.entry_functions import MERGED, ORIGINS, change_task
from statemigrate.rewrite.family_plans import (
    ChangedFamily,
    DerivedFamily,
    EntryFamily,
    FamilyPlan,
    JoinedFamily,
    LargeValueFamily,
    MatchedRows,
    NewFamily,
    ScriptedRows,
    changed_families,
    unclaimed_families,
)
from statemigrate.rewrite.file_reading import (
    BlockWriter,
    PartitionRewriter,
    StoredFlow,
    partitions_frame,
    survey_stored,
)
from statemigrate.rewrite.fork import copy_files, state_files
from statemigrate.rewrite.partitioning import BLOCKS, FamilySurvey, Placing, partition_of, survey
from statemigrate.rewrite.rewrite_plan import ContinuedOperator, OperatorPlan, RewritePlan
from statemigrate.rewrite.rewrite_report import Checksum, FamilyReport
from statemigrate.rewrite.spark_reader import RowReader
from statemigrate.rewrite.store_writers import SCHEMA, PartitionTask, Written, deliver
from statemigrate.rewrite.transform import Changes
from statemigrate.state import CarriesErrors, reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Operators whose state goes on byte for byte: their files are copied, no row is written.


_OF_STATE = "stateStore"
"""In the names of settings that say how files of state are written."""


@dataclass(frozen=True)
class Copies:
    """The ``names`` of new files, by those of the old ones in ``source``."""

    source: Files
    names: Mapping[str, str]

    def put(self, target: Files) -> None:
        """Copy them. Raises `CheckpointError` for one that is gone."""
        copy_files(self.source, target, self.names)


def copied_operators(plan: RewritePlan, old: Files) -> dict[int, Copies]:
    """What is copied of the checkpoint ``old``, by the new number of each operator that is kept.

    Avro notes schemas of the old checkpoint by their numbers in each row, and files with ids have
    other ones in the new commit: both are written again. Raises `CorruptFileError` for a file that
    is missing.
    """
    has_ids = any(shape.commits[shape.batch].state_ids for shape in (plan.old, plan.new))
    if has_ids or is_avro(plan.old.conf) or any(_OF_STATE in name for name in plan.changed_conf):
        return {}
    return {
        each.new.number: Copies(old, _renamed(state_files(old, plan.old, each.old), each))
        for each in plan.operators
        if isinstance(each, ContinuedOperator) and _is_unchanged(each)
    }


def _is_unchanged(operator: ContinuedOperator) -> bool:
    old, new = operator.old, operator.new
    same = old.name == new.name and old.stores == new.stores
    return same and all(
        isinstance(each, DerivedFamily) or is_unused(new, each.new.family) or _stays(each)
        for each in operator.families
    )


def _stays(family: FamilyPlan) -> bool:
    """Whether the family has the same rows under the same name."""
    return (
        isinstance(family, MatchedRows)
        and family.key.is_identity
        and family.value.is_identity
        and family.new.is_at(family.old)
    )


def _renamed(names: list[str], operator: ContinuedOperator) -> dict[str, str]:
    before, after = f"state/{operator.old.number}/", f"state/{operator.new.number}/"
    return {name: after + name.removeprefix(before) for name in names}


_Numbered = list[tuple[int, ChangedFamily]]
"""Families with their places among those that are written."""
Read = dict[str, dict[str, FamilySurvey]]
"""By the name of a family, and that of each old one that it goes on with."""


@dataclass(frozen=True)
class OperatorRun:
    """Rewrites one operator of a ``plan`` with rows of ``reader`` into the ``target``.

    Where files stay as they are, ``kept``, these are copied.
    """

    plan: RewritePlan
    operator: OperatorPlan
    reader: RowReader
    target: Files
    spark: SparkSession
    kept: Copies | None = None

    def surveyed(self) -> Read:
        """What is read.

        Raises `RewriteError` for rows out of place, and for expressions that are none.
        """
        operator = self.operator
        if not isinstance(operator, ContinuedOperator):
            return {}
        families, changes = changed_families(operator.families), self._changes(operator)
        for each in families:
            if isinstance(each, EntryFamily | JoinedFamily):
                changes.rows(each)
        return {
            each.name: dict(self._surveyed(operator.old, each))
            for each in families
            # The rows of large values are those of the pages that they belong to.
            if not isinstance(each, LargeValueFamily)
        }

    def run(self, new: OperatorShape, read: Read) -> tuple[FamilyReport, ...]:
        """Write the files of the ``new`` operator; ``read`` is what `surveyed` has found."""
        families = [each for each in self.operator.families if not isinstance(each, DerivedFamily)]
        if self.kept is not None:
            self.kept.put(self.target)
            return tuple(
                self._copied_report(each, read.get(each.name, {}), new) for each in families
            )
        task = self._task(new, families)
        found = dict(self._written(families, task))
        for partition in range(used_partitions(new)):
            if partition not in found:
                # Spark runs no task for what it knows to be empty.
                batches = task.write(partition, ())
                found.update(deliver(_rows(batches), self.target))
        return tuple(
            self._report(each, read.get(each.name, {}), {p: found[p][n] for p in sorted(found)})
            for n, each in enumerate(families)
        )

    def _copied_report(
        self, family: FamilyPlan, parts: dict[str, FamilySurvey], new: OperatorShape
    ) -> FamilyReport:
        """The report of copied files: what was found in the old ones."""
        there = {n: each for found in parts.values() for n, each in found.partitions.items()}
        tallies = {n: RowsChecksum(each, each.count) for n, each in there.items()}
        written = {n: tallies.get(n, RowsChecksum()) for n in range(used_partitions(new))}
        return self._report(family, parts, written)

    def _report(
        self, family: FamilyPlan, parts: dict[str, FamilySurvey], written: dict[int, RowsChecksum]
    ) -> FamilyReport:
        total, operator = sum(written.values(), RowsChecksum()), self.operator
        found = {name: each.total for name, each in parts.items()}
        read = sum(found.values(), Checksum()) if found else None
        return FamilyReport(
            family.name,
            family.change,
            read,
            {partition: each.checksum for partition, each in written.items()},
            total.merged,
            0 if read is None else read.count - total.origins,
            ",".join(found),
            found if len(found) > 1 else {},
            *(None if each is None else each.number for each in (operator.new, operator.old)),
        )

    def left(self) -> dict[str, Checksum]:
        """What is in old families that no new one goes on with, by their names."""
        old = self.operator.old
        if old is None:
            return {}
        return {
            name: self._looked_at(old, place, name).total
            for name, place in unclaimed_families(old, self.operator.families)
        }

    def _surveyed(
        self, old: OperatorShape, family: ChangedFamily
    ) -> Iterator[tuple[str, FamilySurvey]]:
        for source in family.sources:
            names = (name for name, place in store_families(old) if place.is_at(source))
            yield next(names, ""), self._looked_at(old, source, family.name)

    def _looked_at(self, old: OperatorShape, place: FamilyAddress, name: str) -> FamilySurvey:
        stored = self.reader.family(old, place)
        if stored is not None:
            return survey_stored(self.spark, stored, name)
        return survey(self.reader.rows(old, place), old, place, name)

    def _placed(self, operator: ContinuedOperator, number: int, family: ChangedFamily) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        rows = self._changes(operator).rows(family)
        return rows.select(
            partition_of(operator.new, family.new).alias("partition"),
            F.lit(number).alias("family"),
            *hashes(rows.schema),
            ORIGINS,
            MERGED,
            F.col("key").alias(f"key_{number}"),
            F.col("value").alias(f"value_{number}"),
        )

    def _changes(self, operator: ContinuedOperator) -> Changes:
        old, new, plan = operator.old, operator.new, self.plan
        batch_time = plan.old.offsets[plan.old.batch].timestamp
        return Changes(self.reader, old, new, operator.families, plan.starts, batch_time)

    def _written(
        self, families: list[NewFamily | ChangedFamily], task: PartitionTask
    ) -> Iterator[tuple[int, dict[int, RowsChecksum]]]:
        numbered = [(n, each) for n, each in enumerate(families) if not isinstance(each, NewFamily)]
        operator = self.operator
        if not numbered or not isinstance(operator, ContinuedOperator):
            return
        results = self._by_tasks(operator, numbered, task)
        results = results or self._by_spark(operator, numbered, task)
        # From a local disk only reports come; files come a piece at a time.
        local = task.root is not None
        with reraising_worker_errors():
            rows_back = results.collect() if local else results.toLocalIterator()
            yield from deliver(rows_back, self.target)

    def _by_spark(
        self, operator: ContinuedOperator, numbered: _Numbered, task: PartitionTask
    ) -> DataFrame:
        frames = [self._placed(operator, number, each) for number, each in numbered]
        rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
        placed = rows.repartitionById(used_partitions(task.operator), "partition")
        return placed.mapInArrow(CarriesErrors(task), SCHEMA)

    def _by_tasks(
        self, operator: ContinuedOperator, numbered: _Numbered, task: PartitionTask
    ) -> DataFrame | None:
        """Rows that are never Spark's; None where some have to be."""
        flows, stay = [], True
        for number, each in numbered:
            if not isinstance(each, MatchedRows | ScriptedRows):
                return None
            stored = self.reader.family(operator.old, each.old)
            change = change_task(each, self.plan.starts)
            if stored is None or change is None:
                return None
            placing = Placing(number, task.operator, each.new)
            flows.append(StoredFlow(stored, change, placing))
            stay = stay and _stays_in_partition(operator, each)
        partitions = partitions_frame(self.spark, flows[0].stored)
        if stay:
            return partitions.mapInArrow(
                CarriesErrors(PartitionRewriter(tuple(flows), task)), SCHEMA
            )
        blocks = [partitions.mapInArrow(CarriesErrors(flow), BLOCKS) for flow in flows]
        grouped = reduce(lambda one, other: one.unionAll(other), blocks)
        placed = grouped.repartitionById(used_partitions(task.operator), "partition")
        return placed.mapInArrow(CarriesErrors(BlockWriter(task)), SCHEMA)

    def _task(self, new: OperatorShape, families: list[NewFamily | ChangedFamily]) -> PartitionTask:
        place = local_path(self.target.location)
        return PartitionTask(
            new,
            tuple(
                Written(number, each.new.store.name, each.new.family.name)
                for number, each in enumerate(families)
            ),
            self.plan.new.batch + 1,
            dict(self.plan.new.conf),
            None if place is None else str(place),
            (self.plan.new.commits[self.plan.new.batch].state_ids or {}).get(new.number, ()),
        )


def _stays_in_partition(operator: ContinuedOperator, family: MatchedRows | ScriptedRows) -> bool:
    """Whether every row stays in its partition, where its key stays as it was."""
    is_unchanged = isinstance(family, ScriptedRows) or family.key.is_identity
    before, after = (operator.old, family.old), (operator.new, family.new)
    return is_unchanged and _laying_out(*before) == _laying_out(*after)


def _laying_out(operator: OperatorShape, place: FamilyAddress) -> tuple[object, int]:
    """What decides in which partition a row of a family lies."""
    columns = partition_columns(operator, place.store, place.family)
    return columns, used_partitions(operator)


def _rows(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from batch.to_pylist()
