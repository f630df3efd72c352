"""A partition opened for a plan, and its stores, each behind its dual access; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from statemigrate.access import DualAccess
from statemigrate.budget import Budget, Chunk, run_chunk
from statemigrate.deployment import Declared, StoredFamily, StorePlan
from statemigrate.embedded.chains import older_chains
from statemigrate.embedded.families import RocksFamily
from statemigrate.embedded.partition import Partition, PartitionPaths, opened
from statemigrate.embedded.task_plan import BatchPlan, PartitionReport
from statemigrate.errors import CheckpointError
from statemigrate.families import Source
from statemigrate.processor.keys import KeyCodec, shown_key
from statemigrate.processor.stores import OpenStores, Role

# The stores of one open partition, each behind its dual access.


class PartitionStores(OpenStores):
    """The stores of a plan over one open partition.

    ``keys`` makes the codec of its keys, once an error is to name one.
    """

    def __init__(self, partition: Partition, plan: BatchPlan, keys: Callable[[], KeyCodec]) -> None:
        super().__init__(write_on_read=plan.write_on_read)
        self._partition = partition
        self._plan = plan
        self._keys = keys
        self._values: list[RocksFamily] = []
        for store in plan.stores.values():
            self.add(store)

    def family(self, plan: StorePlan, family: StoredFamily, role: Role) -> RocksFamily:
        """See `OpenStores`."""
        kind = plan.declared.kind
        if role == "complement":
            return self._partition.target(family, "value")
        if role == "source":
            if self._plan.first_of_run:
                self._partition.retry_quarantined(family.name)
            return self._partition.source(family, kind)
        opened = self._partition.target(family, kind)
        if kind == "value":
            self._values.append(opened)
        return opened

    def shown(self, declared: Declared, key: bytes) -> tuple[Any, ...]:
        """See `OpenStores`."""
        user_key = declared.user_key
        return shown_key(self._keys(), None if user_key is None else KeyCodec(user_key), key)

    def read_ahead(self, keys: list[bytes]) -> None:
        """Fetch what the processor will probably ask of value state, for many keys at once."""
        for family in self._values:
            family.read_ahead(keys)

    def migrate_share(self, report: PartitionReport) -> None:
        """Migrate a chunk of what is left, within the budget."""
        if self._plan.backfill.enabled:
            shared_ms = self._plan.shared_batch_ms(report.rows, report.live_ms)
            self.migrate(report, self._plan.tuner.budget(shared_ms))

    def migrate(self, report: PartitionReport, budget: Budget) -> bool:
        """Migrate as much as the budget allows; whether nothing is left but what cannot migrate."""
        for access in self.accesses:
            for source in access.sources:
                chunk = self._chunk(access, source, budget)
                _add(report, chunk)
                budget = _rest(budget, chunk)
                if not chunk.finished:
                    return False
        return True

    def _chunk(self, access: DualAccess[Any], source: Source[Any], budget: Budget) -> Chunk:
        on_error = self._plan.backfill.on_error
        return run_chunk(access, source, self._partition, budget, on_error=on_error)


def _add(report: PartitionReport, chunk: Chunk) -> None:
    report.backfilled += chunk.migrated
    report.quarantined += chunk.quarantined
    report.chunk = asdict(chunk if report.chunk is None else _sum_of_chunks(report.chunk, chunk))


def _sum_of_chunks(first: dict[str, Any], second: Chunk) -> Chunk:
    one = Chunk(**first)
    return Chunk(
        one.migrated + second.migrated,
        one.quarantined + second.quarantined,
        one.milliseconds + second.milliseconds,
        one.finished and second.finished,
    )


def _rest(budget: Budget, chunk: Chunk) -> Budget:
    rows = budget.rows - chunk.migrated - chunk.quarantined
    return Budget(rows, budget.milliseconds - chunk.milliseconds)


# The partition that a plan is for: where it is opened, and what is dropped from it.
#
# Used on a stopped query too, so nothing here needs Spark: little state is done in no time.


@contextmanager
def opened_for(plan: BatchPlan, number: int) -> Iterator[Partition]:
    """The partition of a number, as `opened` has it, from the state that ``plan`` starts from."""
    place = PartitionPaths(
        number, plan.layout.partition(number), working_copy(plan.working, number)
    )
    state = plan.partitions[number]
    older = partial(older_chains, plan.layout, number, state)
    lost = plan.lost.get(number, frozenset())
    with opened(place, state, plan.version, older=older, lost=lost) as partition:
        yield partition


def working_copy(working: str, number: int) -> Path:
    """Where the working copy of a partition is."""
    return Path(working) / f"partition-{number}"


def retire_families(partition: Partition, plan: BatchPlan, number: int) -> None:
    """Drop what the plan retires, and complements that code gives up.

    Raises `CheckpointError` for another family that holds anything.
    """
    for store in plan.stores.values():
        if store.dropped is not None:
            partition.drop(store.dropped.name, only_if_empty=False)
    for name in sorted(plan.retired):
        if not partition.drop(name):
            raise CheckpointError(
                "SM-EMBEDDED-010",
                f"family {name} was to be retired, but partition {number} still has values in it",
                expected="a family that is empty in every partition",
                found="at least one value",
                next_action="restart the query: nothing of this batch was written, and the family "
                "is read again; please report this",
                family=name,
            )
