"""The partition that a plan is for: where it is opened, and what is dropped from it.

Used on a stopped query too, so nothing here needs Spark: little state is done in no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from statemigrate.embedded.engine.tasks.plan import BatchPlan
from statemigrate.embedded.versions.chains import older_chains
from statemigrate.embedded.working.partition import Partition, PartitionPlace, opened
from statemigrate.errors import CheckpointError


@contextmanager
def opened_for(plan: BatchPlan, number: int) -> Iterator[Partition]:
    """The partition of a number, as `opened` has it, from the state that ``plan`` starts from."""
    place = PartitionPlace(
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
    """Drop what the plan retires. Raises `CheckpointError` for a family that holds anything."""
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
