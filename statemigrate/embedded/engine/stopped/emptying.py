"""What is done to one partition of a stopped query, in whichever process, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from statemigrate.budget import Chunk, Tuner
from statemigrate.embedded.engine.tasks.opening import opened_for, retire_families
from statemigrate.embedded.engine.tasks.plan import BatchPlan
from statemigrate.embedded.engine.tasks.report import PartitionReport
from statemigrate.embedded.engine.tasks.stores import OpenStores
from statemigrate.embedded.working.partition import Partition
from statemigrate.processor.keys.codec import KeyCodec


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
        with opened_for(self.plan, number) as partition:
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
                report.damages = [asdict(each) for each in partition.damages]
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
        with opened_for(self.plan, number) as partition:
            _stores(partition, self.plan, self.key)
            retire_families(partition, self.plan, number)
            report.state = partition.commit(snapshot=False).to_json()
            report.damages = [asdict(each) for each in partition.damages]
        yield asdict(report)


def _stores(partition: Partition, plan: BatchPlan, key: Any) -> OpenStores:
    return OpenStores(partition, plan, partial(_keys, key))


def _keys(key: Any) -> KeyCodec:
    # PySpark takes longer to load than little state takes to migrate, and is for errors alone.
    from pyspark.sql.types import StructType

    return KeyCodec(StructType.fromJson(key))


def _observed(tuner: Tuner, report: PartitionReport) -> Tuner:
    return tuner if report.chunk is None else tuner.observe(Chunk(**report.chunk), 0.0)
