"""One operator of a plan: its rows read, changed, brought to their new partitions and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import used_partitions
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.files import Files, local_path
from statemigrate.rewrite.plan.families import FamilyPlan, families_of
from statemigrate.rewrite.plan.plan import OperatorPlan, RewritePlan
from statemigrate.rewrite.rows.checksums import Checksum, hashes
from statemigrate.rewrite.rows.columns import changed_key, changed_value, partition_of
from statemigrate.rewrite.rows.entries import MERGED, ORIGINS
from statemigrate.rewrite.rows.reading import StateReader
from statemigrate.rewrite.rows.scripted import one_of_each, upgraded
from statemigrate.rewrite.rows.surveying import survey
from statemigrate.rewrite.rows.telling import Telling, told
from statemigrate.rewrite.run.report import FamilyReport
from statemigrate.rewrite.writing.delivery import deliver
from statemigrate.rewrite.writing.partition import SCHEMA, PartitionTask, Written
from statemigrate.rewrite.writing.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class OperatorRun:
    """Rewrites one operator of a ``plan`` with rows of ``reader`` into the ``target``."""

    plan: RewritePlan
    operator: OperatorPlan
    reader: StateReader
    target: Files

    def surveyed(self) -> dict[str, Checksum]:
        """What is read, by the names of families. Raises `RewriteError` for rows out of place."""
        return {
            each.name: self._surveyed(each)
            for each in self.operator.families
            if each.old is not None
        }

    def run(self, read: dict[str, Checksum]) -> tuple[FamilyReport, ...]:
        """Write the operator's files; ``read`` is what `surveyed` has found."""
        new = self.operator.new
        assert new is not None, "an operator that goes is not written"  # noqa: S101
        families = [each for each in self.operator.families if not each.is_derived]
        task = self._task(new, families)
        frames = [
            self._placed(new, number, each)
            for number, each in enumerate(families)
            if each.old is not None
        ]
        found: dict[int, dict[int, Tally]] = {}
        if frames:
            for partition, report in self._written(frames, task, used_partitions(new)):
                found[partition] = report
        for partition in range(used_partitions(new)):
            if partition not in found:
                # Spark runs no task for what it knows to be empty.
                batches = task.write(partition, ())
                found.update(deliver(_rows(batches), self.target))
        return tuple(
            self._report(each, read.get(each.name), {p: found[p][n] for p in sorted(found)})
            for n, each in enumerate(families)
        )

    def _report(
        self, family: FamilyPlan, read: Checksum | None, written: dict[int, Tally]
    ) -> FamilyReport:
        total = sum(written.values(), Tally())
        return FamilyReport(
            family.name,
            family.change,
            read,
            {partition: each.checksum for partition, each in written.items()},
            total.merged,
            0 if read is None else read.count - total.origins,
            self._source(family),
        )

    def _source(self, family: FamilyPlan) -> str:
        places = [] if self.operator.old is None else families_of(self.operator.old)
        return next((name for name, place in places if place == family.old), "")

    def left(self) -> dict[str, Checksum]:
        """What is in old families that no new one goes on with, by their names."""
        old, kept = self.operator.old, [each.old for each in self.operator.families]
        if old is None:
            return {}
        return {
            name: survey(self.reader.rows(old, place), old, place, name).total
            for name, place in families_of(old)
            if place not in kept
        }

    def _surveyed(self, family: FamilyPlan) -> Checksum:
        old = self.operator.old
        assert old is not None, "a family with rows is an old operator's"  # noqa: S101
        assert family.old is not None, "asked before"  # noqa: S101
        rows = self.reader.rows(old, family.old)
        return survey(rows, old, family.old, family.name).total

    def _placed(self, new: OperatorShape, number: int, family: FamilyPlan) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        changed = self._changed(family)
        return changed.select(
            partition_of(new, family.new).alias("partition"),
            F.lit(number).alias("family"),
            *hashes(changed.schema),
            ORIGINS,
            MERGED,
            F.col("key").alias(f"key_{number}"),
            F.col("value").alias(f"value_{number}"),
        )

    def _changed(self, family: FamilyPlan) -> DataFrame:
        """The rows of a family as they become, with the counts of `entries`."""
        from pyspark.sql import functions as F  # noqa: N812

        old = self.operator.old
        assert old is not None, "a family with rows is an old operator's"  # noqa: S101
        assert family.old is not None, "asked before"  # noqa: S101
        rows = self.reader.rows(old, family.old)
        if family.script is not None:
            return upgraded(rows, family)
        one, none = F.lit(1).cast("long").alias(ORIGINS), F.lit(0).cast("long").alias(MERGED)
        changed = rows.select(
            changed_key(family).alias("key"),
            changed_value(family, self.plan.starts).alias("value"),
            one,
            none,
        )
        return one_of_each(changed) if family.key and family.key.dropped else changed

    def _written(
        self, frames: list[DataFrame], task: PartitionTask, partitions: int
    ) -> Iterator[tuple[int, dict[int, Tally]]]:
        rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
        placed = rows.repartitionById(partitions, "partition")
        results = placed.mapInArrow(Telling(task), SCHEMA)
        # From a local disk only reports come; files come a piece at a time.
        local = task.root is not None
        with told():
            rows_back = results.collect() if local else results.toLocalIterator()
            yield from deliver(rows_back, self.target)

    def _task(self, new: OperatorShape, families: list[FamilyPlan]) -> PartitionTask:
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
        )


def _rows(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from batch.to_pylist()
