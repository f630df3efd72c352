"""What is done to one partition of a stopped query, in whichever process, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.budget import Chunk, Tuner
from statemigrate.embedded.engine.plan import BatchPlan
from statemigrate.embedded.engine.report import PartitionReport
from statemigrate.embedded.engine.stores import OpenStores
from statemigrate.embedded.engine.task import retire_families, working_copy
from statemigrate.embedded.working.partition import Partition, PartitionPlace, opened
from statemigrate.processor.keys import KeyCodec


@dataclass(frozen=True)
class Emptying:
    """Migrates a partition to the plan's targets, chunk after chunk.

    ``key`` is the type of the grouping key, as JSON values. After ``longest`` changelogs a snapshot
    takes their place: each chunk's manifest names them all.
    """

    plan: BatchPlan
    key: Any
    longest: int

    def __call__(self, number: int) -> Iterator[dict[str, Any]]:
        """A report for each chunk, once it is durable; the last one leaves a snapshot."""
        with _opened(self.plan, number) as partition:
            stores = _stores(partition, self.plan, self.key)
            tuner, finished = self.plan.tuner, False
            while not finished:
                report = PartitionReport(number)
                finished = stores.migrate(report, tuner.budget(0.0))
                if finished:
                    state = partition.commit(snapshot=True)
                else:
                    state = partition.publish(snapshot=partition.changelogs >= self.longest)
                report.state = state.to_json()
                tuner = _observed(tuner, report)
                yield asdict(report)


@dataclass(frozen=True)
class Retiring:
    """Drops a partition's families that the plan retires, re-checked to be empty."""

    plan: BatchPlan
    key: Any

    def __call__(self, number: int) -> Iterator[dict[str, Any]]:
        """One report."""
        report = PartitionReport(number)
        with _opened(self.plan, number) as partition:
            _stores(partition, self.plan, self.key)
            retire_families(partition, self.plan, number)
            report.state = partition.commit(snapshot=False).to_json()
        yield asdict(report)


@contextmanager
def _opened(plan: BatchPlan, number: int) -> Iterator[Partition]:
    place = PartitionPlace(
        number, plan.layout.partition(number), working_copy(plan.working, number)
    )
    with opened(place, plan.partitions[number], plan.version) as partition:
        yield partition


def _stores(partition: Partition, plan: BatchPlan, key: Any) -> OpenStores:
    from pyspark.sql.types import StructType

    return OpenStores(partition, plan, KeyCodec(StructType.fromJson(key)))


def _observed(tuner: Tuner, report: PartitionReport) -> Tuner:
    return tuner if report.chunk is None else tuner.observe(Chunk(**report.chunk), 0.0)
